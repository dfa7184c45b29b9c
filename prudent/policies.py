"""Policies: from an observation to an action in [-1, 1] and its log density.

The density is that of the action in the environment's own units, so that the entropy an algorithm
asks for does not depend on the rescaling to [-1, 1]: each dimension contributes -log(scale).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from prudent.networks import STYLES, mlp
from prudent.types import Params, Spec

LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0


class Sample(NamedTuple):
    action: jax.Array  # [..., act]
    log_density: jax.Array  # [...]


class Policy(NamedTuple):
    init: Callable[[jax.Array], Params]
    sample: Callable[[Params, jax.Array, jax.Array], Sample]  # params, observation, key
    mode: Callable[[Params, jax.Array], jax.Array]  # params, observation -> action


def in_environment_units(spec: Spec, action: jax.Array) -> jax.Array:
    """[B, act] in [-1, 1] as the environment is given it."""
    scale = jnp.asarray(spec.action_scale, action.dtype)[None]
    return scale * action + jnp.asarray(spec.action_centre, action.dtype)[None]


def tanh_gaussian(spec: Spec, hidden: Sequence[int], style: str = "relu-xavier") -> Policy:
    """A Gaussian squashed by tanh: a = tanh(u), u ~ N(mean(s), std(s)^2)."""
    sizes = (spec.observation_size, *hidden, spec.action_size)
    network = mlp(sizes, STYLES[style], heads=2)

    def moments(params: Params, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        mean, log_std = jnp.split(network.apply(params, observation), 2, axis=-1)
        return mean, jnp.clip(log_std, LOG_STD_MIN, LOG_STD_MAX)

    def sample(params: Params, observation: jax.Array, key: jax.Array) -> Sample:
        mean, log_std = moments(params, observation)
        noise = jax.random.normal(key, mean.shape, mean.dtype)
        raw = mean + jnp.exp(log_std) * noise
        log_density = -0.5 * noise**2 - log_std - 0.5 * jnp.log(2.0 * jnp.pi)
        # log(1 - tanh(u)^2), written so that it stays finite for large |u|.
        log_slope = 2.0 * (jnp.log(2.0) - raw - jax.nn.softplus(-2.0 * raw))
        log_scale = jnp.sum(jnp.log(jnp.asarray(spec.action_scale, mean.dtype)))
        return Sample(jnp.tanh(raw), jnp.sum(log_density - log_slope, axis=-1) - log_scale)

    def mode(params: Params, observation: jax.Array) -> jax.Array:
        return jnp.tanh(moments(params, observation)[0])

    return Policy(network.init, sample, mode)
