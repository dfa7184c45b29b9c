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

from prudent.pieces.networks import adam


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


class Answer(NamedTuple):
    """What a measured violation means for the policy's step and for the multipliers."""

    weight: jax.Array  # [] or [B], of each row's cost
    raised: Any  # the multipliers' next state


class Owned(NamedTuple):
    """Several dual variables, each for the rows of one owner."""

    init: Callable[[], Any]
    value: Callable[[Any], jax.Array]  # state -> [owners]
    # state, violation of each row [B], its owner [B], c -> answer
    answer: Callable[[Any, jax.Array, jax.Array, float], Answer]


def of_owner(values: jax.Array, owner: jax.Array) -> jax.Array:
    """One of `values` for each row; NaN, which stops a run, where there is no such owner."""
    known = (owner >= 0) & (owner < values.shape[0])
    return jnp.where(known, values[jnp.clip(owner, 0, values.shape[0] - 1)], jnp.nan)


def by_group(multiplier: Multiplier, groups: int) -> Owned:
    """A multiplier for each group, which answers to the mean violation of the group's rows.

    A group without rows in the batch rests, its optimiser too.
    """

    def init() -> Any:
        return jax.tree.map(lambda leaf: jnp.stack([leaf] * groups), multiplier.init())

    def answer(state: Any, violation: jax.Array, owner: jax.Array, convexity: float) -> Answer:
        rows = jnp.bincount(owner, length=groups)
        total = jnp.bincount(owner, weights=violation, length=groups)
        mean = (total / jnp.maximum(rows, 1)).astype(violation.dtype)  # [groups]
        weight = rectify(jax.vmap(multiplier.value)(state), mean, convexity)

        def moved(new: jax.Array, old: jax.Array) -> jax.Array:
            present = (rows > 0).reshape(groups, *[1] * (new.ndim - 1))
            return jnp.where(present, new, old)

        raised = jax.tree.map(moved, jax.vmap(multiplier.update)(state, mean), state)
        return Answer(of_owner(weight, owner), raised)

    return Owned(init, jax.vmap(multiplier.value), answer)


class TableState(NamedTuple):
    """Multipliers that answer to measurements, not to critics."""

    multiplier: jax.Array  # [owners]
    violation: jax.Array  # [owners], as measured last


def table(owners: int, initial: float) -> Owned:
    """A multiplier for each owner. Updates leave them; `measured` moves them, now and then."""

    def init() -> TableState:
        start = jnp.full((owners,), initial, jnp.result_type(float))
        return TableState(start, jnp.zeros_like(start))

    def answer(
        state: TableState, violation: jax.Array, owner: jax.Array, convexity: float
    ) -> Answer:
        weight = rectify(state.multiplier, state.violation, convexity)
        return Answer(of_owner(weight, owner), state)

    return Owned(init, lambda state: state.multiplier, answer)


def measured(state: TableState, violation: jax.Array, rate: float) -> TableState:
    """Projected ascent by what was measured of each owner, [owners]; NaN where nothing was.

    λ <- max(0, λ + rate G), with λ the multiplier and G the violation.
    """
    known = jnp.isfinite(violation)
    violation = jnp.where(known, violation, state.violation).astype(state.violation.dtype)
    raised = jnp.clip(state.multiplier + rate * violation, 0.0, LARGEST)
    return TableState(jnp.where(known, raised, state.multiplier), violation)


def renewed(state: TableState, changed: jax.Array, initial: float) -> TableState:
    """As `table` begins where an owner gave its place to another, [owners]."""
    return TableState(
        jnp.where(changed, initial, state.multiplier), jnp.where(changed, 0.0, state.violation)
    )
