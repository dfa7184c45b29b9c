"""RCPO: reward constrained policy optimisation (Tessler et al. 2019), by natural gradient.

    multiplier   ascend λ (J_C - d), once per epoch
    advantage    A = (A_r - λ A_c) / (1 + λ)
    policy       θ += x sqrt(2 δ / xᵀFx),  F x = ∇E[ρ A]

The original folds -λ cost into the reward and learns one critic; here the two critics stay apart
and the advantages are combined. There is no line search, so the realised divergence can exceed δ
(`max_divergence`).
"""

from dataclasses import dataclass

from prudent.algorithms.on_policy_presets import SECOND_ORDER, on_policy_entry
from prudent.pieces.improvement import by_natural_gradient
from prudent.pieces.on_policy import adaptive, lagrangian, on_policy
from prudent.pieces.types import Algorithm, Spec
from prudent.settings.configs import LagrangianConfig, SecondOrderConfig


@dataclass(frozen=True)
class RCPOConfig(SecondOrderConfig, LagrangianConfig):
    pass


def rcpo(config: RCPOConfig, spec: Spec) -> Algorithm:
    dual, improve = adaptive(config), by_natural_gradient(config, search=False)
    return on_policy(config, spec, dual, lagrangian, improve)


RCPO = on_policy_entry(
    "rcpo", "natural gradient of the Lagrangian, on-policy", rcpo, RCPOConfig, SECOND_ORDER
)
