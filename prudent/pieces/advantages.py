"""How much better than expected an action turned out: generalised advantage estimation."""

import jax
import jax.numpy as jnp


def generalised_advantages(
    signal: jax.Array,
    values: jax.Array,
    next_values: jax.Array,
    continues: jax.Array,
    ends: jax.Array,
    decay: tuple[float, float],
) -> jax.Array:
    """A_t = Σ_k (γ τ)^k δ_{t+k},  δ_t = signal_t + γ continues_t V(s_{t+1}) - V(s_t); all [T, N].

    `signal` is the reward or the cost, `decay` is (γ, τ). Where an episode terminates, `continues`
    is 0 and nothing follows. Where the time limit or the end of the epoch cuts it, `ends` is 1: the
    sum stops there, but what would have followed counts through `next_values`.
    """
    discount, trace = decay
    surprises = signal + discount * continues * next_values - values
    carries = discount * trace * continues * (1.0 - ends)

    def back(later: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        surprise, carry = now
        advantage = surprise + carry * later
        return advantage, advantage

    start = jnp.zeros_like(values[0])
    return jax.lax.scan(back, start, (surprises, carries), reverse=True)[1]


def centred(advantages: jax.Array) -> jax.Array:
    return advantages - jnp.mean(advantages)


def standardised(advantages: jax.Array, floor: float = 1e-8) -> jax.Array:
    return centred(advantages) / (jnp.std(advantages) + floor)
