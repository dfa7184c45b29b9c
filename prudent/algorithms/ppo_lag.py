"""PPO-Lag: PPO on a Lagrangian (Ray, Achiam and Amodei 2019).

    multiplier   ascend λ (J_C - d), once per epoch
    advantage    A = (A_r - λ A_c) / (1 + λ)
    policy       maximise E[min(ρ A, clip(ρ, 1 - ε, 1 + ε) A)]

J_C is the mean cost of finished episodes, d the budget, both counted as the task counts.
"""

from dataclasses import dataclass

from prudent.algorithms.on_policy_presets import on_policy_entry
from prudent.pieces.improvement import by_passes
from prudent.pieces.on_policy import adaptive, lagrangian, on_policy
from prudent.pieces.types import Algorithm, Spec
from prudent.settings.configs import ClippedConfig, LagrangianConfig


@dataclass(frozen=True)
class PPOLagConfig(ClippedConfig, LagrangianConfig):
    pass


def ppo_lag(config: PPOLagConfig, spec: Spec) -> Algorithm:
    dual, improve = adaptive(config), by_passes(config, config.clip)
    return on_policy(config, spec, dual, lagrangian, improve)


PPO_LAG = on_policy_entry("ppo-lag", "PPO with a Lagrange multiplier", ppo_lag, PPOLagConfig, {})
