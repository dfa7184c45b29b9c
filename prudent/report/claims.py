"""The paper's qualitative claims as predicates on records.

Each claim is a number per seed (or a difference between seeds of two settings, or a slope over a
setting) that is above 0 if the claim holds. Its 95 % interval, Student's or Welch's, decides:

    wholly above 0                        holds
    wholly below 0                        does not hold
    on both sides, five seeds or more     does not hold: so many seeds should have shown it
    on both sides, fewer; or one seed     not enough data, and the command that supplies it
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from prudent.report.comparisons import (
    Lacking,
    Margin,
    Which,
    against,
    alike,
    along,
    as_published,
    asymptotic,
    each,
    ends,
    named,
    of_one_setting,
    per_seed,
    usual,
)
from prudent.report.evidence import (
    boxes_shrink,
    cost_oscillation,
    early_overestimate,
    excess,
    final,
    final_return,
    gap_fallen,
    mean_gap,
    mean_return,
    nears_budget,
    number_among,
    share_over,
    spread_fallen,
)
from prudent.report.paper import ALL_TASKS, NAVIGATION, OFF_POLICY, ON_POLICY, VELOCITY
from prudent.report.records import Record, steps_done
from prudent.report.tables import markdown
from prudent.statistics import FEWEST_SEEDS

HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "not enough data"
Measure = Callable[[Sequence[Record]], Margin | Lacking]  # of runs on one task


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


def judge(claims: Sequence[Claim], runs: Sequence[Record]) -> list[Finding]:
    """Each claim on each task that there are runs of, or once without a task."""
    return [finding for claim in claims for finding in judge_one(claim, runs)]


def judge_one(claim: Claim, runs: Sequence[Record]) -> list[Finding]:
    if claim.across:
        return [decide(claim, "all tasks", claim.measure(runs))]
    tasks = sorted({run.run["task"] for run in runs if run.run["task"] in claim.tasks})
    findings = [decide(claim, task, claim.measure(of_task(runs, task))) for task in tasks]
    known = [finding for finding in findings if finding.margin is not None]
    if known:
        return known
    anywhere = "any task" if claim.tasks == ALL_TASKS else ", ".join(claim.tasks)
    return [Finding(claim, anywhere, UNKNOWN, None, findings[0].note if findings else "no runs")]


def of_task(runs: Sequence[Record], task: str) -> list[Record]:
    return [run for run in runs if run.run["task"] == task]


def decide(claim: Claim, task: str, margin: Margin | Lacking) -> Finding:
    if isinstance(margin, Lacking):
        return Finding(claim, task, UNKNOWN, None, margin.what)
    seeds = "one seed" if margin.seeds == 1 else f"{margin.seeds} seeds"
    if margin.steps:
        seeds += f", {margin.steps:,} steps"
    if margin.interval is None or not np.isfinite(margin.interval).all():
        return Finding(claim, task, UNKNOWN, margin, f"{seeds}: no interval")
    low, high = margin.interval
    if low > 0.0:
        return Finding(claim, task, HOLDS, margin, seeds)
    if high < 0.0:
        return Finding(claim, task, FAILS, margin, seeds)
    if margin.seeds >= FEWEST_SEEDS:
        return Finding(claim, task, FAILS, margin, f"{seeds} do not show it")
    return Finding(claim, task, UNKNOWN, margin, f"{seeds}: the interval has 0 inside")


def unsafe_somewhere(runs: Sequence[Record]) -> Margin | Lacking:
    """Each on-policy method's final excess on the task where it is clearest, the least of all.

    A method may choose among nine tasks where to fail, so its intervals are widened for that.
    """
    worst = []
    for algorithm in ON_POLICY:
        by_task = (
            list(map(excess, of_one_setting(named(algorithm), of_task(runs, task))))
            for task in ALL_TASKS
        )
        known = [per_seed(task, tries=len(ALL_TASKS)) for task in by_task if len(task) > 1]
        clearest = max(known, key=lambda m: m.interval[0] if m.interval else 0.0, default=None)
        broken = clearest is not None and clearest.interval is not None and clearest.interval[0] > 0
        if clearest is None or (not broken and len(known) < len(ALL_TASKS)):
            return Lacking(f"{algorithm} has two seeds or more on {len(known)} of 9 tasks")
        worst.append(clearest)
    return min(worst, key=lambda m: m.interval[0] if m.interval else 0.0)


def near_the_best(runs: Sequence[Record]) -> Margin | Lacking:
    """CAL's final return minus nine tenths of the best on-policy method's.

    On-policy methods are compared after the same number of steps. The best is chosen by the same
    runs, which biases the comparison against CAL.
    """
    by_steps: dict[int, dict[str, list[Record]]] = {}
    for algorithm in ON_POLICY:
        for seeds in alike(filter(named(algorithm), runs)):
            own = by_steps.setdefault(steps_done(seeds[0]), {})
            own[algorithm] = max(own.get(algorithm, []), seeds, key=len)
    complete = {steps: own for steps, own in by_steps.items() if len(own) == len(ON_POLICY)}
    if not complete:
        return Lacking("no runs of all on-policy methods of one length")
    last = max(complete.values(), key=lambda own: (min(map(len, own.values())), len(own["ipo"])))
    best = max(last, key=lambda name: float(np.mean(list(map(final_return, last[name])))))
    others = [run for run in runs if run.run["algorithm"] not in ON_POLICY]
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
    return lambda run: run.run["algorithm"] == name and number_among(run, RATIO) == 20.0


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
RATIO = "schedule.updates_per_step"
BUTTONS = tuple(task for task in NAVIGATION if "button" in task)
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
    *(claim for name in OFF_POLICY for claim in cal_beyond(name)),
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
    *(claim for name in OFF_POLICY for claim in of_baseline(name)),
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
