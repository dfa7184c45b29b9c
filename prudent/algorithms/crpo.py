"""CRPO: constraint-rectified policy optimisation (Xu, Liang and Lan 2021).

    advantage   A = A_r while J_C <= d + tolerance, else -A_c
    policy      one trust-region step with line search (or PPO's passes, `base`)

There is no dual variable: the policy earns while it may, and saves while it must.
"""

import jax
import jax.numpy as jnp

from prudent.configs import OnPolicyConfig
from prudent.pieces.multipliers import fixed
from prudent.pieces.on_policy_actor_critic import Batch, by_natural_gradient, by_passes, on_policy
from prudent.pieces.types import Algorithm, Spec


def crpo(config: OnPolicyConfig, spec: Spec) -> Algorithm:
    def rectified(batch: Batch, multiplier: jax.Array, violation: jax.Array) -> jax.Array:
        within = violation <= config.tolerance
        return jnp.where(within, batch.reward_advantage, -batch.cost_advantage)

    if config.base == "ppo":
        improve = by_passes(config, config.clip)
    else:
        improve = by_natural_gradient(config, search=True)
    return on_policy(config, spec, dual=fixed(0.0), combine=rectified, improve=improve)
