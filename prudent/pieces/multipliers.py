"""Dual variables: what one unit of constraint violation costs, in units of reward.

Each is an (init, value, update) triple, so an algorithm can be handed any of them. `violation` is
the constrained quantity minus its bound: positive when the constraint is broken. SAC's temperature
is one of these too, for the constraint that entropy stay above a floor.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from prudent.pieces.fast import adam


class Multiplier(NamedTuple):
    init: Callable[[], Any]
    value: Callable[[Any], jax.Array]  # state -> scalar >= 0
    update: Callable[[Any, jax.Array], Any]  # state, violation -> state


class AscentState(NamedTuple):
    parameter: jax.Array
    optimiser: Any


def _ascent(
    optimiser: optax.GradientTransformation,
    initial_parameter: float,
    value: Callable[[jax.Array], jax.Array],
    project: Callable[[jax.Array], jax.Array] = lambda parameter: parameter,
) -> Multiplier:
    """Gradient ascent on value(parameter) * violation, then `project`."""

    def init() -> AscentState:
        parameter = jnp.asarray(initial_parameter, jnp.result_type(float))
        return AscentState(parameter, optimiser.init(parameter))

    def update(state: AscentState, violation: jax.Array) -> AscentState:
        descent = -jax.grad(value)(state.parameter) * violation
        step, optimiser_state = optimiser.update(descent, state.optimiser)
        return AscentState(project(state.parameter + step), optimiser_state)

    return Multiplier(init, lambda state: value(state.parameter), update)


# Beyond any meaning, but finite: under a budget that cannot be kept a multiplier grows forever, and
# the square of its gradient must still fit a float32.
LARGEST = 1e12


def log_ascent(optimiser: optax.GradientTransformation, initial: float) -> Multiplier:
    """On the logarithm, which keeps the multiplier positive."""
    largest = math.log(LARGEST)
    return _ascent(optimiser, math.log(initial), jnp.exp, lambda x: jnp.minimum(x, largest))


def softplus_ascent(optimiser: optax.GradientTransformation, initial: float) -> Multiplier:
    """On p with multiplier = log(1 + exp(p))."""
    return _ascent(optimiser, math.log(math.expm1(initial)), jax.nn.softplus)


def projected_ascent(
    optimiser: optax.GradientTransformation, initial: float, upper: float = jnp.inf
) -> Multiplier:
    """On the multiplier itself, clipped into [0, upper]."""
    return _ascent(optimiser, initial, lambda x: x, lambda x: jnp.clip(x, 0.0, upper))


class PIDState(NamedTuple):
    integral: jax.Array
    error: jax.Array  # the violation seen last
    value: jax.Array


def pid(proportional: float, integral: float, derivative: float) -> Multiplier:
    """Proportional, integral and derivative control of the violation e (Stooke et al., 2020):

    λ = max(0, P max(0, e) + I Σe + D max(0, e - e_before)), the sum kept at 0 or above.
    """

    def init() -> PIDState:
        zero = jnp.zeros((), jnp.result_type(float))
        return PIDState(zero, zero + 0.0, zero + 0.0)

    def update(state: PIDState, violation: jax.Array) -> PIDState:
        total = jnp.maximum(state.integral + violation, 0.0)
        rise = jnp.maximum(violation - state.error, 0.0)
        control = proportional * jnp.maximum(violation, 0.0)
        control = control + integral * total + derivative * rise
        return PIDState(total, violation, jnp.maximum(control, 0.0))

    return Multiplier(init, lambda state: state.value, update)


def fixed(value: float) -> Multiplier:
    """A penalty that never moves; 0 ignores the constraint."""
    return Multiplier(
        init=lambda: (),
        value=lambda state: jnp.asarray(value, jnp.result_type(float)),
        update=lambda state, violation: state,
    )


ASCENTS: dict[str, Callable[[float, float], Multiplier]] = {  # rate, initial value
    "log_adam": lambda rate, initial: log_ascent(adam(rate), initial),
    "softplus_adam": lambda rate, initial: softplus_ascent(adam(rate), initial),
    "projected_adam": lambda rate, initial: projected_ascent(adam(rate), initial),
    "projected_sgd": lambda rate, initial: projected_ascent(optax.sgd(rate), initial),
    "fixed": lambda rate, initial: fixed(initial),
}


def rectify(multiplier: jax.Array, violation: jax.Array, convexity: float) -> jax.Array:
    """Slope of the augmented Lagrangian, max(λ + c G, 0); λ itself if c = 0."""
    return jnp.maximum(multiplier + convexity * violation, 0.0)
