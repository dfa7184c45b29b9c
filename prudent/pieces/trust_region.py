"""Second-order steps: the direction and length in which a policy's distribution moves just so far.

The Fisher matrix F is never formed. It is the Hessian of the divergence from the present policy,
and its product with a vector is the derivative of the divergence's gradient along that vector.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

Product = Callable[[jax.Array], jax.Array]  # vector -> F vector


def fisher_product(
    divergence: Callable[[jax.Array], jax.Array], here: jax.Array, damping: float
) -> Product:
    """The product v -> (F + damping) v, of `divergence(parameters)`, which is smallest `here`."""

    def product(vector: jax.Array) -> jax.Array:
        return jax.jvp(jax.grad(divergence), (here,), (vector,))[1] + damping * vector

    return product


class _Search(NamedTuple):
    solution: jax.Array
    residual: jax.Array
    direction: jax.Array
    square: jax.Array  # squared length of the residual
    iteration: jax.Array


def conjugate_gradient(
    product: Product, right: jax.Array, iterations: int = 15, tolerance: float = 1e-10
) -> jax.Array:
    """The x with `product(x)` = `right`, nearly.

    The reference adds epsilon to both denominators. `jax.scipy.sparse.linalg.cg` does not, and its
    x differs by up to 7 % where gradients are small.
    """
    epsilon = 1e-6

    def unfinished(search: _Search) -> jax.Array:
        return (search.iteration < iterations) & (jnp.sqrt(search.square) >= tolerance)

    def advance(search: _Search) -> _Search:
        moved = product(search.direction)
        length = search.square / (search.direction @ moved + epsilon)
        residual = search.residual - length * moved
        square = residual @ residual
        turn = square / (search.square + epsilon)
        return _Search(
            solution=search.solution + length * search.direction,
            residual=residual,
            direction=residual + turn * search.direction,
            square=square,
            iteration=search.iteration + 1,
        )

    start = _Search(jnp.zeros_like(right), right, right, right @ right, jnp.zeros((), jnp.int32))
    return jax.lax.while_loop(unfinished, advance, start).solution


def natural_step(product: Product, gradient: jax.Array, max_divergence: float) -> jax.Array:
    """Along F^-1 gradient, as far as the divergence ½ xᵀ F x allows."""
    direction = conjugate_gradient(product, gradient)
    curvature = direction @ product(direction)
    return direction * jnp.sqrt(2.0 * max_divergence / (curvature + 1e-8))


def line_search(
    acceptable: Callable[[jax.Array], jax.Array],
    here: jax.Array,
    step: jax.Array,
    trials: int = 15,
    factor: float = 0.8,
) -> jax.Array:
    """The first acceptable of `here` + factor^i * step; `here` itself if none is."""

    def unfinished(search: tuple[jax.Array, jax.Array]) -> jax.Array:
        trial, length = search
        return (trial < trials) & ~acceptable(here + length * step)

    def shorten(search: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        trial, length = search
        return trial + 1, factor * length

    start = jnp.zeros((), jnp.int32), jnp.ones((), step.dtype)
    trial, length = jax.lax.while_loop(unfinished, shorten, start)
    return jnp.where(trial < trials, here + length * step, here)
