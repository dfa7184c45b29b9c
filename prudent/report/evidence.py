"""The runs that claims are held against, and the numbers that claims take of a run."""

from collections.abc import Container, Iterable, Sequence
from pathlib import Path

import numpy as np
from scipy import stats

from prudent.report import folders
from prudent.report.departures import unstored_values
from prudent.report.groups import distinct
from prudent.report.records import GREEDY, Record, steps_done, steps_planned, training_costs
from prudent.report.stored import Say, note
from prudent.report.tables import LAST, share_over_budget
from prudent.statistics import area_under_curve, oscillation

WINDOW = 10  # evaluations within which a curve's oscillation is taken


def collect(paths: Iterable[Path], say: Say = note) -> list[Record]:
    """The finished runs of the paper's methods below these paths. Others are left out, and `say` is
    told which.
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
    return distinct(whole, say)


def options_of_ours(record: Record) -> list[str]:
    """Those that the paper's algorithms do not have, such as `dual_states=recent`."""
    config = record.run.get("config", {})
    return [
        f"{name}={config[name]}"
        for name, default in unstored_values(record.run["algorithm"]).items()
        if config.get(name, default) != default
    ]


def cut(run: Record, steps: Container[int], last: int) -> Record:
    """As it was after `last` steps, had it been evaluated at these only."""
    progress = [line for line in run.progress if line["step"] in steps]
    episodes = [line for line in run.episodes if line.get("step", 0) <= last]
    return run._replace(progress=progress, episodes=episodes)


def at_the_same_steps(runs: Sequence[Record]) -> tuple[list[Record], int]:
    """The runs cut to the evaluations that all of them have, and the last step of these.

    Oscillation, and how far the last evaluations reach back, depend on the interval of evaluations.
    There are no runs if the only common evaluation is that before training.
    """
    evaluated = [{line["step"] for line in run.progress} for run in runs]
    common = set.intersection(*evaluated) if evaluated else set()
    last = max(common, default=0)
    return [cut(run, common, last) for run in runs if last], last


def number_among(run: Record, name: str) -> float | None:
    """A number among the run's settings, such as `config.conservatism`."""
    part, _, field = name.partition(".")
    value = run.run.get(part, {}).get(field)
    return float(value) if isinstance(value, int | float) else None


def column(run: Record, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of an evaluation's number."""
    lines = run.progress
    return np.array([x["step"] for x in lines]), np.array([x[GREEDY][name] for x in lines], float)


def final(run: Record, name: str) -> float:
    """As in the tables: the mean of the last evaluations."""
    return float(np.mean(column(run, name)[1][-LAST:]))


def excess(run: Record) -> float:
    """Final test cost beyond the budget."""
    return final(run, "cost") - float(run.run["budget"])


def cost_oscillation(run: Record) -> float | None:
    costs = column(run, "cost")[1]
    return float(oscillation(costs, WINDOW)) if len(costs) >= WINDOW else None


def final_return(run: Record) -> float:
    return final(run, "return")


def mean_return(run: Record) -> float:
    return float(area_under_curve(*column(run, "return")))


def gaps(run: Record) -> np.ndarray:
    return np.array([line["gap"] for line in run.diagnostics if "gap" in line], float)


def mean_gap(run: Record) -> float | None:
    return float(np.mean(gaps(run))) if len(gaps(run)) else None


def early_overestimate(run: Record) -> float | None:
    """The mean gap in the first quarter of the snapshots, less a tenth of the critics' budget."""
    lines = [line for line in run.diagnostics if "gap" in line and "cost_budget" in line]
    if not lines:
        return None
    early = lines[: max(1, len(lines) // 4)]
    return float(np.mean([line["gap"] - 0.1 * abs(line["cost_budget"]) for line in early]))


def fallen(values: np.ndarray) -> float | None:
    """Half of the largest quarter's mean minus the last quarter's: above 0 for what tends to 0.

    Means are compared because the largest of single values is large by chance.
    """
    if len(values) < 8:
        return None
    quarters = [np.mean(part) for part in np.array_split(values, 4)]
    return float(0.5 * max(quarters) - quarters[-1])


def gap_fallen(run: Record) -> float | None:
    return fallen(np.abs(gaps(run)))


def spread_fallen(run: Record) -> float | None:
    lines = (line.get("training", {}) for line in run.progress)
    return fallen(np.array([x["ensemble_spread"] for x in lines if "ensemble_spread" in x], float))


def boxes_shrink(run: Record) -> float | None:
    """Length of the first quarter's box of training costs beyond that of the last."""
    quarters = quarters_of_costs(run)
    return float(stats.iqr(quarters[0]) - stats.iqr(quarters[-1])) if quarters else None


def nears_budget(run: Record) -> float | None:
    """How much nearer to the budget training costs are in the last quarter than in the first."""
    away = [abs(float(np.median(q)) - run.run["budget"]) for q in quarters_of_costs(run)]
    return away[0] - away[-1] if away else None


def quarters_of_costs(run: Record) -> list[np.ndarray]:
    """Costs of the training episodes in time order; nothing of a run with too few of them."""
    quarters = np.array_split(training_costs(run), 4)
    return quarters if min(map(len, quarters)) >= 4 else []


def share_over(run: Record) -> float | None:
    return share_over_budget(run)
