"""How an on-policy learner improves its policy: minibatch passes, or one second-order step."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from prudent.pieces.networks import descend
from prudent.pieces.on_policy import (
    ActorCritic,
    Epoch,
    Improve,
    Samples,
    fit_critics,
    probability_ratio,
)
from prudent.pieces.policies import divergence
from prudent.pieces.surrogates import clipped_ratio, plain_ratio
from prudent.pieces.trust_region import fisher_product, line_search, natural_step
from prudent.pieces.types import Metrics, Params
from prudent.settings.configs import FirstOrderConfig, OnPolicyConfig, SecondOrderConfig

Step = Callable[[ActorCritic, Samples], tuple[ActorCritic, Metrics]]


def shuffled(order: jax.Array, bits: jax.Array) -> jax.Array:
    """A permutation of `order`, of the numbers below B, by sorting random bits [B].

    Whole numbers sort many times faster than floats with an index beside them, so the index takes
    the low bits. Where the bits left for chance are equal, the order before decides.
    """
    rows = len(bits)
    low = jnp.uint32(2 ** (rows - 1).bit_length() - 1)
    return order[jnp.sort((bits & ~low) | jnp.arange(rows, dtype=jnp.uint32)) & low]


def minibatches(batch: Samples, order: jax.Array, size: int) -> Samples:
    """All rows in this order [B], as [M, size, ...]; where they do not come out even, the last
    minibatch is filled up with rows of weight 0.
    """
    rows = batch.weight.shape[0]
    count = -(-rows // size)
    places = jnp.arange(count * size)
    order = order[places % rows]
    drawn = jax.tree.map(lambda a: a[order].reshape((count, size, *a.shape[1:])), batch)
    kept = (places < rows).reshape(count, size)
    return drawn._replace(weight=drawn.weight * kept)


def in_passes(
    config: OnPolicyConfig,
    step: Step,
    distance: Callable[[ActorCritic], jax.Array],
    state: ActorCritic,
    epoch: Epoch,
) -> tuple[ActorCritic, Metrics]:
    """Up to `passes` times over the data, until the policy's `distance` from the old one is too
    large after a pass.
    """
    rows = epoch.batch.weight.shape[0]
    # One draw for all passes: a program of many draws takes long to compile. And one for the order
    # before the first pass, so that chance decides there too where bits are equal.
    bits = jax.random.bits(epoch.key, (1 + config.passes, rows), jnp.uint32)

    def one_pass(state: ActorCritic, order: jax.Array) -> tuple[ActorCritic, Metrics]:
        data = minibatches(epoch.batch, order, config.batch_size)
        state, metrics = jax.lax.scan(step, state, data)
        return state, {name: jnp.mean(values) for name, values in metrics.items()}

    def unfinished(loop: Any) -> jax.Array:
        _, _, count, reached, _ = loop
        return (count < config.passes) & (reached <= config.max_divergence)

    def advance(loop: Any) -> Any:
        state, order, count, _, _ = loop
        order = shuffled(order, bits[count + 1])
        state, metrics = one_pass(state, order)
        return state, order, count + 1, distance(state), metrics

    order, count = shuffled(jnp.arange(rows), bits[0]), jnp.zeros((), jnp.int32)
    shapes = jax.eval_shape(one_pass, state, order)[1]
    nothing = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
    loop = state, order, count, jnp.zeros_like(epoch.cost_weight), nothing
    state, _, count, reached, metrics = jax.lax.while_loop(unfinished, advance, loop)
    return state, {**metrics, "divergence": reached, "passes": count.astype(reached.dtype)}


def by_passes(config: FirstOrderConfig, clip: float | None = None) -> Improve:
    """Critics and policy together, minibatch by minibatch; `clip` None leaves the ratio free."""

    def improve(state: ActorCritic, epoch: Epoch) -> tuple[ActorCritic, Metrics]:
        parts, seen = epoch.parts, epoch.batch.observation
        old = parts.policy.normal(state.policy.params, seen)

        def step(state: ActorCritic, batch: Samples) -> tuple[ActorCritic, Metrics]:
            state, errors = fit_critics(parts, state, batch)

            def loss(params: Params) -> tuple[jax.Array, None]:
                ratio = probability_ratio(parts.policy, params, batch)
                if clip is None:
                    gain = plain_ratio(ratio, batch.advantage)
                else:
                    gain = clipped_ratio(ratio, batch.advantage, clip)
                return -jnp.average(gain, weights=batch.weight), None

            policy, _ = descend(loss, state.policy, parts.optimiser)
            return state._replace(policy=policy), errors

        def distance(state: ActorCritic) -> jax.Array:
            new = parts.policy.normal(state.policy.params, seen)
            from_old = config.divergence == "from_old"
            return jnp.mean(divergence(old, new) if from_old else divergence(new, old))

        return in_passes(config, step, distance, state, epoch)

    return improve


def by_natural_gradient(config: SecondOrderConfig, search: bool) -> Improve:
    """One second-order step of the policy, with a line search or without; then the critics."""

    def improve(state: ActorCritic, epoch: Epoch) -> tuple[ActorCritic, Metrics]:
        parts, batch = epoch.parts, epoch.batch
        here, unravel = ravel_pytree(state.policy.params)
        old = parts.policy.normal(state.policy.params, batch.observation)

        def gain(theta: jax.Array) -> jax.Array:
            ratio = probability_ratio(parts.policy, unravel(theta), batch)
            return jnp.mean(plain_ratio(ratio, batch.advantage))

        def distance(theta: jax.Array) -> jax.Array:
            new = parts.policy.normal(unravel(theta), batch.observation)
            # Averaged over action dimensions too: the reference's unit of `max_divergence`.
            return jnp.mean(divergence(old, new)) / batch.action.shape[-1]

        def acceptable(theta: jax.Array) -> jax.Array:
            within = distance(theta) <= config.max_divergence
            return within & (gain(theta) >= gain(here))

        product = fisher_product(distance, here, config.damping)
        step = natural_step(product, jax.grad(gain)(here), config.max_divergence)
        there = line_search(acceptable, here, step) if search else here + step
        state = state._replace(policy=state.policy._replace(params=unravel(there)))

        state, metrics = in_passes(
            config,
            lambda state, batch: fit_critics(parts, state, batch),
            lambda state: jnp.zeros_like(epoch.cost_weight),  # the policy stays where it is now
            state,
            epoch,
        )
        return state, {**metrics, "divergence": distance(there)}

    return improve
