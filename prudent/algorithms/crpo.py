"""CRPO: constraint-rectified policy optimisation (Xu, Liang and Lan 2021).

    advantage   A = A_r while J_C <= d + tolerance, else -A_c
    policy      one trust-region step with line search (or PPO's passes, `base`)

There is no dual variable: the policy earns while it may, and saves while it must.
"""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp

from prudent.algorithms.on_policy_presets import SECOND_ORDER, on_policy_entry
from prudent.pieces.dual import fixed
from prudent.pieces.improvement import by_natural_gradient, by_passes
from prudent.pieces.on_policy import Samples, on_policy
from prudent.pieces.types import Algorithm, Spec
from prudent.settings.checks import Finite
from prudent.settings.configs import ClippedConfig, CostAdvantageConfig, SecondOrderConfig


@dataclass(frozen=True)
class CRPOConfig(ClippedConfig, SecondOrderConfig, CostAdvantageConfig):
    tolerance: Finite = 2.0
    """Cost over the budget at which reward is still followed."""
    base: Literal["trpo", "ppo"] = "trpo"
    """The improvement step; `ppo` reads `clip` and the policy's rate, `trpo` reads `damping`."""


def crpo(config: CRPOConfig, spec: Spec) -> Algorithm:
    def rectified(batch: Samples, multiplier: jax.Array, violation: jax.Array) -> jax.Array:
        within = violation <= config.tolerance
        return jnp.where(within, batch.reward_advantage, -batch.cost_advantage)

    if config.base == "ppo":
        improve = by_passes(config, config.clip)
    else:
        improve = by_natural_gradient(config, search=True)
    return on_policy(config, spec, fixed(0.0), rectified, improve)


CRPO = on_policy_entry(
    "crpo",
    "trust region: reward while the budget is kept, else cost",
    crpo,
    CRPOConfig,
    SECOND_ORDER,
)
