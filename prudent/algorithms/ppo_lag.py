"""PPO-Lag: PPO on a Lagrangian (Ray, Achiam and Amodei 2019).

    multiplier   ascend λ (J_C - d), once per epoch
    advantage    A = (A_r - λ A_c) / (1 + λ)
    policy       maximise E[min(ρ A, clip(ρ, 1 - ε, 1 + ε) A)]

J_C is the mean cost of finished episodes, d the budget, both counted as the task counts.
"""

from prudent.configs import OnPolicyConfig
from prudent.pieces.on_policy_actor_critic import adaptive, by_passes, lagrangian, on_policy
from prudent.pieces.types import Algorithm, Spec


def ppo_lag(config: OnPolicyConfig, spec: Spec) -> Algorithm:
    improve = by_passes(config, config.clip)
    return on_policy(config, spec, dual=adaptive(config), combine=lagrangian, improve=improve)
