"""What cost critics say of days as they begin, beside what these days cost."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from prudent_bidding.dataset import HistoricalDataset
from prudent_bidding.learners import Built

DAYS = 4_096  # that are looked at


def compare_critics(
    built: Built, state: Any, history: HistoricalDataset, at_policy: bool = False
) -> dict[str, Any]:
    """Of one week's days: what they cost, and what the cost critics say as they begin, of the
    logged action or, with `at_policy`, of one that the policy draws.
    """
    (logged,), (chosen,) = history.weeks, history.chosen
    chosen = np.random.default_rng(0).permutation(chosen)[:DAYS]
    starts, lengths = logged.segments.start[chosen], logged.segments.length[chosen]
    index = logged.segments.rows_of(chosen)
    rows = history.read(logged, index)
    discount = built.run.config.cost_discount
    time = np.arange(len(index)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    day = np.repeat(np.arange(len(chosen)), lengths)
    realised = np.bincount(day, rows.cost * discount**time)
    first = history.read(logged, starts)
    seen, action = jnp.asarray(first.observation), jnp.asarray(first.action)
    if at_policy:
        action = jax.jit(built.algorithm.act)(state, seen, jax.random.key(0))
    assert built.algorithm.cost_estimate is not None
    estimate = jax.jit(built.algorithm.cost_estimate)(state, seen, action)
    mean, spread, bound = (np.asarray(part, float) for part in estimate)
    return {
        "days": len(chosen),
        "realised": float(realised.mean()),
        "estimate": float(mean.mean()),
        "conservative": float(bound.mean()),
        "spread": float(spread.mean()),
        "correlation": correlation(bound, realised),
    }


def correlation(one: np.ndarray, other: np.ndarray) -> float | None:
    if len(one) < 2 or not one.std() or not other.std():
        return None
    return float(np.corrcoef(one, other)[0, 1])
