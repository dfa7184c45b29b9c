"""Panels of figures: each function draws groups of runs into a given matplotlib Axes.

    draw_return(axes, groups)           test return over steps
    draw_cost(axes, groups)             test cost over steps, the budget dashed
    draw_training_boxes(axes, groups)   costs of training episodes by quarter of training
    draw_gap(axes, groups)              estimated minus true cost value, where it was diagnosed
    draw_spread(axes, groups)           how far the cost critics disagree, where there are several

`groups` are the runs of one task: label -> records of its seeds, as `groups.by_label` makes them
of what `folders.collect` finds. Give `looks=looks_of(groups)` for one colour per algorithm in all
figures, and for markers; without, colours follow the order of the groups. A panel sets its title
and the name of its steps' axis, which the caller may set anew; it draws no legend.

Curves: thick is the mean over seeds. Of fewer than five seeds each is drawn, thin: a band over so
few would mean nothing. From five on a shade shows one standard deviation, as in the paper.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from prudent.files import write_atomically
from prudent.report.groups import shown
from prudent.report.looks import COLOURS, Look
from prudent.report.records import (
    GREEDY,
    SAMPLED,
    Curve,
    Record,
    curve,
    diagnostics_curve,
    kinds,
    training_costs_by_quarter,
    training_curve,
)
from prudent.statistics import FEWEST_SEEDS, mean_and_deviation

Groups = Mapping[str, Sequence[Record]]
Looks = Mapping[str, Look]

LINES = {GREEDY: "-", SAMPLED: ":"}
BUDGET_LINES = ("--", "-.", (0, (1, 2)), (0, (8, 3)))
STEPS = "environment steps after warm-up"
MARKED = 7  # markers on a curve


class Drawn(NamedTuple):
    """A group of runs, and how it looks."""

    look: Look
    label: str
    records: Sequence[Record]


def literally(text: str) -> str:
    """Text that matplotlib shows as it is: a `$` begins no formula."""
    return text.replace("$", r"\$")


def coloured(groups: Groups, looks: Looks | None = None) -> Iterator[Drawn]:
    """Each group with its look; without looks a colour by its place, and no marker."""
    for colour, (label, records) in zip(cycle(COLOURS), groups.items(), strict=False):
        yield Drawn(looks[label] if looks else Look(colour, ""), label, records)


def draw_return(axes: Any, groups: Groups, looks: Looks | None = None) -> None:
    draw_curve(axes, groups, "return", looks)
    axes.set_title("test return")


def draw_cost(axes: Any, groups: Groups, looks: Looks | None = None) -> None:
    runs = [records[0].run for records in groups.values()]
    draw_curve(axes, groups, "cost", looks)
    draw_budget(axes, *runs)
    axes.set_title(f"test {cost_label(*runs)} per episode")


def draw_training_boxes(axes: Any, groups: Groups, looks: Looks | None = None) -> None:
    runs = [records[0].run for records in groups.values()]
    draw_boxes(axes, groups, looks)
    draw_budget(axes, *runs)
    axes.set_title(f"{cost_label(*runs)} of training episodes")


def draw_gap(axes: Any, groups: Groups, looks: Looks | None = None, name: str = "gap") -> None:
    """Above 0 the cost is overestimated. `gap` compares at the starts of episodes; `dual_gap` is
    what drives the multiplier: training's own mean estimate against the same oracle.
    """
    for group in coloured(groups, looks):
        draw_seeds(axes, diagnostics_curve(group.records, name), group.look, group.label)
    axes.axhline(0.0, color="0.5", linewidth=0.8)
    axes.set_xlabel(STEPS)
    axes.set_title("estimate - oracle" if name == "gap" else "dual estimate - oracle")


def draw_spread(axes: Any, groups: Groups, looks: Looks | None = None) -> None:
    """Standard deviation of the ensemble's estimates, mean over training's batches (the paper's).

    A single critic has none and is not drawn.
    """
    for group in coloured(groups, looks):
        found = training_curve(group.records, "ensemble_spread")
        if found.values.any():
            draw_seeds(axes, found, group.look, group.label)
    axes.set_xlabel(STEPS)
    axes.set_title("spread of the cost critics")


def draw_curve(axes: Any, groups: Groups, name: str, looks: Looks | None = None) -> None:
    """A number of the evaluations by its name; sampled evaluations are dotted."""
    for group in coloured(groups, looks):
        for kind in kinds(group.records):
            named = group.label if kind == GREEDY else f"{group.label}, sampled"
            draw_seeds(axes, curve(group.records, name, kind), group.look, named, LINES[kind])
    axes.set_xlabel(STEPS)


def draw_seeds(axes: Any, found: Curve, look: Look, label: str, line: str = "-") -> None:
    """Mean over seeds as a line, and behind it the seeds themselves or, of enough, a shade."""
    if not len(found.steps):
        return
    mean, deviation = mean_and_deviation(found.values)
    if deviation is not None and len(found.values) >= FEWEST_SEEDS:
        low, high = mean - deviation, mean + deviation
        axes.fill_between(found.steps, low, high, color=look.colour, alpha=0.15, linewidth=0)
    else:
        axes.plot(found.steps, found.values.T, line, color=look.colour, alpha=0.3, linewidth=0.8)
    marks = {"marker": look.marker, "markersize": 4, "markevery": max(1, len(mean) // MARKED)}
    axes.plot(
        *(found.steps, mean, line),
        color=look.colour,
        label=literally(label),
        linewidth=1.8,
        **(marks if look.marker else {}),
    )


def draw_budget(axes: Any, *runs: Mapping[str, Any]) -> None:
    """One line per budget, with its value in the legend where there are several."""
    budgets = sorted({run["budget"] for run in runs})
    for style, budget in zip(cycle(BUDGET_LINES), budgets, strict=False):
        named = "budget" if len(budgets) == 1 else f"budget {shown(budget)}"
        axes.axhline(budget, color="black", linestyle=style, linewidth=1, label=named)


def draw_boxes(axes: Any, groups: Groups, looks: Looks | None = None) -> None:
    """Training-episode costs, one box per quarter of training and group.

    Box: quartiles and median; whiskers: the last episodes within 1.5 box lengths.
    """
    width = 0.8 / len(groups)
    for index, (look, _, records) in enumerate(coloured(groups, looks)):
        at = [quarter + (index + 0.5) * width - 0.4 for quarter in range(1, 5)]
        boxes = axes.boxplot(
            training_costs_by_quarter(records),
            positions=at,
            widths=0.85 * width,
            whis=1.5,
            patch_artist=True,
            flierprops={"markersize": 2, "markeredgecolor": look.colour, "rasterized": True},
            medianprops={"color": "black"},
        )
        for box in boxes["boxes"]:
            box.set_facecolor(look.colour)
            box.set_alpha(0.6)
    axes.set_xticks(range(1, 5), ["1st", "2nd", "3rd", "4th"])
    axes.set_xlabel("quarter of training")


def cost_label(*runs: Mapping[str, Any]) -> str:
    """How these runs count cost; labels tell which does what where they do not agree."""
    return "discounted cost" if all(run["discounted"] for run in runs) else "cost"


def learning_figure(groups: Groups, path: Path, log_steps: bool = False) -> None:
    """Three panels: test return, test cost, training cost."""
    runs = [records[0].run for records in groups.values()]
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    draw_return(left, groups)
    draw_cost(middle, groups)
    draw_training_boxes(right, groups)
    for axes in (left, middle):
        if log_steps and axes.dataLim.xmax > 0:
            axes.set_xscale("log")  # which leaves out step 0
    middle.legend(fontsize=8)
    figure.suptitle(literally(runs[0]["task"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)


def save(figure: Any, path: Path, dpi: int = 110) -> None:
    """In the format of the name's ending, and gone from memory. Equal figures give equal bytes."""
    content = io.BytesIO()
    # SVG would otherwise hold today's date and random names.
    dated = {"metadata": {"Date": None}} if path.suffix == ".svg" else {}
    with matplotlib.rc_context({"svg.hashsalt": "prudent"}):
        figure.savefig(content, dpi=dpi, format=path.suffix[1:] or None, **dated)
    plt.close(figure)
    write_atomically(path, content.getvalue())
