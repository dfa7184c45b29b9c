"""RCPO: reward constrained policy optimisation (Tessler et al. 2019), by natural gradient.

    multiplier   ascend λ (J_C - d), once per epoch
    advantage    A = (A_r - λ A_c) / (1 + λ)
    policy       θ += x sqrt(2 δ / xᵀFx),  F x = ∇E[ρ A]

The original folds -λ cost into the reward and learns one critic; here the two critics stay apart
and the advantages are combined. There is no line search, so the realised divergence can exceed δ
(`max_divergence`).
"""

from prudent.configs import OnPolicyConfig
from prudent.pieces.on_policy_actor_critic import (
    adaptive,
    by_natural_gradient,
    lagrangian,
    on_policy,
)
from prudent.pieces.types import Algorithm, Spec


def rcpo(config: OnPolicyConfig, spec: Spec) -> Algorithm:
    improve = by_natural_gradient(config, search=False)
    return on_policy(config, spec, dual=adaptive(config), combine=lagrangian, improve=improve)
