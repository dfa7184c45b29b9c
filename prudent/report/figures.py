"""Learning curves with the budget line, and what training itself cost."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from prudent.report.groups import shown
from prudent.report.records import (
    GREEDY,
    SAMPLED,
    Record,
    curve,
    kinds,
    training_costs_by_quarter,
)

COLOURS = (
    *("#1b6ca8", "#d1603d", "#4b9b61", "#7d5ba6", "#8c7a3d"),
    *("#444444", "#c8418c", "#2bb1b8", "#e3a51a", "#8b1e3f"),
)
LINES = {GREEDY: "-", SAMPLED: ":"}
BUDGET_LINES = ("--", "-.", (0, (1, 2)), (0, (8, 3)))


def literally(text: str) -> str:
    """Text that matplotlib shows as it is: a `$` begins no formula."""
    return text.replace("$", r"\$")


def coloured(groups: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Colour, label and content of each group."""
    for colour, (label, content) in zip(cycle(COLOURS), groups.items(), strict=False):
        yield colour, label, content


def draw_curve(axes: Any, groups: Mapping[str, Sequence[Record]], name: str) -> None:
    """Mean over seeds as a line, each seed faint behind it; sampled evaluations are dotted."""
    for colour, label, records in coloured(groups):
        for kind in kinds(records):
            found, line = curve(records, name, kind), LINES[kind]
            named = literally(label if kind == GREEDY else f"{label}, sampled")
            mean = found.values.mean(axis=0)
            axes.plot(found.steps, found.values.T, line, color=colour, alpha=0.3, linewidth=0.8)
            axes.plot(found.steps, mean, line, color=colour, label=named, linewidth=1.8)
    axes.set_xlabel("environment steps after warm-up")


def draw_budget(axes: Any, *runs: Mapping[str, Any]) -> None:
    """One line per budget, with its value in the legend where there are several."""
    budgets = sorted({run["budget"] for run in runs})
    for style, budget in zip(cycle(BUDGET_LINES), budgets, strict=False):
        named = "budget" if len(budgets) == 1 else f"budget {shown(budget)}"
        axes.axhline(budget, color="black", linestyle=style, linewidth=1, label=named)


def draw_boxes(axes: Any, groups: Mapping[str, Sequence[Record]]) -> None:
    """Training-episode costs, one box per quarter of training and group."""
    width = 0.8 / len(groups)
    for index, (colour, _, records) in enumerate(coloured(groups)):
        at = [quarter + (index + 0.5) * width - 0.4 for quarter in range(1, 5)]
        boxes = axes.boxplot(
            training_costs_by_quarter(records),
            positions=at,
            widths=0.85 * width,
            patch_artist=True,
            flierprops={"markersize": 2, "markeredgecolor": colour},
            medianprops={"color": "black"},
        )
        for box in boxes["boxes"]:
            box.set_facecolor(colour)
            box.set_alpha(0.6)
    axes.set_xticks(range(1, 5), ["1st", "2nd", "3rd", "4th"])
    axes.set_xlabel("quarter of training")


def cost_label(*runs: Mapping[str, Any]) -> str:
    """How these runs count cost; labels tell which does what where they do not agree."""
    return "discounted cost" if all(run["discounted"] for run in runs) else "cost"


def learning_figure(
    groups: Mapping[str, Sequence[Record]], path: Path, log_steps: bool = False
) -> None:
    """Three panels: test return, test cost, training cost."""
    runs = [records[0].run for records in groups.values()]
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    draw_curve(left, groups, "return")
    left.set_title("test return")
    draw_curve(middle, groups, "cost")
    draw_budget(middle, *runs)
    middle.set_title(f"test {cost_label(*runs)} per episode")
    draw_boxes(right, groups)
    draw_budget(right, *runs)
    right.set_title(f"{cost_label(*runs)} of training episodes")
    for axes in (left, middle):
        if log_steps and axes.dataLim.xmax > 0:
            axes.set_xscale("log")  # which leaves out step 0
    middle.legend(fontsize=8)
    figure.suptitle(literally(runs[0]["task"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
