"""What is still to come: ensembles of action values that bootstrap from a slow copy of themselves,
and state values for on-policy learners.
"""

from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from prudent.pieces.networks import Style, Trained, descend, mlp, start
from prudent.pieces.types import CostEstimate, Params, Spec


class CriticState(NamedTuple):
    online: Trained
    target: Params


class Critic(NamedTuple):
    init: Callable[[jax.Array], CriticState]  # key
    values: Callable[..., jax.Array]  # state, observation, action -> [E, B]
    target_values: Callable[..., jax.Array]  # state, observation, action -> [E, B]
    fit: Callable[..., tuple[CriticState, jax.Array]]  # state, targets, obs, act -> state, error
    track: Callable[[CriticState], CriticState]  # the target moved towards the online parameters


VARIANCE_MIN, VARIANCE_MAX = 1e-8, 1e8


def positive(values: jax.Array) -> jax.Array:
    """A variance from any number; bounded before anyone takes its root, whose slope is infinite."""
    return jnp.clip(jax.nn.softplus(values), VARIANCE_MIN, VARIANCE_MAX)


def wasserstein(variance: jax.Array, target: jax.Array) -> jax.Array:
    """Squared 2-Wasserstein distance between Gaussians of equal mean: (std - target std)^2."""
    return variance + target - 2.0 * jnp.sqrt(variance * target)


class Quantity(NamedTuple):
    """What a critic estimates of the return to come."""

    output: Callable[[jax.Array], jax.Array]  # of the network -> value
    error: Callable[[jax.Array, jax.Array], jax.Array]  # values, targets -> errors


MEAN = Quantity(lambda values: values, lambda values, targets: (values - targets) ** 2)
VARIANCE = Quantity(positive, wasserstein)


def q_ensemble(
    spec: Spec,
    hidden: Sequence[int],
    style: Style,
    *,
    size: int,
    optimiser: optax.GradientTransformation,
    target_rate: float,
    loss_over_members: Callable[[jax.Array], jax.Array] = jnp.sum,
    quantity: Quantity = MEAN,
) -> Critic:
    """`size` independent critics Q(s, a) that see the same batches.

    `loss_over_members` joins the members' mean errors; Adam feels it only through its epsilon.
    """
    network = mlp((spec.observation_size + spec.action_size, *hidden, 1), style)
    members = jax.vmap(network.apply, in_axes=(0, None))

    def evaluate(params: Params, observation: jax.Array, action: jax.Array) -> jax.Array:
        x = jnp.concatenate([observation, action], axis=-1)
        return quantity.output(members(params, x)[..., 0])

    def init(key: jax.Array) -> CriticState:
        params = jax.vmap(network.init)(jax.random.split(key, size))
        # A copy, not an alias: a state that holds one buffer twice cannot be donated.
        return CriticState(start(params, optimiser), target=jax.tree.map(jnp.copy, params))

    def fit(
        state: CriticState, targets: jax.Array, observation: jax.Array, action: jax.Array
    ) -> tuple[CriticState, jax.Array]:
        def loss(params: Params) -> tuple[jax.Array, jax.Array]:
            errors = quantity.error(evaluate(params, observation, action), targets)  # [E, B]
            return loss_over_members(jnp.mean(errors, axis=1)), jnp.mean(errors)

        online, mean_error = descend(loss, state.online, optimiser)
        return state._replace(online=online), mean_error

    def track(state: CriticState) -> CriticState:
        target = optax.incremental_update(state.online.params, state.target, target_rate)
        return state._replace(target=target)

    return Critic(
        init=init,
        values=lambda state, *inputs: evaluate(state.online.params, *inputs),
        target_values=lambda state, *inputs: evaluate(state.target, *inputs),
        fit=fit,
        track=track,
    )


class Value(NamedTuple):
    init: Callable[[jax.Array], Trained]  # key
    values: Callable[[Trained, jax.Array], jax.Array]  # state, observation [..., obs] -> [...]
    fit: Callable[..., tuple[Trained, jax.Array]]  # state, targets, obs, weights -> state, error


def value_function(
    spec: Spec,
    hidden: Sequence[int],
    style: Style,
    *,
    optimiser: optax.GradientTransformation,
    weight_decay: float,
) -> Value:
    """V(s), fitted by least squares with `weight_decay` times the parameters' squared norm."""
    network = mlp((spec.observation_size, *hidden, 1), style)

    def fit(
        state: Trained, targets: jax.Array, observation: jax.Array, weights: jax.Array
    ) -> tuple[Trained, jax.Array]:
        def loss(params: Params) -> tuple[jax.Array, jax.Array]:
            errors = (network.apply(params, observation)[..., 0] - targets) ** 2  # [B]
            error = jnp.average(errors, weights=weights)
            return error + weight_decay * optax.tree.norm(params, squared=True), error

        return descend(loss, state, optimiser)

    return Value(
        init=lambda key: start(network.init(key), optimiser),
        values=lambda state, observation: network.apply(state.params, observation)[..., 0],
        fit=fit,
    )


def spread(values: jax.Array, ddof: int) -> jax.Array:
    """Standard deviation over the ensemble, [E, ...] -> [...]; exactly 0 for a single member."""
    if values.shape[0] == 1:
        return jnp.zeros_like(values[0])
    # The floor keeps the gradient finite where all members agree; jnp.std would give NaN there.
    return jnp.sqrt(jnp.maximum(jnp.var(values, axis=0, ddof=ddof), 1e-24))


def upper_confidence(values: jax.Array, conservatism: float, ddof: int) -> jax.Array:
    """Mean plus `conservatism` standard deviations over the ensemble: [E, ...] -> [...]."""
    return jnp.mean(values, axis=0) + conservatism * spread(values, ddof)


def one_estimate(values: jax.Array) -> CostEstimate:
    """Of a single critic, [1, B], which is taken at its word."""
    return CostEstimate(values[0], jnp.zeros_like(values[0]), values[0])


def highest_of_random_members(values: jax.Array, draws: int, key: jax.Array) -> jax.Array:
    """Per sample the maximum over `draws` members drawn with replacement: [E, B] -> [B]."""
    members = jax.random.randint(key, (draws,), 0, values.shape[0])
    return jnp.max(values[members], axis=0)


class NextReturn(NamedTuple):
    """Mean and variance of the return from the next step on, and whether there is one."""

    mean: jax.Array
    variance: jax.Array
    continues: jax.Array


def variance_target(
    signal: jax.Array, discount: float, following: NextReturn, mean: jax.Array
) -> jax.Array:
    """Variance of `signal` + discount * the next return: its second moment less `mean` squared.

    An estimated `mean` can make it negative.
    """
    cross = 2.0 * discount * signal * following.mean
    square = discount**2 * (following.variance + following.mean**2)
    return signal**2 + following.continues * (cross + square) - mean**2


def tail_weight(risk_level: float) -> float:
    """κ(α) = φ(Φ⁻¹(α)) / α: how many standard deviations the mean of a Gaussian's highest
    fraction α lies above its mean.
    """
    if not 0.0 < risk_level <= 1.0:
        raise ValueError(f"risk_level is a share of the outcomes, in (0, 1]; it is {risk_level}")
    if risk_level == 1.0:
        return 0.0
    normal = NormalDist()
    return normal.pdf(normal.inv_cdf(risk_level)) / risk_level


def conditional_value_at_risk(mean: jax.Array, variance: jax.Array, risk_level: float) -> jax.Array:
    """Mean of the worst fraction `risk_level` of a Gaussian cost."""
    return mean + tail_weight(risk_level) * jnp.sqrt(variance)
