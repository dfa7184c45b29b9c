"""Networks as (init, apply) pairs over plain pytrees, and the one way to train them."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from prudent.pieces.fast import adam, dense, silu
from prudent.pieces.types import Params


class Network(NamedTuple):
    init: Callable[[jax.Array], Params]
    apply: Callable[[Params, jax.Array], jax.Array]


class Style(NamedTuple):
    """What a network is besides its sizes: its activation and its initial weights."""

    activation: str  # a name in ACTIVATIONS
    draw: Callable[..., jax.Array]  # key, shape -> numbers of the initial distribution, unscaled
    gain: float  # a layer's numbers are scaled by the root of this over its fan
    fan: str  # "inputs", or "both": inputs + outputs
    bias: bool = False  # biases drawn as the weights are, instead of zeros
    output_scale: float = 1.0  # of the last layer's weights; below 1 its bias is zero too


ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "relu": jax.nn.relu,
    "silu": silu,
    "tanh": jnp.tanh,
}

UNIFORM = partial(jax.random.uniform, minval=-1.0, maxval=1.0)
STYLES = {
    # Xavier-uniform and Xavier-normal.
    "relu-xavier": Style("relu", UNIFORM, gain=6.0, fan="both"),
    "relu-xavier-normal": Style("relu", jax.random.normal, gain=2.0, fan="both"),
    # Normal with standard deviation 1 / (2 sqrt(inputs)).
    "silu-normal": Style("silu", jax.random.normal, gain=0.25, fan="inputs"),
}
_TANH = Style("tanh", UNIFORM, gain=1.0, fan="inputs", bias=True)
# PyTorch's default, uniform within 1 / sqrt(inputs); and with an output that starts near zero.
STYLES |= {"tanh-uniform": _TANH, "tanh-uniform-small": _TANH._replace(output_scale=0.1)}


def mlp(sizes: Sequence[int], style: Style, heads: int = 1, forward_mode: bool = False) -> Network:
    """Dense layers with the activation between them; leading axes of the input are batch.

    `heads` output layers of `sizes[-1]` units are initialised independently and stand side by side.
    """
    layers = list(pairwise(sizes))
    shapes = [*layers[:-1], (sizes[-2], heads * sizes[-1])]
    fans = [sum(layer) if style.fan == "both" else layer[0] for layer in layers]

    def init(key: jax.Array) -> Params:
        # One draw for all layers: a program of many draws takes ten seconds to compile.
        rows = [(inputs + style.bias, outputs) for inputs, outputs in shapes]
        counts = [inputs * outputs for inputs, outputs in rows]
        numbers = jnp.split(style.draw(key, (sum(counts),)), list(accumulate(counts))[:-1])
        blocks = [
            math.sqrt(style.gain / fan) * part.reshape(shape)
            for part, shape, fan in zip(numbers, rows, fans, strict=True)
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
