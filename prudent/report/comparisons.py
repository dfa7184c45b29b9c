"""What claims compare: numbers of runs of one setting, of two, or along a setting.

A comparison makes a `Margin` of runs on one task: a number that is above 0 if the claim holds, with
its 95 % interval over seeds (Student's, or Welch's of two settings). `Lacking` says which runs are
missing for it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from prudent.report.departures import changed, departures
from prudent.report.evidence import at_the_same_steps, final_return, number_among
from prudent.report.groups import WITHOUT_EFFECT, last_part, same_settings
from prudent.report.records import Record, rates_decay, steps_done
from prudent.statistics import LEVEL, mean_interval

STEPS = "schedule.steps"


class Margin(NamedTuple):
    """Above 0 if the claim holds."""

    value: float
    interval: tuple[float, float] | None
    seeds: int  # of the smallest sample
    steps: int = 0  # that the runs were looked at for


class Lacking(NamedTuple):
    what: str


Number = Callable[[Record], float | None]
Which = Callable[[Record], bool]


def per_seed(values: Sequence[float], tries: int = 1) -> Margin:
    """With Student's interval, wider where it is the best of several tries (Bonferroni's)."""
    array = np.asarray(values, float)
    level = 1.0 - (1.0 - LEVEL) / tries
    return Margin(float(np.mean(array)), mean_interval(array, level), len(array))


def difference(larger: Sequence[float], smaller: Sequence[float]) -> Margin:
    """Of two means, with Welch's interval."""
    seeds, value = min(len(larger), len(smaller)), float(np.mean(larger) - np.mean(smaller))
    if seeds < 2:
        return Margin(value, None, seeds)
    parts = np.array([np.var(values, ddof=1) / len(values) for values in (larger, smaller)])
    if not parts.any():
        return Margin(value, (value, value), seeds)
    freedom = parts.sum() ** 2 / (parts**2 / [len(larger) - 1, len(smaller) - 1]).sum()
    half = float(stats.t.ppf(0.975, freedom) * np.sqrt(parts.sum()))
    return Margin(value, (value - half, value + half), seeds)


def slope(at: Sequence[float], values: Sequence[float]) -> Margin:
    """Of the values over the rank of what they were made with."""
    settings, ranks = np.unique(np.asarray(at, float), return_inverse=True)
    seeds = min(int(np.sum(ranks == rank)) for rank in range(len(settings)))
    fitted = stats.linregress(ranks, np.asarray(values, float))
    if seeds < 2:
        return Margin(float(fitted.slope), None, seeds)
    half = float(stats.t.ppf(0.975, len(values) - 2) * fitted.stderr)
    return Margin(float(fitted.slope), (fitted.slope - half, fitted.slope + half), seeds)


def named(algorithm: str) -> Which:
    return lambda run: run.run["algorithm"] == algorithm


def usual(algorithm: str, **values: float) -> Which:
    """With these settings, and all others that experiments vary as its preset has them."""

    def matches(run: Record) -> bool:
        fits = all(number_among(run, f"config.{name}") == value for name, value in values.items())
        return run.run["algorithm"] == algorithm and fits and departures(run.run) <= set(values)

    return matches


def as_published(algorithm: str) -> Which:
    return lambda run: usual(algorithm)(run) and run.run["preset"] == "paper"


def alike(runs: Iterable[Record], but: Sequence[str] = ()) -> list[list[Record]]:
    """Sets of runs that differ only in these settings, their seeds and what has no effect. If a
    seed occurs twice in a set, the run of the newer format is kept.
    """
    sets: list[list[Record]] = []
    ignored = (*but, *WITHOUT_EFFECT)
    for run in sorted(runs, key=lambda run: -run.format):
        same = (s for s in sets if same_settings(s[0], run, ignored))
        members = next(same, None)
        if members is None:
            sets.append([run])
        elif not any(settled(one, but) == settled(run, but) for one in members):
            members.append(run)
    return sets


def settled(run: Record, but: Sequence[str]) -> tuple[object, ...]:
    """The seed, and the settings that may differ: equal for two records of one run."""
    return run.run["seed"], *(number_among(run, name) for name in but if name != STEPS)


def of_one_setting(
    which: Which, runs: Iterable[Record], number: Number = lambda run: 0.0
) -> list[Record]:
    """The largest set of runs that match, have the number and share their settings. Ties are broken
    by length, then by the number of settings that differ from the preset.
    """
    fitting = [run for run in runs if which(run) and number(run) is not None]
    return max(alike(fitting), key=lambda s: (len(s), steps_done(s[0]), -unusual(s)), default=[])


def unusual(runs: Sequence[Record]) -> int:
    """Settings with an effect that differ from the preset, of the run with the fewest of them."""
    ignored = {last_part(name) for name in (*WITHOUT_EFFECT, STEPS)}
    return min(len(changed(run.run) - ignored) for run in runs)


def each(which: Which, number: Number, sign: float, runs: Sequence[Record]) -> Margin | Lacking:
    compared, last = at_the_same_steps(of_one_setting(which, runs, number))
    values = [value for run in compared if (value := number(run)) is not None]
    if not values:
        return Lacking("too little recorded" if any(map(which, runs)) else "no runs")
    return per_seed([sign * value for value in values])._replace(steps=last)


def against(
    larger: Which, smaller: Which, number: Number, runs: Sequence[Record]
) -> Margin | Lacking:
    """Over the steps that all of them have."""
    both = [of_one_setting(which, runs, number) for which in (larger, smaller)]
    runs, last = at_the_same_steps([run for part in both for run in part])
    values = [number(run) for run in runs]
    parts = values[: len(both[0])], values[len(both[0]) :]
    known = [[value for value in part if value is not None] for part in parts]
    if not all(known):
        return Lacking("no runs of both settings")
    return difference(*known)._replace(steps=last)


def alike_but_for(setting: str, runs: Sequence[Record]) -> tuple[list[Record], int]:
    """The largest set of runs that differ only in this setting, their seeds and, where no learning
    rate decays over it, their length. All are cut to the length of the shortest.
    """
    free = [run for run in runs if not rates_decay(run)]
    bound = [run for run in runs if rates_decay(run)]
    sets = [*alike(free, (setting, STEPS)), *alike(bound, (setting,))]
    varied = [s for s in sets if len({number_among(run, setting) for run in s}) > 1]
    return at_the_same_steps(max(varied, key=lambda s: (len(s), -unusual(s)), default=[]))


def along(
    which: Which, setting: str, number: Number, sign: float, runs: Sequence[Record]
) -> Margin | Lacking:
    """How a number changes with a setting, all else equal."""
    compared, last = alike_but_for(setting, [run for run in runs if which(run)])
    pairs = [(number_among(run, setting), number(run)) for run in compared]
    known = [(at, sign * value) for at, value in pairs if at is not None and value is not None]
    if len({at for at, _ in known}) < 2:
        return Lacking(f"no runs that differ in {last_part(setting)} only")
    return slope(*zip(*known, strict=True))._replace(steps=last)


def ends(
    setting: str, number: Number, runs: Sequence[Record], *, high: bool, more: bool
) -> Margin | Lacking:
    """CAL at the highest value of a setting (or without it, at 0) against the next one, all else
    equal: whether the number is more (or less) there.
    """
    compared, _ = alike_but_for(setting, [run for run in runs if run.run["algorithm"] == "cal"])
    values = sorted(
        {value for run in compared if (value := number_among(run, setting)) is not None}
    )
    if len(values) < 2 or (not high and values[0] != 0.0):
        return Lacking(f"no runs that differ in {last_part(setting)} only")
    extreme, usual = (values[-1], values[-2]) if high else (values[0], values[1])
    larger, smaller = (extreme, usual) if more else (usual, extreme)
    return against(
        lambda run: number_among(run, setting) == larger,
        lambda run: number_among(run, setting) == smaller,
        number,
        compared,
    )


def asymptotic(
    larger: Which, smaller: Which, runs: Sequence[Record], share: float = 1.0
) -> Margin | Lacking:
    """Final returns, each at its own end: an on-policy method has many times CAL's steps."""
    both = [of_one_setting(which, runs) for which in (larger, smaller)]
    if not all(both):
        return Lacking("no runs of both")
    high, low = ([final_return(run) for run in part] for part in both)
    return difference(high, [share * value for value in low])
