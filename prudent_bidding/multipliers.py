"""Several Lagrange multipliers, each for the rows of its owner: a group or an advertiser."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from prudent.pieces.dual import LARGEST, Multiplier, rectify


class Answer(NamedTuple):
    """To a measured violation."""

    weight: jax.Array  # [] or [B], of each row's cost
    new_state: Any  # the multipliers' next one


class Owned(NamedTuple):
    """Multipliers and their owners."""

    init: Callable[[], Any]
    value: Callable[[Any], jax.Array]  # state -> [owners]
    # state, violation of each row [B], its owner [B], c -> answer
    answer: Callable[..., Answer]


def of_owner(values: jax.Array, owner: jax.Array) -> jax.Array:
    """One of `values` for each row; NaN, which stops a run, where there is no such owner."""
    known = (owner >= 0) & (owner < values.shape[0])
    return jnp.where(known, values[jnp.clip(owner, 0, values.shape[0] - 1)], jnp.nan)


def shared(multiplier: Multiplier) -> Owned:
    """One multiplier for all rows, which answers to their mean violation."""

    def answer(state: Any, violation: jax.Array, owner: Any, convexity: float) -> Answer:
        mean = jnp.mean(violation)
        weight = rectify(multiplier.value(state), mean, convexity)
        return Answer(weight, multiplier.update(state, mean))

    return Owned(multiplier.init, multiplier.value, answer)


def by_group(multiplier: Multiplier, groups: int) -> Owned:
    """A multiplier for each group, which answers to the mean violation of the group's rows.

    A group without rows in the batch rests, its optimiser too.
    """

    def answer(state: Any, violation: jax.Array, owner: jax.Array, convexity: float) -> Answer:
        rows = jnp.bincount(owner, length=groups)
        total = jnp.bincount(owner, weights=violation, length=groups)
        mean = (total / jnp.maximum(rows, 1)).astype(violation.dtype)  # [groups]
        weight = rectify(jax.vmap(multiplier.value)(state), mean, convexity)

        def moved(new: jax.Array, old: jax.Array) -> jax.Array:
            present = (rows > 0).reshape(groups, *[1] * (new.ndim - 1))
            return jnp.where(present, new, old)

        new_state = jax.tree.map(moved, jax.vmap(multiplier.update)(state, mean), state)
        return Answer(of_owner(weight, owner), new_state)

    return Owned(jax.vmap(multiplier.init, axis_size=groups), jax.vmap(multiplier.value), answer)


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
    new = jnp.clip(state.multiplier + rate * violation, 0.0, LARGEST)
    return TableState(jnp.where(known, new, state.multiplier), violation)


def renewed(state: TableState, changed: jax.Array, initial: float) -> TableState:
    """As `table` begins where an owner gave its place to another, [owners]."""
    return TableState(
        jnp.where(changed, initial, state.multiplier), jnp.where(changed, 0.0, state.violation)
    )
