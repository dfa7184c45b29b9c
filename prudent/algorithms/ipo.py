"""IPO: interior-point policy optimisation (Liu, Ding and Liu 2020).

    penalty     p = κ / (d - J_C), the slope of the barrier -κ log(d - J_C), but no more than a
                cap, which also holds where the budget is broken
    advantage   A = (A_r - p A_c) / (1 + p)
    policy      PPO's clipped ratio

κ is `barrier_strength`, the cap `barrier_cap`. The penalty has no memory: it answers to this
epoch's J_C alone.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from prudent.algorithms.on_policy_presets import NORMALISED, on_policy_entry
from prudent.pieces.dual import Multiplier
from prudent.pieces.improvement import by_passes
from prudent.pieces.on_policy import lagrangian, on_policy
from prudent.pieces.surrogates import barrier
from prudent.pieces.types import Algorithm, Spec
from prudent.settings.checks import Positive
from prudent.settings.configs import ClippedConfig, CostAdvantageConfig


@dataclass(frozen=True)
class IPOConfig(ClippedConfig, CostAdvantageConfig):
    barrier_strength: Positive = 0.01
    """Weight of the log barrier."""
    barrier_cap: Positive = 1.0
    """Largest penalty, and the one where the budget is broken."""


def ipo(config: IPOConfig, spec: Spec) -> Algorithm:
    def penalty(state: jax.Array, violation: jax.Array) -> jax.Array:
        return barrier(violation, config.barrier_strength, config.barrier_cap)

    dual, improve = (
        Multiplier(lambda: jnp.zeros(()), lambda state: state, penalty),
        by_passes(config, config.clip),
    )
    return on_policy(config, spec, dual, lagrangian, improve)


IPO = on_policy_entry("ipo", "PPO with a log barrier", ipo, IPOConfig, {**NORMALISED, "passes": 10})
