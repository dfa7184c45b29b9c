"""Policies: from an observation to an action in [-1, 1] and its log density.

The density is that of the action in the environment's own units, so that the entropy an algorithm
asks for does not depend on the rescaling to [-1, 1]: each dimension contributes -log(scale).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from prudent.pieces.networks import STYLES, Style, mlp
from prudent.pieces.types import Params, PolicyNetwork, Spec

LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0


class Sample(NamedTuple):
    action: jax.Array  # [..., act]
    log_density: jax.Array  # [...]


class Policy(NamedTuple):
    init: Callable[[jax.Array], Params]
    sample: Callable[[Params, jax.Array, jax.Array], Sample]  # params, observation, key
    mode: Callable[[Params, jax.Array], jax.Array]  # params, observation -> action
    network: Callable[[Params], PolicyNetwork]  # what makes the mode


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

    def layers(params: Params) -> PolicyNetwork:
        return PolicyNetwork(params, STYLES[style].activation, "tanh", explores="squashed")

    return Policy(network.init, sample, mode, layers)


class Normal(NamedTuple):
    """A normal distribution over actions, its dimensions independent."""

    mean: jax.Array  # [..., act]
    log_std: jax.Array  # [..., act]


def divergence(first: Normal, second: Normal) -> jax.Array:
    """KL(first || second): [..., act] -> [...]."""
    log_ratio = first.log_std - second.log_std
    distance = (first.mean - second.mean) * jnp.exp(-second.log_std)
    return jnp.sum(0.5 * (jnp.exp(2.0 * log_ratio) + distance**2 - 1.0) - log_ratio, axis=-1)


class Gaussian(NamedTuple):
    """A normal distribution whose spread does not depend on the observation."""

    init: Callable[[jax.Array], Params]
    normal: Callable[[Params, jax.Array], Normal]  # params, observation
    sample: Callable[[Params, jax.Array, jax.Array], jax.Array]  # params, observation, key
    mode: Callable[[Params, jax.Array], jax.Array]  # params, observation -> action
    log_density: Callable[[Params, jax.Array, jax.Array], jax.Array]  # params, obs, act -> [...]
    entropy: Callable[[Params], jax.Array]
    network: Callable[[Params], PolicyNetwork]  # what makes the mode, and the noise around it


def gaussian(
    spec: Spec, hidden: Sequence[int], style: Style, initial_log_std: float = 0.0
) -> Gaussian:
    """An action a ~ N(mean(s), std^2) without squashing.

    What lies outside [-1, 1] the environment clips. Densities are those of the action before that,
    in units of [-1, 1].
    """
    sizes = (spec.observation_size, *hidden, spec.action_size)
    network = mlp(sizes, style, forward_mode=True)

    def init(key: jax.Array) -> Params:
        log_std = jnp.full(spec.action_size, initial_log_std, jnp.result_type(float))
        return {"mean": network.init(key), "log_std": log_std}

    def normal(params: Params, observation: jax.Array) -> Normal:
        mean = network.apply(params["mean"], observation)
        return Normal(mean, jnp.broadcast_to(params["log_std"], mean.shape))

    def sample(params: Params, observation: jax.Array, key: jax.Array) -> jax.Array:
        mean, log_std = normal(params, observation)
        noise = jax.random.normal(key, mean.shape, mean.dtype)
        return jnp.clip(mean + jnp.exp(log_std) * noise, -1.0, 1.0)

    def log_density(params: Params, observation: jax.Array, action: jax.Array) -> jax.Array:
        mean, log_std = normal(params, observation)
        distance = (action - mean) * jnp.exp(-log_std)
        return jnp.sum(-0.5 * distance**2 - log_std - 0.5 * jnp.log(2.0 * jnp.pi), axis=-1)

    def entropy(params: Params) -> jax.Array:
        return jnp.sum(params["log_std"] + 0.5 * jnp.log(2.0 * jnp.pi * jnp.e))

    def mode(params: Params, observation: jax.Array) -> jax.Array:
        return jnp.clip(normal(params, observation).mean, -1.0, 1.0)

    def layers(params: Params) -> PolicyNetwork:
        return PolicyNetwork(
            params["mean"], style.activation, "clip", params["log_std"], explores="constant"
        )

    return Gaussian(init, normal, sample, mode, log_density, entropy, layers)


class Moments(NamedTuple):
    """A Gaussian over actions; its covariance is factor times factor transposed."""

    mean: jax.Array  # [..., act]
    factor: jax.Array  # [..., act, act], lower triangular


class ConditionalGaussian(NamedTuple):
    """A normal distribution whose mean and covariance both depend on the observation."""

    init: Callable[[jax.Array], Params]
    moments: Callable[[Params, jax.Array], Moments]  # params, observation
    network: Callable[[Params], PolicyNetwork]  # what makes the mean


def full_gaussian(spec: Spec, hidden: Sequence[int], style: str) -> ConditionalGaussian:
    """Mean 2 sigmoid(x) - 1, any covariance; not squashed, so the environment clips."""
    size = spec.action_size
    network = mlp((spec.observation_size, *hidden, size + size * (size + 1) // 2), STYLES[style])
    rows, columns = jnp.tril_indices(size)

    def moments(params: Params, observation: jax.Array) -> Moments:
        raw = network.apply(params, observation)
        mean = 2.0 * jax.nn.sigmoid(jnp.clip(raw[..., :size], -5.0, 5.0)) - 1.0
        entries = jnp.clip(raw[..., size:], -5.0, 20.0)
        on_diagonal = (rows == columns)[(None,) * (entries.ndim - 1)]
        entries = jnp.where(on_diagonal, jax.nn.softplus(entries) + 1e-4, entries)
        empty = jnp.zeros((*entries.shape[:-1], size, size), entries.dtype)
        return Moments(mean, empty.at[..., rows, columns].set(entries))

    def layers(params: Params) -> PolicyNetwork:
        return PolicyNetwork(params, STYLES[style].activation, "sigmoid", explores="full")

    return ConditionalGaussian(network.init, moments, layers)


def diagonal_gaussian(spec: Spec, hidden: Sequence[int], style: str) -> ConditionalGaussian:
    """Mean tanh(x), independent dimensions; not squashed, so the environment clips."""
    sizes = (spec.observation_size, *hidden, spec.action_size)
    network = mlp(sizes, STYLES[style], heads=2)

    def moments(params: Params, observation: jax.Array) -> Moments:
        mean, log_std = jnp.split(network.apply(params, observation), 2, axis=-1)
        std = jnp.exp(jnp.clip(log_std, LOG_STD_MIN, LOG_STD_MAX))
        return Moments(jnp.tanh(mean), jnp.vectorize(jnp.diag, signature="(n)->(n,n)")(std))

    def layers(params: Params) -> PolicyNetwork:
        return PolicyNetwork(params, STYLES[style].activation, "tanh", explores="diagonal")

    return ConditionalGaussian(network.init, moments, layers)


def perturbed(moments: Moments, noise: jax.Array) -> jax.Array:
    """The actions that standard normal noise [..., act] makes."""
    return moments.mean + jnp.einsum("...ij,...j->...i", moments.factor, noise)


def whitened(factor: jax.Array, difference: jax.Array) -> jax.Array:
    """The inverse of `factor` [B, act, act] times `difference` [B, act, N]."""
    return jax.lax.linalg.triangular_solve(factor, difference, left_side=True, lower=True)


def log_determinant(factor: jax.Array) -> jax.Array:
    """Of the factor, so half that of the covariance: [..., act, act] -> [...]."""
    return jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)


def log_density(moments: Moments, actions: jax.Array) -> jax.Array:
    """Of actions [N, B, act] under Gaussians [B]: [N, B]."""
    difference = jnp.moveaxis(actions - moments.mean[None], 0, -1)  # [B, act, N]
    square = jnp.sum(whitened(moments.factor, difference) ** 2, axis=1).T
    constant = 0.5 * actions.shape[-1] * jnp.log(2.0 * jnp.pi)
    return -0.5 * square - log_determinant(moments.factor)[None] - constant


def mean_divergence(old: Moments, new: Moments) -> jax.Array:
    """KL(old | new) if only the mean had moved, averaged over the batch."""
    shift = whitened(old.factor, (new.mean - old.mean)[..., None])
    return 0.5 * jnp.mean(jnp.sum(shift**2, axis=(-2, -1)))


def spread_divergence(old: Moments, new: Moments) -> jax.Array:
    """KL(old | new) if only the covariance had moved, averaged over the batch."""
    ratio = whitened(new.factor, old.factor)
    logs = 2.0 * (log_determinant(new.factor) - log_determinant(old.factor))
    size = old.mean.shape[-1]
    return 0.5 * jnp.mean(logs - size + jnp.sum(ratio**2, axis=(-2, -1)))
