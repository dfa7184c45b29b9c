"""A budget for the critics' eyes, so that the task's own holds on real episodes.

A multiplier compares an estimate Q̂ of the critics with the budget d. Where Q̂ is wrong about what
episodes cost, the multiplier holds the wrong number at d. What it is wrong by is measured: each
time episodes end, with J their mean cost in the critics' unit and Q̄ the mean of Q̂ over the updates
since the last ones ended,

    b <- clip(b + min(1, n / W) (J - Q̄ - b), -L, 0.9 |d|)      n episodes ended
    effective budget = d - b

In the long run Q̂ - (d - b) is J - d: the constraint on episodes. In the short run b rests and Q̂
alone answers to a change of the policy, episodes before one is over. b averages a measured gap and
does not sum violations: under a budget that cannot be kept, or far from it, it stays what the gap
is. The first W episodes, of a policy and critics that know nothing, are not counted; the bounds
keep an average of few and wild episodes from reaching far, and hold b itself, so that it comes back
at once. The lower one of the budget is not free: at rest J = d and Q̄ = d - b, and where costs are
not negative no Q̄ can be, so a larger b is never right. It would ask for the impossible, and the
policy would pay for it with all its reward. (Where costs can be negative a larger one could be
right; there, and below a budget that is negative itself, the bound is no more than caution.)
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from prudent.pieces.types import Finished

LARGEST_CUT = 0.9  # of the budget


class CalibrationState(NamedTuple):
    shift: jax.Array  # b
    episodes: jax.Array  # that have ended
    estimates: jax.Array  # sum of Q̂ since an episode last ended
    updates: jax.Array  # how many that were


class Calibration(NamedTuple):
    init: Callable[[], CalibrationState]
    budget: Callable[[CalibrationState], jax.Array]  # the effective one
    estimated: Callable[[CalibrationState, jax.Array], CalibrationState]  # after each update
    finished: Callable[[CalibrationState, Finished], CalibrationState]  # before each call's first


def to_episodes(budget: float, window: int, limit: float) -> Calibration:
    """`window` is W in episodes, `limit` L in multiples of the budget."""
    least, largest = -limit * abs(budget), LARGEST_CUT * abs(budget)

    def init() -> CalibrationState:
        zero, none = jnp.zeros((), jnp.result_type(float)), jnp.zeros((), jnp.int32)
        return CalibrationState(zero, none, zero + 0.0, none + 0)

    def estimated(state: CalibrationState, estimate: jax.Array) -> CalibrationState:
        return state._replace(
            estimates=state.estimates + estimate.astype(state.estimates.dtype),
            updates=state.updates + 1,
        )

    def finished(state: CalibrationState, new: Finished) -> CalibrationState:
        # Without an update in between nothing was estimated: the next episodes are compared then.
        compared = (new.episodes > 0) & (state.updates > 0)
        episodes = state.episodes + jnp.where(compared, new.episodes, 0).astype(jnp.int32)
        gap = new.mean_cost - state.estimates / jnp.maximum(state.updates, 1)
        share = jnp.minimum(1.0, new.episodes / window)
        moved = jnp.clip(state.shift + share * (gap - state.shift), least, largest)
        counts = compared & (state.episodes >= window)
        return CalibrationState(
            shift=jnp.where(counts, moved, state.shift).astype(state.shift.dtype),
            episodes=episodes,
            estimates=jnp.where(compared, 0.0, state.estimates).astype(state.estimates.dtype),
            updates=jnp.where(compared, 0, state.updates).astype(jnp.int32),
        )

    return Calibration(init, lambda state: budget - state.shift, estimated, finished)
