"""The algorithms by name: what settings each reads, and where its factory lives."""

from importlib import import_module
from typing import Any, NamedTuple

from prudent.configs import CALConfig


class Entry(NamedTuple):
    config: type
    module: str  # prudent.algorithms.<module>, whose function of the same name builds it
    summary: str


ALGORITHMS = {
    "cal": Entry(CALConfig, "cal", "conservative augmented Lagrangian SAC (the paper's method)"),
    "ucb": Entry(CALConfig, "cal", "CAL without the quadratic term (UCB-k)"),
    "sac-lag": Entry(CALConfig, "cal", "SAC with one cost critic and a Lagrange multiplier"),
    "sac": Entry(CALConfig, "cal", "soft actor-critic, cost ignored but estimated"),
}


def build(name: str, config: Any, spec: Any) -> Any:
    """The algorithm's four functions. Imports JAX, which nothing before this point does."""
    module = ALGORITHMS[name].module
    return getattr(import_module(f"prudent.algorithms.{module}"), module)(config, spec)
