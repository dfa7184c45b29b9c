"""RCPO: reward constrained policy optimisation (Tessler et al. 2019), by natural gradient.

    multiplier   ascend λ (J_C - d), once per epoch
    advantage    A = (A_r - λ A_c) / (1 + λ)
    policy       θ += x sqrt(2 δ / xᵀFx),  F x = ∇E[ρ A]

The original folds -λ cost into the reward and learns one critic; here the two critics stay apart
and the advantages are combined. There is no line search, so the realised divergence can exceed δ
(`max_divergence`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from prudent.algorithms.entry import Entry
from prudent.algorithms.on_policy_presets import SECOND_ORDER, on_policy_presets
from prudent.compute import on_policy, types
from prudent.configs import LagrangianConfig, OnPolicySchedule, SecondOrderConfig


@dataclass(frozen=True)
class RCPOConfig(SecondOrderConfig, LagrangianConfig):
    pass


def rcpo(config: RCPOConfig, spec: types.Spec) -> types.Algorithm:
    return on_policy.on_policy(
        config,
        spec,
        dual=on_policy.adaptive(config),
        combine=on_policy.lagrangian,
        improve=on_policy.by_natural_gradient(config, search=False),
    )


RCPO = Entry(
    name="rcpo",
    summary="natural gradient of the Lagrangian, on-policy",
    build=rcpo,
    config=RCPOConfig,
    schedule=OnPolicySchedule,
    presets=partial(on_policy_presets, SECOND_ORDER),
)
