"""The algorithms by name: what settings each reads, and where its factory lives."""

from importlib import import_module
from typing import Any, NamedTuple

from prudent.configs import (
    AlgorithmConfig,
    CALConfig,
    CVPOConfig,
    OffPolicySchedule,
    OnPolicyConfig,
    OnPolicySchedule,
    SACPIDConfig,
    Schedule,
    WCSACConfig,
)


class Entry(NamedTuple):
    config: type[AlgorithmConfig]
    schedule: type[Schedule]  # decides the training loop
    module: str  # prudent.algorithms.<module>, whose function of the same name builds it
    summary: str


ALGORITHMS = {
    "cal": Entry(
        CALConfig,
        OffPolicySchedule,
        "cal",
        "conservative augmented Lagrangian SAC (the paper's method)",
    ),
    "ucb": Entry(CALConfig, OffPolicySchedule, "cal", "CAL without the quadratic term (UCB-k)"),
    "sac-lag": Entry(
        CALConfig, OffPolicySchedule, "cal", "SAC with one cost critic and a Lagrange multiplier"
    ),
    "sac": Entry(
        CALConfig, OffPolicySchedule, "cal", "soft actor-critic, cost ignored but estimated"
    ),
    "sac-pid": Entry(
        SACPIDConfig, OffPolicySchedule, "sac_pid", "SAC with a PID-controlled cost multiplier"
    ),
    "wcsac": Entry(
        WCSACConfig, OffPolicySchedule, "wcsac", "SAC that bounds the mean of the worst outcomes"
    ),
    "cvpo": Entry(
        CVPOConfig, OffPolicySchedule, "cvpo", "constrained variational policy optimisation"
    ),
}
ON_POLICY = {
    "pdo": "primal-dual policy gradient, on-policy",
    "rcpo": "natural gradient of the Lagrangian, on-policy",
    "ipo": "PPO with a log barrier",
    "crpo": "trust region: reward while the budget is kept, else cost",
    "cup": "PPO, then projection towards lower cost",
    "ppo-lag": "PPO with a Lagrange multiplier",
    "cppo-pid": "PPO with a multiplier under PID control",
    "ppo": "proximal policy optimisation, cost ignored but estimated",
}
ALGORITHMS |= {
    name: Entry(OnPolicyConfig, OnPolicySchedule, name.replace("-", "_"), summary)
    for name, summary in ON_POLICY.items()
}


def build(name: str, config: Any, spec: Any) -> Any:
    """The algorithm's four functions. Imports JAX, which nothing before this point does."""
    module = ALGORITHMS[name].module
    return getattr(import_module(f"prudent.algorithms.{module}"), module)(config, spec)
