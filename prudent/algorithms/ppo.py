"""PPO: proximal policy optimisation (Schulman et al. 2017), the constraint ignored.

    policy   maximise E[min(ρ A_r, clip(ρ, 1 - ε, 1 + ε) A_r)],  ρ = π(a|s) / π_old(a|s)

The cost is estimated and reported all the same. ε is `clip`.
"""

from prudent.algorithms.on_policy_presets import on_policy_entry
from prudent.pieces.dual import fixed
from prudent.pieces.improvement import by_passes
from prudent.pieces.on_policy import on_policy, reward_only
from prudent.pieces.types import Algorithm, Spec
from prudent.settings.configs import ClippedConfig


def ppo(config: ClippedConfig, spec: Spec) -> Algorithm:
    dual, improve = fixed(0.0), by_passes(config, config.clip)
    return on_policy(config, spec, dual, reward_only, improve)


PPO = on_policy_entry(
    "ppo", "proximal policy optimisation, cost ignored but estimated", ppo, ClippedConfig, {}
)
