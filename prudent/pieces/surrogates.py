"""What an on-policy learner maximises in place of the return, and how cost enters it."""

import jax
import jax.numpy as jnp


def plain_ratio(ratio: jax.Array, advantage: jax.Array) -> jax.Array:
    """The policy gradient's own: π(a|s) / π_old(a|s) times the advantage."""
    return ratio * advantage


def clipped_ratio(ratio: jax.Array, advantage: jax.Array, clip: float) -> jax.Array:
    """PPO's: no gain from moving the ratio further than `clip` from 1."""
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1.0 - clip, 1.0 + clip) * advantage)


def penalised(
    reward_advantage: jax.Array, cost_advantage: jax.Array, weight: jax.Array
) -> jax.Array:
    """(A_r - m A_c) / (1 + m): the division keeps the step's size whatever the multiplier m."""
    return (reward_advantage - weight * cost_advantage) / (1.0 + weight)


def barrier(violation: jax.Array, strength: float, cap: float) -> jax.Array:
    """Slope of the log barrier, strength / (budget - cost), up to `cap`, also where it is broken.

    The logarithm itself is undefined where the budget is broken and explodes where it is met.
    """
    slope = strength / (1e-8 - violation)
    return jnp.where((slope < 0.0) | (slope > cap), cap, slope)


def projection_coefficient(discount: float, trace: float) -> float:
    """CUP's weight of the cost term, (1 - γ τ) / (1 - γ)."""
    return (1.0 - discount * trace) / (1.0 - discount)
