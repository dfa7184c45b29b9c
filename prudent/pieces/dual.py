"""The dual side of a constrained problem: the multiplier, its budget, where cost is measured.

    violation     G = Q̂ - d,  Q̂ the mean of the cost critics' estimate where it is measured
    multiplier    λ answers to G by one of the rules in `multipliers`
    budget        d, or d - b where it is calibrated by finished episodes:

        b <- clip(b + min(1, n / W) (J - Q̄ - b), -L |d|, 0.9 |d|)

A multiplier compares Q̂ with d, and holds the wrong number at d where Q̂ is wrong about what episodes
cost. Calibration measures that error each time episodes end: J is the mean cost of the n episodes
in the critics' unit, and Q̄ the mean of Q̂ over the updates since the last ones ended. In the long
run Q̂ - (d - b) is J - d: the constraint on episodes. In the short run b rests, and Q̂ alone answers
to a change of the policy. b averages a measured gap and does not sum violations, so it stays finite
under a budget that cannot be kept. The first W episodes, of a policy and critics that know nothing,
do not count. The bounds limit what few and wild episodes can do; the upper one is below |d| since
no Q̄ can be below 0 where costs are not negative.

Everything has a leading axis [K], one entry per limit; most tasks have one.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from prudent.pieces.multipliers import ASCENTS, Multiplier
from prudent.pieces.soft import SoftActorCritic, SoftState
from prudent.pieces.types import Batch, Metrics, Spec
from prudent.settings.configs import DualConfig

LARGEST_CUT = 0.9  # of the budget


class Calibration(NamedTuple):
    shift: jax.Array  # [K], b
    episodes: jax.Array  # [], how many have ended
    estimates: jax.Array  # [K], sum of Q̂ since an episode last ended
    updates: jax.Array  # [], how many that were


class DualState(NamedTuple):
    multiplier: Any  # each leaf [K, ...]
    calibration: Calibration | tuple[()]


class Dual(NamedTuple):
    init: Callable[[], DualState]
    requires: Mapping[str, int]  # extras of a batch
    # state, batch, key of actions for the batch, key of actions for recent states
    # -> observation, action where the violation is measured
    where: Callable[..., tuple[jax.Array, jax.Array]]
    bounded: Callable[[jax.Array], jax.Array]  # cost targets, clipped to what is possible
    hear: Callable[[DualState, Batch], DualState]  # of the episodes that ended before this update
    budget: Callable[[DualState], jax.Array]  # -> [K]
    multiplier: Callable[[DualState], jax.Array]  # -> [K]
    divisor: Callable[[jax.Array], jax.Array | float]  # cost weight [K] -> of the policy's loss
    ascend: Callable[[DualState, jax.Array], DualState]  # state, estimate [K]
    metrics: Callable[[DualState, DualState, jax.Array], Metrics]  # before, after, estimate [K]


def per_limit(one: Multiplier, limits: int) -> Multiplier:
    """`limits` multipliers of one kind, each with its own violation."""

    def init() -> Any:
        return jax.tree.map(lambda leaf: jnp.stack([leaf] * limits), one.init())

    # The size is named, since a rule may have no state.
    value = jax.vmap(one.value, axis_size=limits)
    return Multiplier(init, value, jax.vmap(one.update, axis_size=limits))


def named(values: Mapping[str, jax.Array]) -> Metrics:
    """Scalars by name; those of several limits are numbered."""
    return {
        name if len(each) == 1 else f"{name}_{k}": each[k]
        for name, each in values.items()
        for k in range(len(each))
    }


def calibrated(
    old: Calibration, batch: Batch, budgets: jax.Array, window: int, limit: float
) -> Calibration:
    """After the episodes that the batch tells of; `window` is W and `limit` L."""
    ended, cost = batch.extras["episodes"], batch.extras["episode_cost"]  # [], [K]
    # Without an update in between nothing was estimated: the next episodes are compared then.
    compared = (ended > 0) & (old.updates > 0)
    gap = cost - old.estimates / jnp.maximum(old.updates, 1)
    share = jnp.minimum(1.0, ended / window)
    bounds = -limit * jnp.abs(budgets), LARGEST_CUT * jnp.abs(budgets)
    moved = jnp.clip(old.shift + share * (gap - old.shift), *bounds)
    counts = compared & (old.episodes >= window)
    return Calibration(
        shift=jnp.where(counts, moved, old.shift).astype(old.shift.dtype),
        episodes=old.episodes + jnp.where(compared, ended, 0).astype(jnp.int32),
        estimates=jnp.where(compared, 0.0, old.estimates).astype(old.estimates.dtype),
        updates=jnp.where(compared, 0, old.updates).astype(jnp.int32),
    )


def make_dual(
    config: DualConfig, spec: Spec, agent: SoftActorCritic, rule: Multiplier | None = None
) -> Dual:
    """`rule` says how a multiplier moves; by default the settings do."""
    if rule is None:
        ascent = ASCENTS[config.multiplier]
        rule = ascent(config.multiplier_learning_rate, config.initial_multiplier)
    budgets = jnp.atleast_1d(jnp.asarray(spec.cost_budget, jnp.result_type(float)))
    multiplier = per_limit(rule, len(budgets))
    by_episodes, recent = config.calibration == "episodes", config.dual_states == "recent"
    requires = {"recent": config.recent_steps} if recent else {}
    requires |= {"episodes": 1, "episode_cost": len(budgets)} if by_episodes else {}

    def init() -> DualState:
        zero, none = jnp.zeros_like(budgets), jnp.zeros((), jnp.int32)
        begun = Calibration(zero, none, zero + 0.0, none + 0) if by_episodes else ()
        return DualState(multiplier.init(), begun)

    def where(
        state: SoftState, batch: Batch, key: jax.Array, key_recent: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        rows, key = (batch.extras["recent"], key_recent) if recent else (batch, key)
        if config.dual_action == "buffer":
            return rows.observation, agent.seen(rows.action)
        action, _ = agent.sample(state.policy.params, rows.observation, key)
        return rows.observation, action

    def bounded(targets: jax.Array) -> jax.Array:
        if config.cost_bounds == "none":
            return targets
        return jnp.clip(targets, spec.least_cost_ahead, spec.largest_cost_ahead)

    def hear(state: DualState, batch: Batch) -> DualState:
        if not isinstance(state.calibration, Calibration):
            return state
        window, limit = config.calibration_episodes, config.calibration_limit
        told = calibrated(state.calibration, batch, budgets, window, limit)
        return state._replace(calibration=told)

    def budget(state: DualState) -> jax.Array:
        return budgets - state.calibration.shift if state.calibration else budgets

    def rounded(state: DualState, estimate: jax.Array) -> jax.Array:
        """The estimate as versions before 0.5 rounded it, so that records stay the same."""
        if not isinstance(state.calibration, Calibration):
            return estimate
        return (estimate - budget(state)) + budget(state)

    def ascend(state: DualState, estimate: jax.Array) -> DualState:
        moved = multiplier.update(state.multiplier, estimate - budget(state))
        if not isinstance(state.calibration, Calibration):
            return state._replace(multiplier=moved)
        old = state.calibration
        estimates = old.estimates + rounded(state, estimate).astype(old.estimates.dtype)
        return DualState(moved, old._replace(estimates=estimates, updates=old.updates + 1))

    def metrics(before: DualState, after: DualState, estimate: jax.Array) -> Metrics:
        values = {
            "cost_estimate": rounded(before, estimate),
            "violation": estimate - budget(before),
            "multiplier": multiplier.value(after.multiplier),
        }
        return named(values | ({"effective_budget": budget(before)} if by_episodes else {}))

    return Dual(
        init=init,
        requires=requires,
        where=where,
        bounded=bounded,
        hear=hear,
        budget=budget,
        multiplier=lambda state: multiplier.value(state.multiplier),
        divisor=lambda weight: 1.0 + jnp.sum(weight) if config.rescale_policy_loss else 1.0,
        ascend=ascend,
        metrics=metrics,
    )
