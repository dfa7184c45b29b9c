"""PPO: proximal policy optimisation (Schulman et al. 2017), the constraint ignored.

    policy   maximise E[min(ρ A_r, clip(ρ, 1 - ε, 1 + ε) A_r)],  ρ = π(a|s) / π_old(a|s)

The cost is estimated and reported all the same. ε is `clip`.
"""

from __future__ import annotations

from prudent.algorithms.on_policy_presets import on_policy_entry
from prudent.compute import multipliers, on_policy, types
from prudent.settings.configs import ClippedConfig


def ppo(config: ClippedConfig, spec: types.Spec) -> types.Algorithm:
    dual, improve = multipliers.fixed(0.0), on_policy.by_passes(config, config.clip)
    return on_policy.on_policy(config, spec, dual, on_policy.reward_only, improve)


PPO = on_policy_entry(
    "ppo", "proximal policy optimisation, cost ignored but estimated", ppo, ClippedConfig, {}
)
