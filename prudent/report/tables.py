"""Final numbers with intervals: as a Markdown table, and in more detail for the page."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from prudent.report.records import GREEDY, Record, curve, kinds, training_costs
from prudent.statistics import (
    Summary,
    area_under_curve,
    cost_interval,
    interquartile_summary,
    mean_and_deviation,
    mean_interval,
    oscillation,
    violations,
)

Interval = Callable[[np.ndarray], tuple[float, float] | None]
LAST = 10  # evaluations that make up "final"
FINAL_COSTS = ("cost", "cost ± sd", "cost, IQM")  # headings of what the budget is for


def with_interval(values: np.ndarray, find: Interval = mean_interval, digits: str = ".1f") -> str:
    """Mean over seeds and Student's 95 % interval of it."""

    def told(value: float) -> str:
        return f"{value:{digits}}".removesuffix(".")  # which `#.3g` leaves behind hundreds

    interval, mean = find(values), told(float(np.mean(values)))
    if interval is None:
        return f"{mean} (one seed)"
    return f"{mean} [{told(interval[0])}, {told(interval[1])}]"


def cost_with_interval(records: Sequence[Record], kind: str) -> str:
    """The final cost; its interval ends at 0 unless costs of these runs can be below."""
    below = any(
        record.run["budget"] < 0.0 or (training_costs(record) < 0.0).any() for record in records
    )
    return with_interval(final(records, "cost", kind), lambda each: cost_interval(each, below))


def final(records: Sequence[Record], name: str, kind: str) -> np.ndarray:
    """Per seed, the mean over the last evaluations."""
    return np.asarray(curve(records, name, kind).values[:, -LAST:].mean(axis=1))


def share_over_budget(record: Record) -> float | None:
    """Of the training episodes; nothing before the first of them has ended."""
    costs = training_costs(record)
    return float(np.mean(costs > record.run["budget"])) if len(costs) else None


def training_hours(record: Record) -> float:
    """Wall-clock time of training, evaluations not counted."""
    return float(sum(line["window_seconds"] for line in record.progress)) / 3600


def evaluation_cells(records: Sequence[Record], kind: str) -> list[str]:
    steps = curve(records, "return", kind).steps
    if not len(steps):
        return ["no evaluation yet", *["-"] * 4]
    return [
        f"{int(steps[-1]):,}",
        with_interval(final(records, "return", kind)),
        cost_with_interval(records, kind),
        f"{final(records, 'within_budget', kind).mean():.0%}",
        f"{final(records, 'length', kind).mean():.0f}",
    ]


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar in a cell is no border."""
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    for row in rows:
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |")
    return "\n".join(lines)


FINAL = (
    "algorithm", "seeds", "steps", "return", "cost", "episodes within budget", "length",
    "training episodes over budget", "hours a run",
)  # fmt: skip


def final_table(groups: Mapping[str, Sequence[Record]]) -> str:
    rows = []
    for label, records in groups.items():
        shares = [s for record in records if (s := share_over_budget(record)) is not None]
        hours = np.mean([training_hours(record) for record in records])
        for kind in kinds(records) or [GREEDY]:
            cells = [
                label if kind == GREEDY else f"{label}, sampled",
                str(len(records)),
                *evaluation_cells(records, kind),
                f"{np.mean(shares):.1%}" if shares else "no episode yet",
                f"{hours:.2f}",
            ]
            rows.append(cells)
    return markdown(FINAL, rows)


class Row(NamedTuple):
    """One line of the page's table: of a group of runs and one kind of evaluation."""

    label: str
    kind: str
    cells: dict[str, str]  # heading -> text
    over_budget: bool | None  # final cost; None if there is no evaluation that all seeds have


def detailed_rows(groups: Mapping[str, Sequence[Record]]) -> list[Row]:
    return [
        detailed_row(label, records, kind)
        for label, records in groups.items()
        for kind in kinds(records) or [GREEDY]
    ]


def detailed_row(label: str, records: Sequence[Record], kind: str) -> Row:
    steps = curve(records, "return", kind).steps
    cells = {"seeds": str(len(records)), "steps": f"{int(steps[-1]):,}" if len(steps) else "none"}
    hours = np.mean([training_hours(record) for record in records])
    more = paid_in_training(records) | {"hours a run": f"{hours:.2f}"}
    if not len(steps):
        return Row(label, kind, cells | more, None)
    earned, cost = final(records, "return", kind), final(records, "cost", kind)
    cells |= {
        "return": with_interval(earned),
        "cost": cost_with_interval(records, kind),
        "episodes within budget": f"{final(records, 'within_budget', kind).mean():.0%}",
        "length": f"{final(records, 'length', kind).mean():.0f}",
        **more,
        "return ± sd": with_deviation(earned),
        "cost ± sd": with_deviation(cost),
        "return, IQM": middle(earned),
        "cost, IQM": middle(cost),
        "mean return of all training": with_interval(whole_return(records, kind)),
        "cost oscillation": unrest(records, kind),
    }
    return Row(label, kind, cells, bool(cost.mean() > records[0].run["budget"]))


def with_deviation(values: np.ndarray) -> str:
    """As the paper gives its numbers."""
    mean, deviation = mean_and_deviation(values)
    return f"{mean:.1f}" if deviation is None else f"{mean:.1f} ± {deviation:.1f}"


def middle(values: np.ndarray) -> str:
    """Interquartile mean with its bootstrap interval or, of few seeds, their range."""
    summary: Summary = interquartile_summary([values], np.random.default_rng(0))
    if summary.interval is not None:
        return f"{summary.value:.1f} [{summary.interval[0]:.1f}, {summary.interval[1]:.1f}]"
    if len(values) == 1:
        return f"{summary.value:.1f} (one seed)"
    return f"{summary.value:.1f} ({summary.lowest:.1f} to {summary.highest:.1f})"


def whole_return(records: Sequence[Record], kind: str) -> np.ndarray:
    return area_under_curve(*curve(records, "return", kind))


def unrest(records: Sequence[Record], kind: str) -> str:
    costs = curve(records, "cost", kind).values
    return f"{oscillation(costs, LAST).mean():.1f}" if costs.shape[1] >= LAST else "-"


def paid_in_training(records: Sequence[Record]) -> dict[str, str]:
    """Episodes over the budget and cost beyond it, the mean of the seeds."""
    budget = float(records[0].run["budget"])
    by_run = [violations(costs, budget) for r in records if len(costs := training_costs(r))]
    if not by_run:
        return {"training episodes over budget": "no episode yet"}
    over = np.mean([paid.episodes for paid in by_run])
    return {
        "training episodes over budget": f"{over:.0f} ({np.mean([p.share for p in by_run]):.1%})",
        "excess cost in training": f"{np.mean([paid.excess for paid in by_run]):,.0f}",
    }
