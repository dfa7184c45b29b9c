"""The paper's qualitative claims as predicates on records, which can say no.

Each claim is a number per seed (or a difference between seeds of two settings, or a slope over a
setting) that is above 0 if the claim holds. Its 95 % interval, Student's or Welch's, decides:

    wholly above 0                        holds
    wholly below 0                        does not hold
    on both sides, five seeds or more     does not hold: so many seeds should have shown it
    on both sides, fewer; or one seed     not enough data, and the command that supplies it
"""

from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from prudent.report import folders
from prudent.report.departures import changed, departures
from prudent.report.groups import (
    UNFELT,
    UNSTORED,
    distinct,
    last_part,
    same_settings,
    settings_of,
)
from prudent.report.records import (
    GREEDY,
    Record,
    rates_decay,
    steps_done,
    steps_planned,
    training_costs,
)
from prudent.report.stored import Entry, Say, note
from prudent.report.tables import LAST, markdown, share_over_budget
from prudent.statistics import FEWEST_SEEDS, LEVEL, area_under_curve, mean_interval, oscillation

HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "not enough data"
WINDOW = 10  # evaluations within which a curve's oscillation is taken
BASELINES = ("sac-pid", "wcsac", "cvpo")
ON_POLICY = ("pdo", "rcpo", "ipo", "crpo", "cup")
NAVIGATION = ("point-button1", "point-button2", "car-button1", "car-button2", "point-push1")
VELOCITY = ("ant-velocity", "halfcheetah-velocity", "hopper-velocity", "humanoid-velocity")
ALL_TASKS = (*NAVIGATION, *VELOCITY)


class Evidence(NamedTuple):
    """One run: its records and, if `prudent diagnose` was there, what it measured."""

    record: Record
    diagnostics: list[Entry]

    @property
    def task(self) -> str:
        return str(self.record.run["task"])

    @property
    def algorithm(self) -> str:
        return str(self.record.run["algorithm"])

    def setting(self, name: str) -> float | None:
        """A number among the run's settings, such as `config.conservatism`."""
        part, _, field = name.partition(".")
        value = self.record.run.get(part, {}).get(field)
        return float(value) if isinstance(value, int | float) else None


class Margin(NamedTuple):
    """Above 0 if the claim holds."""

    value: float
    interval: tuple[float, float] | None
    seeds: int  # of the smallest sample
    steps: int = 0  # that the runs were looked at for


class Lacking(NamedTuple):
    what: str


Measure = Callable[[Sequence[Evidence]], Margin | Lacking]  # of runs on one task


class Claim(NamedTuple):
    figure: str
    text: str
    statistic: str  # what the number is
    command: str  # that supplies the runs
    measure: Measure
    tasks: tuple[str, ...] = ALL_TASKS
    across: bool = False  # of all tasks together, not of each


class Finding(NamedTuple):
    claim: Claim
    task: str
    verdict: str
    margin: Margin | None
    note: str


def collect(paths: Iterable[Path], say: Say = note) -> list[Evidence]:
    """The runs below these paths; what cannot be read, is not done or is not the paper's method is
    said and left out.
    """
    whole: list[Record] = []
    others: list[Record] = []
    for record in folders.collect(paths, say):
        reached, planned = steps_done(record), steps_planned(record)
        if planned is None or reached < planned:
            say(f"{record.folder}: {reached} steps of {planned or 0:.0f} are done; left out")
        else:
            (others if options_of_ours(record) else whole).append(record)
    if others:
        options = dict.fromkeys(name for record in others for name in options_of_ours(record))
        say(f"{len(others)} run(s) with what the paper has not ({', '.join(options)}) left out")
    return [Evidence(record, list(record.diagnostics)) for record in distinct(whole, say)]


def options_of_ours(record: Record) -> list[str]:
    """Those that the paper's algorithms do not have, such as `dual_states=recent`."""
    found = settings_of(record)
    return [
        f"{last_part(name)}={found[name]}"
        for name, without in UNSTORED.items()
        if found.get(name, without) != without
    ]


def judge(claims: Sequence[Claim], runs: Sequence[Evidence]) -> list[Finding]:
    """Each claim on each task that there are runs of, or once without a task."""
    return [finding for claim in claims for finding in judge_one(claim, runs)]


def judge_one(claim: Claim, runs: Sequence[Evidence]) -> list[Finding]:
    if claim.across:
        return [decide(claim, "all tasks", claim.measure(runs))]
    tasks = sorted({run.task for run in runs if run.task in claim.tasks})
    findings = [decide(claim, task, claim.measure(of_task(runs, task))) for task in tasks]
    known = [finding for finding in findings if finding.margin is not None]
    if known:
        return known
    anywhere = "any task" if claim.tasks == ALL_TASKS else ", ".join(claim.tasks)
    return [Finding(claim, anywhere, UNKNOWN, None, findings[0].note if findings else "no runs")]


def of_task(runs: Sequence[Evidence], task: str) -> list[Evidence]:
    return [run for run in runs if run.task == task]


def decide(claim: Claim, task: str, found: Margin | Lacking) -> Finding:
    if isinstance(found, Lacking):
        return Finding(claim, task, UNKNOWN, None, found.what)
    seeds = "one seed" if found.seeds == 1 else f"{found.seeds} seeds"
    if found.steps:
        seeds += f", {found.steps:,} steps"
    if found.interval is None or not np.isfinite(found.interval).all():
        return Finding(claim, task, UNKNOWN, found, f"{seeds}: no interval")
    low, high = found.interval
    if low > 0.0:
        return Finding(claim, task, HOLDS, found, seeds)
    if high < 0.0:
        return Finding(claim, task, FAILS, found, seeds)
    if found.seeds >= FEWEST_SEEDS:
        return Finding(claim, task, FAILS, found, f"{seeds} do not show it")
    return Finding(claim, task, UNKNOWN, found, f"{seeds}: the interval has 0 inside")


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


def column(run: Evidence, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of an evaluation's number."""
    lines = run.record.progress
    return np.array([x["step"] for x in lines]), np.array([x[GREEDY][name] for x in lines], float)


def final(run: Evidence, name: str) -> float:
    """As in the tables: the mean of the last evaluations."""
    return float(np.mean(column(run, name)[1][-LAST:]))


def excess(run: Evidence) -> float:
    """Final test cost beyond the budget."""
    return final(run, "cost") - float(run.record.run["budget"])


def cost_oscillation(run: Evidence) -> float | None:
    costs = column(run, "cost")[1]
    return float(oscillation(costs, WINDOW)) if len(costs) >= WINDOW else None


def mean_return(run: Evidence) -> float:
    return float(area_under_curve(*column(run, "return")))


def gaps(run: Evidence) -> np.ndarray:
    return np.array([line["gap"] for line in run.diagnostics if "gap" in line], float)


def mean_gap(run: Evidence) -> float | None:
    return float(np.mean(gaps(run))) if len(gaps(run)) else None


def early_overestimate(run: Evidence) -> float | None:
    """The gap in the first quarter of the snapshots beyond a tenth of the critics' budget, which
    is taken for nothing.
    """
    found = [line for line in run.diagnostics if "gap" in line and "cost_budget" in line]
    if not found:
        return None
    early = found[: max(1, len(found) // 4)]
    return float(np.mean([line["gap"] - 0.1 * abs(line["cost_budget"]) for line in early]))


def fallen(values: np.ndarray) -> float | None:
    """How far the last quarter lies below half of the largest: above 0 for what tends to 0. Of
    means, since the largest of single values is large by chance.
    """
    if len(values) < 8:
        return None
    quarters = [np.mean(part) for part in np.array_split(values, 4)]
    return float(0.5 * max(quarters) - quarters[-1])


def gap_fallen(run: Evidence) -> float | None:
    return fallen(np.abs(gaps(run)))


def spread_fallen(run: Evidence) -> float | None:
    lines = (line.get("training", {}) for line in run.record.progress)
    return fallen(np.array([x["ensemble_spread"] for x in lines if "ensemble_spread" in x], float))


def boxes_shrink(run: Evidence) -> float | None:
    """Length of the first quarter's box of training costs beyond that of the last."""
    quarters = np.array_split(training_costs(run.record), 4)
    if min(len(quarter) for quarter in quarters) < 4:
        return None
    return float(stats.iqr(quarters[0]) - stats.iqr(quarters[-1]))


def nears_budget(run: Evidence) -> float | None:
    """How much nearer to the budget training costs are in the last quarter than in the first."""
    quarters = np.array_split(training_costs(run.record), 4)
    if min(len(quarter) for quarter in quarters) < 4:
        return None
    away = [abs(float(np.median(q)) - float(run.record.run["budget"])) for q in quarters]
    return away[0] - away[-1]


def share_over(run: Evidence) -> float | None:
    return share_over_budget(run.record)


Number = Callable[[Evidence], float | None]
Which = Callable[[Evidence], bool]


def named(algorithm: str) -> Which:
    return lambda run: run.algorithm == algorithm


def usual(algorithm: str, **values: float) -> Which:
    """With these settings, and all others that experiments vary as its preset has them."""

    def matches(run: Evidence) -> bool:
        fits = all(run.setting(f"config.{name}") == value for name, value in values.items())
        return run.algorithm == algorithm and fits and departures(run.record.run) <= set(values)

    return matches


def as_published(algorithm: str) -> Which:
    return lambda run: usual(algorithm)(run) and run.record.run["preset"] == "paper"


def alike(runs: Iterable[Evidence], but: Sequence[str] = ()) -> list[list[Evidence]]:
    """Runs that differ in nothing that is felt but these settings and their seeds, together. Of a
    seed that is there twice, the run of the newer format.
    """
    sets: list[list[Evidence]] = []
    unfelt = (*but, *UNFELT)
    for run in sorted(runs, key=lambda run: -run.record.format):
        own = (s for s in sets if same_settings(s[0].record, run.record, unfelt))
        found = next(own, None)
        if found is None:
            sets.append([run])
        elif not any(settled(one, but) == settled(run, but) for one in found):
            found.append(run)
    return sets


def settled(run: Evidence, but: Sequence[str]) -> tuple[object, ...]:
    """What makes a run one of its own among those that are alike."""
    return run.record.run["seed"], *(run.setting(name) for name in but if name != STEPS)


def of_one_setting(
    which: Which, runs: Iterable[Evidence], number: Number = lambda run: 0.0
) -> list[Evidence]:
    """Of those that match and have the number, the runs of the settings that have most seeds, of
    these the longest, and of these those that are nearest to their preset.
    """
    fitting = [run for run in runs if which(run) and number(run) is not None]
    return max(
        alike(fitting), key=lambda s: (len(s), steps_done(s[0].record), -unusual(s)), default=[]
    )


def unusual(runs: Sequence[Evidence]) -> int:
    """How many settings that are felt the run that is nearest to its preset has other than it."""
    unfelt = {last_part(name) for name in (*UNFELT, STEPS)}
    return min(len(changed(run.record.run) - unfelt) for run in runs)


def each(which: Which, number: Number, sign: float, runs: Sequence[Evidence]) -> Margin | Lacking:
    found, last = at_the_same_steps(of_one_setting(which, runs, number))
    values = [value for run in found if (value := number(run)) is not None]
    if not values:
        return Lacking("too little recorded" if any(map(which, runs)) else "no runs")
    return per_seed([sign * value for value in values])._replace(steps=last)


def cut(run: Evidence, steps: Container[int], last: int) -> Evidence:
    """As it was after `last` steps, had it been evaluated at these only."""
    progress = [line for line in run.record.progress if line["step"] in steps]
    episodes = [line for line in run.record.episodes if line.get("step", 0) <= last]
    return run._replace(record=run.record._replace(progress=progress, episodes=episodes))


def at_the_same_steps(runs: Sequence[Evidence]) -> tuple[list[Evidence], int]:
    """As they were when the shortest of them ended, at the evaluations that all of them have: how
    much a curve oscillates, and how far its last evaluations reach back, depend on their interval.
    None where they have no such evaluation but that before training.
    """
    evaluated = [{line["step"] for line in run.record.progress} for run in runs]
    common = set.intersection(*evaluated) if evaluated else set()
    last = max(common, default=0)
    return [cut(run, common, last) for run in runs if last], last


def against(
    larger: Which, smaller: Which, number: Number, runs: Sequence[Evidence]
) -> Margin | Lacking:
    """Over the steps that all of them have."""
    both = [of_one_setting(which, runs, number) for which in (larger, smaller)]
    runs, last = at_the_same_steps([run for found in both for run in found])
    values = [number(run) for run in runs]
    parts = values[: len(both[0])], values[len(both[0]) :]
    known = [[value for value in found if value is not None] for found in parts]
    if not all(known):
        return Lacking("no runs of both settings")
    return difference(*known)._replace(steps=last)


def alike_but_for(setting: str, runs: Sequence[Evidence]) -> tuple[list[Evidence], int]:
    """The largest set of runs that differ in nothing but this setting, their seeds and, as long as
    nothing depends on it, their length; all as long as the shortest.
    """
    free = [run for run in runs if not rates_decay(run.record)]
    bound = [run for run in runs if rates_decay(run.record)]
    sets = [*alike(free, (setting, STEPS)), *alike(bound, (setting,))]
    varied = [found for found in sets if len({run.setting(setting) for run in found}) > 1]
    return at_the_same_steps(max(varied, key=lambda s: (len(s), -unusual(s)), default=[]))


def along(
    which: Which, setting: str, number: Number, sign: float, runs: Sequence[Evidence]
) -> Margin | Lacking:
    """How a number changes with a setting, all else equal."""
    compared, last = alike_but_for(setting, [run for run in runs if which(run)])
    pairs = [(run.setting(setting), number(run)) for run in compared]
    known = [(at, sign * value) for at, value in pairs if at is not None and value is not None]
    if len({at for at, _ in known}) < 2:
        return Lacking(f"no runs that differ in {last_part(setting)} only")
    return slope(*zip(*known, strict=True))._replace(steps=last)


def ends(
    setting: str, number: Number, runs: Sequence[Evidence], *, high: bool, more: bool
) -> Margin | Lacking:
    """CAL at the highest value of a setting (or without it, at 0) against the next one, all else
    equal: whether the number is more (or less) there.
    """
    compared, _ = alike_but_for(setting, [run for run in runs if run.algorithm == "cal"])
    values = sorted({value for run in compared if (value := run.setting(setting)) is not None})
    if len(values) < 2 or (not high and values[0] != 0.0):
        return Lacking(f"no runs that differ in {last_part(setting)} only")
    extreme, usual = (values[-1], values[-2]) if high else (values[0], values[1])
    larger, smaller = (extreme, usual) if more else (usual, extreme)
    return against(
        lambda run: run.setting(setting) == larger,
        lambda run: run.setting(setting) == smaller,
        number,
        compared,
    )


def unsafe_somewhere(runs: Sequence[Evidence]) -> Margin | Lacking:
    """Each on-policy method's final excess on the task where it is clearest, the least of all.

    A method may choose among nine tasks where to fail, so its intervals are widened for that.
    """
    worst = []
    for algorithm in ON_POLICY:
        by_task = (
            list(map(excess, of_one_setting(named(algorithm), of_task(runs, task))))
            for task in ALL_TASKS
        )
        known = [per_seed(found, tries=len(ALL_TASKS)) for found in by_task if len(found) > 1]
        clearest = max(known, key=lambda m: m.interval[0] if m.interval else 0.0, default=None)
        broken = clearest is not None and clearest.interval is not None and clearest.interval[0] > 0
        if clearest is None or (not broken and len(known) < len(ALL_TASKS)):
            return Lacking(f"{algorithm} has two seeds or more on {len(known)} of 9 tasks")
        worst.append(clearest)
    return min(worst, key=lambda m: m.interval[0] if m.interval else 0.0)


def final_return(run: Evidence) -> float:
    return final(run, "return")


def asymptotic(
    larger: Which, smaller: Which, runs: Sequence[Evidence], share: float = 1.0
) -> Margin | Lacking:
    """Final returns, each at its own end: an on-policy method has many times CAL's steps."""
    both = [of_one_setting(which, runs) for which in (larger, smaller)]
    if not all(both):
        return Lacking("no runs of both")
    high, low = ([final_return(run) for run in found] for found in both)
    return difference(high, [share * value for value in low])


def near_the_best(runs: Sequence[Evidence]) -> Margin | Lacking:
    """CAL's final return against nine tenths of that on-policy method's which earns most, all of
    them after the same number of steps. That the best is chosen by the same runs makes this harder.
    """
    by_steps: dict[int, dict[str, list[Evidence]]] = {}
    for algorithm in ON_POLICY:
        for found in alike(filter(named(algorithm), runs)):
            own = by_steps.setdefault(steps_done(found[0].record), {})
            own[algorithm] = max(own.get(algorithm, []), found, key=len)
    complete = {steps: own for steps, own in by_steps.items() if len(own) == len(ON_POLICY)}
    if not complete:
        return Lacking("no runs of all on-policy methods of one length")
    last = max(complete.values(), key=lambda own: (min(map(len, own.values())), len(own["ipo"])))
    best = max(last, key=lambda name: float(np.mean(list(map(final_return, last[name])))))
    others = [run for run in runs if run.algorithm not in ON_POLICY]
    return asymptotic(usual("cal"), named(best), [*others, *last[best]], share=0.9)


def of_baseline(name: str) -> tuple[Claim, Claim]:
    command = f"prudent experiment update-ratio --algorithms {name}"

    return (
        Claim("7", f"more updates raise {name}'s return", "rise of final return per step of ratio",
              command, partial(along, named(name), RATIO, final_return, 1.0)),
        Claim("7", f"more updates do not make {name} safe",
              "final test cost minus budget, 20 updates per step",
              command, partial(each, at_twenty(name), excess, 1.0)),
    )  # fmt: skip


def at_twenty(name: str) -> Which:
    return lambda run: run.algorithm == name and run.setting(RATIO) == 20.0


def cal_beyond(name: str) -> tuple[Claim, Claim]:
    command = f"prudent experiment off-policy --algorithms cal {name}"
    return (
        Claim("4", f"CAL earns more than {name}", "mean return over the same steps, CAL minus it",
              command, partial(against, usual("cal"), as_published(name), mean_return)),
        Claim("4", f"CAL breaks its budget less often than {name}",
              "share of training episodes over it, CAL's subtracted",
              command, partial(against, as_published(name), usual("cal"), share_over)),
    )  # fmt: skip


K, C, E = "config.conservatism", "config.convexity", "config.cost_critics"
RATIO, STEPS = "schedule.updates_per_step", "schedule.steps"
BUTTONS = ("point-button1", "point-button2", "car-button1", "car-button2")
CLAIMS = (
    Claim("2", "SAC-Lag underestimates its cost", "oracle minus estimate",
          "prudent experiment underestimation",
          partial(each, usual("sac-lag"), mean_gap, -1.0)),
    Claim("2", "SAC-Lag costs more than its budget", "final test cost minus budget",
          "prudent experiment underestimation", partial(each, usual("sac-lag"), excess, 1.0)),
    Claim("2", "UCB with k = 2 overestimates its cost", "estimate minus oracle",
          "prudent experiment underestimation",
          partial(each, usual("ucb", conservatism=2.0), mean_gap, 1.0)),
    Claim("3", "CAL oscillates less than UCB of the same k", "oscillation of cost, UCB minus CAL",
          "prudent experiment convexification",
          partial(against, usual("ucb", conservatism=0.5), usual("cal", conservatism=0.5),
                  cost_oscillation)),
    Claim("3", "CAL breaks its budget less often than UCB of a larger k",
          "share of training episodes over it, UCB's with k = 2 minus CAL's",
          "prudent experiment convexification",
          partial(against, usual("ucb", conservatism=2.0), usual("cal"), share_over)),
    Claim("3", "CAL's training costs scatter less and less", "box length, first minus last quarter",
          "prudent experiment convexification", partial(each, usual("cal"), boxes_shrink, 1.0)),
    Claim("3", "CAL's training costs come closer to the budget",
          "distance of the median from it, first minus last quarter",
          "prudent experiment convexification", partial(each, usual("cal"), nears_budget, 1.0)),
    Claim("3", "CAL's ensemble comes to agree", "half of the largest quarter's spread minus the "
          "last quarter's",
          "prudent experiment convexification", partial(each, usual("cal"), spread_fallen, 1.0)),
    Claim("3", "CAL's estimate comes to be right", "half of the largest quarter's |gap| minus the "
          "last quarter's",
          "prudent experiment convexification",
          partial(each, usual("cal"), gap_fallen, 1.0)),
    Claim("3", "sparse cost is not overestimated early",
          "oracle and a tenth of the critics' budget minus estimate, first quarter",
          "prudent experiment convexification --tasks point-button2",
          partial(each, usual("cal"), early_overestimate, -1.0), ("point-button2",)),
    Claim("4", "CAL keeps its budget", "budget minus final test cost",
          "prudent experiment off-policy --algorithms cal",
          partial(each, usual("cal"), excess, -1.0)),
    *(claim for name in BASELINES for claim in cal_beyond(name)),
    Claim("5", "without conservatism CAL breaks its budget", "final test cost minus budget",
          "prudent experiment conservatism",
          partial(each, usual("cal", conservatism=0.0), excess, 1.0), BUTTONS),
    Claim("5", "without conservatism CAL breaks its budget more often",
          "share of training episodes over it, k = 0 minus next k",
          "prudent experiment conservatism", partial(ends, K, share_over, high=False, more=True)),
    Claim("5", "more conservatism, less cost", "fall of final test cost per step of k",
          "prudent experiment conservatism",
          partial(along, named("cal"), K, lambda run: final(run, "cost"), -1.0)),
    Claim("5", "too much conservatism slows the return", "mean return, next k minus largest k",
          "prudent experiment conservatism", partial(ends, K, mean_return, high=True, more=False)),
    Claim("5", "without convexity CAL oscillates", "oscillation of test cost, c = 0 minus next c",
          "prudent experiment convexity",
          partial(ends, C, cost_oscillation, high=False, more=True)),
    Claim("5", "without convexity CAL earns less", "mean return, next c minus c = 0",
          "prudent experiment convexity", partial(ends, C, mean_return, high=False, more=False)),
    Claim("5", "too much convexity slows the return", "mean return, next c minus largest c",
          "prudent experiment convexity", partial(ends, C, mean_return, high=True, more=False)),
    Claim("6", "no on-policy method is safe on all tasks", "final test cost minus budget",
          "prudent experiment on-policy", unsafe_somewhere, across=True),
    Claim("6", "CAL earns about as much as the best on-policy method",
          "final return, CAL minus nine tenths of the best other", "prudent experiment on-policy",
          near_the_best),
    Claim("6", "IPO earns more than CAL", "final return, IPO minus CAL",
          "prudent experiment on-policy", partial(asymptotic, named("ipo"), usual("cal")),
          NAVIGATION),
    Claim("6", "IPO earns less than CAL", "final return, CAL minus IPO",
          "prudent experiment on-policy", partial(asymptotic, usual("cal"), named("ipo")),
          VELOCITY),
    *(claim for name in BASELINES for claim in of_baseline(name)),
    Claim("7", "CAL keeps its budget also with many updates",
          "budget minus final test cost, 20 updates per step",
          "prudent experiment update-ratio --algorithms cal",
          partial(each, at_twenty("cal"), excess, -1.0)),
    Claim("8", "larger ensembles cost less", "fall of final test cost per step of E",
          "prudent experiment ensemble-size",
          partial(along, named("cal"), E, lambda run: final(run, "cost"), -1.0)),
)  # fmt: skip


def claims_table(findings: Sequence[Finding]) -> str:
    headings = (
        "figure", "claim", "task", "verdict", "statistic (above 0: holds)", "95 % interval", "note",
    )  # fmt: skip
    rows = []
    for claim, task, verdict, margin, remark in findings:
        value = bounds = "-"
        if margin is not None and np.isfinite(margin.value):
            value = f"{margin.value:.3g}"
        if margin is not None and margin.interval is not None:
            bounds = "[{:.3g}, {:.3g}]".format(*margin.interval)
        supply = f"; run: `{claim.command}`" if verdict == UNKNOWN else ""
        cells = claim.figure, claim.text, task, verdict, f"{claim.statistic}: {value}", bounds
        rows.append((*cells, remark + supply))
    return markdown(headings, rows)
