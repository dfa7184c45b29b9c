"""What a library has too, written again because it is quicker here on one CPU thread.

The gains are shares of an update's time, on Hopper with batches of 12 rows.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax

from prudent.pieces.types import Params


def _logistic(x: jax.Array) -> jax.Array:
    """`jax.nn.sigmoid`; XLA's tanh costs a CPU less than exponential and division."""
    return 0.5 + 0.5 * jnp.tanh(0.5 * x)


@jax.custom_jvp
def silu(x: jax.Array) -> jax.Array:
    """`jax.nn.silu`, with a derivative made of what the forward pass already has.

    Gain: 5 % for CAL and SAC-Lag.
    """
    return x * _logistic(x)


@silu.defjvp
def _silu_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (change,) = primals, tangents
    slope = _logistic(x)
    y = x * slope
    return y, (slope + y * (1.0 - slope)) * change


FEW_ROWS = 32


@jax.custom_gradient  # type: ignore[untyped-decorator]
def _product_of_few_rows(x: jax.Array, weight: jax.Array) -> tuple[jax.Array, Any]:
    """[B, in] @ [in, out]. For few rows, the gradient of x is quicker with the large matrix on the
    left.

    Gain: 24 % for SAC-Lag, 1 % for CAL.
    """

    def gradients(y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return (weight @ y.T).T, x.T @ y

    return x @ weight, gradients


def dense(x: jax.Array, weight: jax.Array, forward_mode: bool) -> jax.Array:
    """`forward_mode` keeps derivatives along a direction possible, which a natural gradient needs
    and a rule for gradients rules out.
    """
    if forward_mode or x.ndim != 2 or len(x) > FEW_ROWS:
        return x @ weight
    return _product_of_few_rows(x, weight)


def _average(decay: float, old: jax.Array, new: jax.Array) -> jax.Array:
    """A moving average. `optax.tree.update_moment` adds in the other order and rounds otherwise."""
    return decay * old + (1 - decay) * new


def adam(rate: float | jax.Array) -> optax.GradientTransformation:
    """`optax.adam`, its state included, with one division per parameter instead of three.

    The two bias corrections are folded into the step and into epsilon. Gain: 7 % for CAL, 5 % for
    SAC-Lag.
    """
    decay, square_decay, epsilon = 0.9, 0.999, 1e-8

    def update(gradient: Params, state: Any, params: Params = None) -> tuple[Params, Any]:
        (count, mean, square), *rest = state
        count = count + 1
        mean = jax.tree.map(partial(_average, decay), mean, gradient)
        squared = jax.tree.map(jnp.square, gradient)
        square = jax.tree.map(partial(_average, square_decay), square, squared)
        correction = jnp.sqrt(1 - square_decay**count)
        step, floor = -rate * correction / (1 - decay**count), epsilon * correction
        change = jax.tree.map(lambda m, v: step * m / (jnp.sqrt(v) + floor), mean, square)
        return change, (optax.ScaleByAdamState(count, mean, square), *rest)

    return optax.GradientTransformation(optax.adam(rate).init, update)
