"""IPO: interior-point policy optimisation (Liu, Ding and Liu 2020).

    penalty     p = κ / (d - J_C), the slope of the barrier -κ log(d - J_C); a cap where p > 1 and
                where the budget is broken
    advantage   A = (A_r - p A_c) / (1 + p)
    policy      PPO's clipped ratio

κ is `barrier_strength`. The penalty has no memory: it answers to this epoch's J_C alone.
"""

import jax
import jax.numpy as jnp

from prudent.configs import OnPolicyConfig
from prudent.pieces.multipliers import Multiplier
from prudent.pieces.on_policy_actor_critic import by_passes, lagrangian, on_policy
from prudent.pieces.surrogates import barrier
from prudent.pieces.types import Algorithm, Spec


def ipo(config: OnPolicyConfig, spec: Spec) -> Algorithm:
    def penalty(state: jax.Array, violation: jax.Array) -> jax.Array:
        return barrier(violation, config.barrier_strength, config.barrier_cap)

    dual = Multiplier(lambda: jnp.zeros(()), value=lambda state: state, update=penalty)
    improve = by_passes(config, config.clip)
    return on_policy(config, spec, dual=dual, combine=lagrangian, improve=improve)
