"""Statistics of runs: over seeds, over training, between algorithms.

Inputs are plain arrays. `values` are [seeds] or [seeds, evaluations] unless said otherwise; a
budget is in the unit of the costs it is compared with. Where an interval would mean nothing there
is none, and a `Summary` says why.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy
from scipy import stats

LEVEL = 0.95
RESAMPLES = 9_999
# Below this a bootstrap draws from so few different resamples (10 of three values, 3 of two) that
# its percentiles are little more than the values themselves, and cover far less than they say.
FEWEST_SEEDS = 5
# SciPy renamed this argument in 1.15.
RANDOM = "rng" if tuple(map(int, scipy.__version__.split(".")[:2])) >= (1, 15) else "random_state"


class MeanAndDeviation(NamedTuple):
    mean: np.ndarray  # of the first axis
    deviation: np.ndarray | None  # of the sample, over n - 1; None for one value


class Summary(NamedTuple):
    """A statistic over seeds, with the interval that so many seeds allow."""

    value: float
    interval: tuple[float, float] | None  # 95 %, or None where it would mean nothing
    note: str  # what the interval is, or why there is none
    lowest: float  # of the single values
    highest: float


class Proportion(NamedTuple):
    share: float
    interval: tuple[float, float]  # Wilson's, 95 %: of independent episodes


class Violations(NamedTuple):
    episodes: int  # with more cost than the budget
    share: float  # of all episodes
    excess: float  # cost beyond the budget, summed over those


def mean_interval(values: np.ndarray, level: float = LEVEL) -> tuple[float, float] | None:
    """Student's interval of the mean, 95 % unless said, which one value alone does not have."""
    if len(values) < 2:
        return None
    half = float(stats.t.ppf((1 + level) / 2, len(values) - 1) * stats.sem(values))
    mean = float(np.mean(values))
    return mean - half, mean + half


def cost_interval(
    costs: np.ndarray, negative_costs: bool = False, level: float = LEVEL
) -> tuple[float, float] | None:
    """Student's interval of a mean cost, cut at 0 where costs cannot be negative.

    A cost below 0 shows that they can, whatever was said. What is cut off held no mean that could
    be, so the interval covers as often as before.
    """
    interval = mean_interval(costs, level)
    if interval is None or negative_costs or np.min(costs) < 0.0:
        return interval
    low, high = interval
    return max(low, 0.0), high


def mean_and_deviation(values: np.ndarray) -> MeanAndDeviation:
    """Over seeds, as the paper draws its curves: a line, and a shade of one deviation."""
    values = np.asarray(values, float)
    deviation = np.std(values, axis=0, ddof=1) if len(values) > 1 else None
    return MeanAndDeviation(np.mean(values, axis=0), deviation)


def interquartile_mean(values: np.ndarray) -> float:
    """Mean of the middle half; a quarter (rounded down) of all values is left out at each end."""
    return float(stats.trim_mean(np.ravel(np.asarray(values, float)), 0.25))


def interquartile_summary(by_task: Sequence[np.ndarray], generator: np.random.Generator) -> Summary:
    """Interquartile mean of all seeds of all tasks, each task's [seeds] resampled by itself."""

    def middle(*tasks: np.ndarray, axis: int = -1) -> np.ndarray:
        pooled = np.concatenate(tasks, axis=axis)
        return np.asarray(stats.trim_mean(pooled, 0.25, axis=axis))

    return bootstrapped(by_task, middle, generator)


def bootstrapped(
    samples: Sequence[np.ndarray],
    statistic: Callable[..., np.ndarray],
    generator: np.random.Generator,
    resamples: int = RESAMPLES,
) -> Summary:
    """A statistic of independent samples with its percentile interval, if they are large enough.

    `statistic` takes the samples and `axis`, as `scipy.stats.bootstrap` calls it.
    """
    arrays = tuple(np.asarray(sample, float) for sample in samples)
    if not arrays or min(array.size for array in arrays) == 0:
        raise ValueError("a statistic over seeds needs at least one value of each sample")
    value, pooled = float(statistic(*arrays, axis=-1)), np.concatenate(arrays)
    ends = float(pooled.min()), float(pooled.max())
    seeds = min(array.size for array in arrays)
    if seeds < FEWEST_SEEDS:
        word = "one seed" if seeds == 1 else f"{seeds} seeds"
        note = f"no interval: {word}, and fewer than {FEWEST_SEEDS} cannot be resampled honestly"
        return Summary(value, None, note, *ends)
    if ends[0] == ends[1]:  # which SciPy would warn of
        return Summary(value, None, "no interval: all values are equal", *ends)
    found = stats.bootstrap(
        arrays,
        statistic,
        n_resamples=resamples,
        vectorized=True,
        confidence_level=LEVEL,
        method="percentile",
        **{RANDOM: generator},
    ).confidence_interval
    if found.low == found.high:  # such as where every seed of one beats every seed of the other
        return Summary(value, None, "no interval: every resample gives the same", *ends)
    note = f"95 % stratified bootstrap, {seeds} seeds"
    return Summary(value, (float(found.low), float(found.high)), note, *ends)


def final_window(steps: np.ndarray, values: np.ndarray, share: float = 0.1) -> np.ndarray:
    """Mean over the evaluations in the last `share` of the steps: [..., T] -> [...].

    The last evaluation always counts.
    """
    steps, values = np.asarray(steps), np.asarray(values, float)
    inside = steps > (1.0 - share) * steps[-1]
    inside[-1] = True
    return np.asarray(np.mean(values[..., inside], axis=-1))


def area_under_curve(steps: np.ndarray, values: np.ndarray) -> np.ndarray:
    """By the trapezoidal rule, over the steps it spans: the curve's mean height. [..., T] -> [...].

    Of one evaluation it is that value.
    """
    steps, values = np.asarray(steps, float), np.asarray(values, float)
    if len(steps) == 1:
        return np.asarray(values[..., 0])
    return np.asarray(np.trapezoid(values, steps, axis=-1) / (steps[-1] - steps[0]))


def within_budget(costs: np.ndarray, budget: float) -> Proportion:
    """How probable it is that an episode keeps the budget, from independent episodes' costs."""
    costs = np.ravel(np.asarray(costs, float))
    kept = stats.binomtest(int(np.sum(costs <= budget)), costs.size)
    bounds = kept.proportion_ci(LEVEL, method="wilson")
    return Proportion(float(kept.statistic), (float(bounds.low), float(bounds.high)))


def violations(costs: np.ndarray, budget: float) -> Violations:
    """What training paid: episodes over the budget, and by how much in all."""
    excess = np.maximum(np.ravel(np.asarray(costs, float)) - budget, 0.0)
    broken = int(np.sum(excess > 0.0))
    return Violations(broken, broken / excess.size if excess.size else 0.0, float(excess.sum()))


def oscillation(values: np.ndarray, window: int) -> np.ndarray:
    """Standard deviation within a sliding window of evaluations, averaged: [..., T] -> [...].

    Over n - 1, so that it does not depend on the window where values are independent.
    """
    values = np.asarray(values, float)
    if not 2 <= window <= values.shape[-1]:
        raise ValueError(f"{values.shape[-1]} evaluations have no window of {window}")
    windows = np.lib.stride_tricks.sliding_window_view(values, window, axis=-1)
    return np.asarray(np.mean(np.std(windows, axis=-1, ddof=1), axis=-1))


def steps_to_return(
    steps: np.ndarray, returns: np.ndarray, costs: np.ndarray, target: float, budget: float
) -> int | None:
    """The first evaluation of one run that earns `target` within the budget; None if none does."""
    reached = (np.asarray(returns) >= target) & (np.asarray(costs) <= budget)
    return int(np.asarray(steps)[np.argmax(reached)]) if reached.any() else None


def probability_of_improvement(
    first: np.ndarray, second: np.ndarray, generator: np.random.Generator
) -> Summary:
    """That a seed of `first` scores above a seed of `second`; ties count half."""

    def above(x: np.ndarray, y: np.ndarray, axis: int = -1) -> np.ndarray:
        x, y = np.moveaxis(x, axis, -1)[..., :, None], np.moveaxis(y, axis, -1)[..., None, :]
        return np.asarray(np.mean((x > y) + 0.5 * (x == y), axis=(-2, -1)))

    return bootstrapped((first, second), above, generator)
