"""CRPO: constraint-rectified policy optimisation (Xu, Liang and Lan 2021).

    advantage   A = A_r while J_C <= d + tolerance, else -A_c
    policy      one trust-region step with line search (or PPO's passes, `base`)

There is no dual variable: the policy earns while it may, and saves while it must.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from prudent.algorithms.on_policy_presets import SECOND_ORDER, on_policy_entry
from prudent.compute import jax, jnp, multipliers, on_policy, types
from prudent.settings.checks import Finite
from prudent.settings.configs import ClippedConfig, CostAdvantageConfig, SecondOrderConfig


@dataclass(frozen=True)
class CRPOConfig(ClippedConfig, SecondOrderConfig, CostAdvantageConfig):
    tolerance: Finite = 2.0
    """Cost over the budget at which reward is still followed."""
    base: Literal["trpo", "ppo"] = "trpo"
    """The improvement step; `ppo` reads `clip` and the policy's rate, `trpo` reads `damping`."""


def crpo(config: CRPOConfig, spec: types.Spec) -> types.Algorithm:
    def rectified(batch: on_policy.Batch, multiplier: jax.Array, violation: jax.Array) -> jax.Array:
        within = violation <= config.tolerance
        return jnp.where(within, batch.reward_advantage, -batch.cost_advantage)

    if config.base == "ppo":
        improve = on_policy.by_passes(config, config.clip)
    else:
        improve = on_policy.by_natural_gradient(config, search=True)
    return on_policy.on_policy(config, spec, multipliers.fixed(0.0), rectified, improve)


CRPO = on_policy_entry(
    "crpo",
    "trust region: reward while the budget is kept, else cost",
    crpo,
    CRPOConfig,
    SECOND_ORDER,
)
