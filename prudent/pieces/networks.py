"""Networks as (init, apply) pairs over plain pytrees, and the one way to train them."""

import math
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from prudent.pieces.types import Params


class Network(NamedTuple):
    init: Callable[[jax.Array], Params]
    apply: Callable[[Params, jax.Array], jax.Array]


class Style(NamedTuple):
    """What a network is besides its sizes: its activation and its initial weights."""

    activation: str  # a name in ACTIVATIONS
    draw: Callable[..., jax.Array]  # key, shape -> numbers of the initial distribution, unscaled
    scale: Callable[[int, int], float]  # inputs, outputs -> their scale in that layer
    bias: bool = False  # biases drawn as the weights are, instead of zeros
    output_scale: float = 1.0  # of the last layer's weights; below 1 its bias is zero too


def _logistic(x: jax.Array) -> jax.Array:
    """`jax.nn.sigmoid`; XLA's tanh costs a CPU less than exponential and division."""
    return 0.5 + 0.5 * jnp.tanh(0.5 * x)


@jax.custom_jvp
def silu(x: jax.Array) -> jax.Array:
    """`jax.nn.silu`, with a derivative made of what the forward pass already has."""
    return x * _logistic(x)


@silu.defjvp
def _silu_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (change,) = primals, tangents
    slope = _logistic(x)
    y = x * slope
    return y, (slope + y * (1.0 - slope)) * change


ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "relu": jax.nn.relu,
    "silu": silu,
    "tanh": jnp.tanh,
}

STYLES = {
    # Xavier-uniform.
    "relu-xavier": Style(
        activation="relu",
        draw=lambda key, shape: jax.random.uniform(key, shape, minval=-1.0, maxval=1.0),
        scale=lambda inputs, outputs: math.sqrt(6.0 / (inputs + outputs)),
    ),
    # Xavier-normal.
    "relu-xavier-normal": Style(
        activation="relu",
        draw=jax.random.normal,
        scale=lambda inputs, outputs: math.sqrt(2.0 / (inputs + outputs)),
    ),
    # Normal with standard deviation 1 / (2 sqrt(inputs)).
    "silu-normal": Style(
        activation="silu",
        draw=jax.random.normal,
        scale=lambda inputs, outputs: 0.5 / math.sqrt(inputs),
    ),
}
_TANH = Style(
    activation="tanh",
    draw=STYLES["relu-xavier"].draw,
    scale=lambda inputs, outputs: 1.0 / math.sqrt(inputs),
    bias=True,
)
# PyTorch's default, uniform within 1 / sqrt(inputs); and with an output that starts near zero.
STYLES |= {"tanh-uniform": _TANH, "tanh-uniform-small": _TANH._replace(output_scale=0.1)}


FEW_ROWS = 32


@jax.custom_vjp
def _product_of_few_rows(x: jax.Array, weight: jax.Array) -> jax.Array:
    """[B, in] @ [in, out]. For few rows, the gradient of x is quicker with the large matrix on the
    left.
    """
    return x @ weight


def _forward(x: jax.Array, weight: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return x @ weight, (x, weight)


def _backward(kept: tuple[jax.Array, jax.Array], y: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, weight = kept
    return (weight @ y.T).T, x.T @ y


_product_of_few_rows.defvjp(_forward, _backward)


def dense(x: jax.Array, weight: jax.Array, forward_mode: bool) -> jax.Array:
    """`forward_mode` keeps derivatives along a direction possible, which a natural gradient needs
    and a rule for gradients rules out.
    """
    if forward_mode or x.ndim != 2 or len(x) > FEW_ROWS:
        return x @ weight
    return _product_of_few_rows(x, weight)


def mlp(sizes: Sequence[int], style: Style, heads: int = 1, forward_mode: bool = False) -> Network:
    """Dense layers with the activation between them; leading axes of the input are batch.

    `heads` output layers of `sizes[-1]` units are initialised independently and stand side by side.
    """
    *hidden_shapes, (last, outputs) = pairwise(sizes)
    shapes = [*hidden_shapes, (last, heads * outputs)]
    scales = [style.scale(*shape) for shape in (*hidden_shapes, (last, outputs))]

    def init(key: jax.Array) -> Params:
        # One draw for all layers: a program of many draws takes ten seconds to compile.
        rows = [(inputs + style.bias, outputs) for inputs, outputs in shapes]
        counts = [inputs * outputs for inputs, outputs in rows]
        numbers = jnp.split(style.draw(key, (sum(counts),)), list(accumulate(counts))[:-1])
        blocks = [
            scale * part.reshape(shape)
            for part, shape, scale in zip(numbers, rows, scales, strict=True)
        ]
        params = [
            {
                "weight": block[:inputs],
                "bias": block[inputs] if style.bias else jnp.zeros(outputs),
            }
            for block, (inputs, outputs) in zip(blocks, shapes, strict=True)
        ]
        if style.output_scale != 1.0:
            last = params[-1]
            last["weight"] = style.output_scale * last["weight"]
            last["bias"] = jnp.zeros_like(last["bias"])
        return params

    def apply(params: Params, x: jax.Array) -> jax.Array:
        leading, activation = (None,) * (x.ndim - 1), ACTIVATIONS[style.activation]
        for layer in params[:-1]:
            x = dense(x, layer["weight"], forward_mode)
            x = activation(x + layer["bias"][leading])
        return dense(x, params[-1]["weight"], forward_mode) + params[-1]["bias"][leading]

    return Network(init, apply)


def ensemble(network: Network, size: int) -> Network:
    """Independent copies of `network`: parameters and outputs gain a leading [size] axis."""

    def init(key: jax.Array) -> Params:
        return jax.vmap(network.init)(jax.random.split(key, size))

    def apply(params: Params, x: jax.Array) -> jax.Array:
        return jax.vmap(network.apply, in_axes=(0, None))(params, x)

    return Network(init, apply)


def adam(rate: float | jax.Array) -> optax.GradientTransformation:
    """`optax.adam`, its state included, with one division per parameter instead of three.

    The two bias corrections are folded into the step and into epsilon.
    """
    decay, square_decay, epsilon = 0.9, 0.999, 1e-8

    def update(gradient: Params, state: Any, params: Params = None) -> tuple[Params, Any]:
        (count, mean, square), *rest = state
        count = count + 1
        mean = jax.tree.map(lambda m, g: decay * m + (1 - decay) * g, mean, gradient)
        square = jax.tree.map(
            lambda v, g: square_decay * v + (1 - square_decay) * g**2, square, gradient
        )
        correction = jnp.sqrt(1 - square_decay**count)
        step, floor = -rate * correction / (1 - decay**count), epsilon * correction
        change = jax.tree.map(lambda m, v: step * m / (jnp.sqrt(v) + floor), mean, square)
        return change, (optax.ScaleByAdamState(count, mean, square), *rest)

    return optax.GradientTransformation(optax.adam(rate).init, update)


def clipped_adam(rate: float | jax.Array, max_norm: float | None) -> optax.GradientTransformation:
    """Adam on gradients no longer than `max_norm`.

    On all parameters as one vector, which for small networks is quicker than one by one.
    """
    clip = optax.identity() if max_norm is None else optax.clip_by_global_norm(max_norm)
    return optax.flatten(optax.chain(clip, adam(rate)))


class Trained(NamedTuple):
    """Parameters together with their optimiser's state."""

    params: Params
    optimiser: Any


def start(params: Params, optimiser: optax.GradientTransformation) -> Trained:
    return Trained(params, optimiser.init(params))


def descend(
    loss: Callable[[Params], tuple[jax.Array, Any]],
    trained: Trained,
    optimiser: optax.GradientTransformation,
) -> tuple[Trained, Any]:
    """One optimiser step on `loss(params) -> (scalar, aux)`; returns the new `Trained` and aux."""
    gradient, aux = jax.grad(loss, has_aux=True)(trained.params)
    change, state = optimiser.update(gradient, trained.optimiser, trained.params)
    return Trained(optax.apply_updates(trained.params, change), state), aux
