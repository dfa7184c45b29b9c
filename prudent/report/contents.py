"""What the page's plots show, as JSON: made here once, drawn there as it is.

A task has groups and panels. A panel of curves holds, per group, the mean over seeds and each seed
on the steps that all seeds have; from five seeds on also one standard deviation around the mean. A
panel of boxes holds quartiles and whiskers by quarter of training.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.cbook import boxplot_stats

from prudent.report.figures import Groups, cost_label
from prudent.report.groups import algorithms_of
from prudent.report.looks import looks_of
from prudent.report.records import (
    GREEDY,
    Curve,
    Record,
    curve,
    diagnostics_curve,
    kinds,
    training_costs_by_quarter,
    training_curve,
)
from prudent.statistics import FEWEST_SEEDS, mean_and_deviation

Json = dict[str, Any]
MOST_BEYOND = 24  # episodes beyond the whiskers that are shown of a box


def contents(tasks: Mapping[str, Groups]) -> list[Json]:
    algorithms = algorithms_of(tasks)
    return [task_contents(task, groups, algorithms) for task, groups in tasks.items()]


def task_contents(task: str, groups: Groups, algorithms: set[str]) -> Json:
    looks = looks_of(groups, algorithms)
    runs = [records[0].run for records in groups.values()]
    budgets = sorted({float(run["budget"]) for run in runs})
    cost = cost_label(*runs)
    panels = [
        panel("return", "Test return", evaluations(groups, "return")),
        panel("cost", f"Test {cost} per episode", evaluations(groups, "cost"), budgets),
        {**panel("boxes", f"{cost.capitalize()} of training episodes", [], budgets)}
        | {"boxes": [boxes(index, records) for index, records in enumerate(groups.values())]},
        panel("gap", "Estimate minus oracle", measured(groups, gap), [0.0]),
        panel("dual", "Dual estimate minus oracle", measured(groups, dual_gap), [0.0]),
        panel("spread", "Spread of the cost critics", measured(groups, spread)),
        panel("multiplier", "Multiplier", measured(groups, multiplier)),
    ]
    return {
        "task": task,
        "groups": [
            {
                "label": label,
                "algorithm": records[0].run["algorithm"],
                "colour": looks[label].colour,
                "seeds": [record.run["seed"] for record in records],
            }
            for label, records in groups.items()
        ],
        "panels": [each for each in panels if each["curves"] or "boxes" in each],
    }


def panel(name: str, title: str, curves: list[Json], marks: Sequence[float] = ()) -> Json:
    """`marks` are heights of horizontal lines: budgets, or 0 of a gap."""
    return {"name": name, "title": title, "marks": list(marks), "curves": curves}


def evaluations(groups: Groups, name: str) -> list[Json]:
    return [
        of_seeds(index, found, kind != GREEDY)
        for index, records in enumerate(groups.values())
        for kind in kinds(records)
        if len((found := curve(records, name, kind)).steps)
    ]


def measured(groups: Groups, find: Callable[[Sequence[Record]], Curve]) -> list[Json]:
    """What only some runs have; all zero is what a run without it writes."""
    curves = ((index, find(records)) for index, records in enumerate(groups.values()))
    return [of_seeds(index, curve) for index, curve in curves if curve.values.any()]


def gap(records: Sequence[Record]) -> Curve:
    return diagnostics_curve(records, "gap")


def dual_gap(records: Sequence[Record]) -> Curve:
    return diagnostics_curve(records, "dual_gap")


def spread(records: Sequence[Record]) -> Curve:
    return training_curve(records, "ensemble_spread")


def multiplier(records: Sequence[Record]) -> Curve:
    return training_curve(records, "multiplier")


def of_seeds(group: int, curve: Curve, sampled: bool = False) -> Json:
    mean, deviation = mean_and_deviation(curve.values)
    line = {
        "group": group,
        "sampled": sampled,
        "steps": curve.steps.tolist(),
        "mean": rounded(mean),
        "seeds": [rounded(values) for values in curve.values] if len(curve.values) > 1 else [],
    }
    if deviation is not None and len(curve.values) >= FEWEST_SEEDS:
        line |= {"low": rounded(mean - deviation), "high": rounded(mean + deviation)}
    return line


def rounded(values: np.ndarray) -> list[float | None]:
    """To five digits, which is more than a plot can show; what is not finite is a gap."""
    return [
        float(f"{value:.5g}") if abs(value) < 1e300 else None
        for value in np.asarray(values).tolist()
    ]


def boxes(group: int, records: Sequence[Record]) -> Json:
    """As matplotlib draws them in the figures."""
    quarters = training_costs_by_quarter(records)
    return {"group": group, "quarters": [box(q) if q else None for q in quarters]}


def box(costs: Sequence[float]) -> Json:
    (statistics,) = boxplot_stats(np.asarray(costs, float), whis=1.5)
    beyond = np.sort(statistics["fliers"])
    chosen = np.linspace(0, len(beyond) - 1, min(len(beyond), MOST_BEYOND)).round().astype(int)
    ends = {name: statistics[name] for name in ("whislo", "q1", "med", "q3", "whishi")}
    return {
        **{name: float(f"{value:.5g}") for name, value in ends.items()},
        "episodes": len(costs),
        "beyond": len(beyond),
        "shown": rounded(beyond[chosen]),
    }
