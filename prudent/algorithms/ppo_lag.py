"""PPO-Lag: PPO on a Lagrangian (Ray, Achiam and Amodei 2019).

    multiplier   ascend λ (J_C - d), once per epoch
    advantage    A = (A_r - λ A_c) / (1 + λ)
    policy       maximise E[min(ρ A, clip(ρ, 1 - ε, 1 + ε) A)]

J_C is the mean cost of finished episodes, d the budget, both counted as the task counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from prudent.algorithms.entry import Entry
from prudent.algorithms.on_policy_presets import on_policy_presets
from prudent.compute import on_policy, types
from prudent.configs import ClippedConfig, LagrangianConfig, OnPolicySchedule


@dataclass(frozen=True)
class PPOLagConfig(ClippedConfig, LagrangianConfig):
    pass


def ppo_lag(config: PPOLagConfig, spec: types.Spec) -> types.Algorithm:
    return on_policy.on_policy(
        config,
        spec,
        dual=on_policy.adaptive(config),
        combine=on_policy.lagrangian,
        improve=on_policy.by_passes(config, config.clip),
    )


PPO_LAG = Entry(
    name="ppo-lag",
    summary="PPO with a Lagrange multiplier",
    build=ppo_lag,
    config=PPOLagConfig,
    schedule=OnPolicySchedule,
    presets=partial(on_policy_presets, {}),
)
