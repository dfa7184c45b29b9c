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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple, cast

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter

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
from prudent.report.rendering import literally, save
from prudent.statistics import FEWEST_SEEDS, mean_and_deviation

Groups = Mapping[str, Sequence[Record]]
Looks = Mapping[str, Look]
Panel = Callable[[Any, Groups, Looks], None]

LINES = {GREEDY: "-", SAMPLED: ":"}
BUDGET_LINES: tuple[Any, ...] = ("--", "-.", (0, (1, 2)), (0, (8, 3)))
STEPS = "environment steps after warm-up"
USUAL = 0.95  # share of the values of a cost's curves that their axis shows in any case
SPIKE = 1.5  # times what is usual: higher ones may be cut off
MARKED = 7  # markers on a curve
MANY = 6  # groups, more of which need wider boxes
PRINTED = {
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.3,
    "grid.linewidth": 0.6, "axes.titlesize": 11, "axes.labelsize": 9, "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
}  # fmt: skip


class Drawn(NamedTuple):
    """A group of runs, and how it looks."""

    look: Look
    label: str
    records: Sequence[Record]


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
    usual = np.quantile(heights(axes.lines), USUAL)
    cut = cut_spikes(axes, max(usual, *(run["budget"] for run in runs)))
    axes.set_title(f"test {cost_label(*runs)} per episode{cut}")


def draw_training_boxes(axes: Any, groups: Groups, looks: Looks | None = None) -> None:
    runs = [records[0].run for records in groups.values()]
    draw_boxes(axes, groups, looks)
    draw_budget(axes, *runs)
    no_dots = [line for line in axes.lines if line.get_linestyle() != "None"]
    cut = cut_spikes(axes, heights(no_dots).max())
    axes.set_title(f"{cost_label(*runs)} of training episodes{cut}")


def draw_gap(axes: Any, groups: Groups, looks: Looks | None = None, name: str = "gap") -> None:
    """Above 0 the cost is overestimated. `gap` compares at the starts of episodes; `dual_gap` is
    what drives the multiplier: training's own mean estimate against the same oracle.
    """
    for group in coloured(groups, looks):
        draw_seeds(axes, diagnostics_curve(group.records, name), group.look, group.label)
    axes.axhline(0.0, color="0.5", linewidth=0.8)
    axes.set_xlabel(STEPS)
    axes.set_ylabel("discounted cost from the start", fontsize=8)  # no episode's plain sum
    axes.set_title("estimate - oracle" if name == "gap" else "dual estimate - oracle")


def draw_spread(axes: Any, groups: Groups, looks: Looks | None = None) -> None:
    """Standard deviation of the ensemble's estimates, mean over training's batches (the paper's).

    A single critic has none and is not drawn.
    """
    for group in coloured(groups, looks):
        spread = training_curve(group.records, "ensemble_spread")
        if spread.values.any():
            draw_seeds(axes, spread, group.look, group.label)
    axes.set_xlabel(STEPS)
    axes.set_title("spread of the cost critics")


PANELS: dict[str, Panel] = {  # by what it shows
    "return": draw_return,
    "cost": draw_cost,
    "training cost": draw_training_boxes,
    "gap": draw_gap,
    "spread": draw_spread,
}


def draw_curve(axes: Any, groups: Groups, name: str, looks: Looks | None = None) -> None:
    """A number of the evaluations by its name; sampled evaluations are dotted."""
    for group in coloured(groups, looks):
        for kind in kinds(group.records):
            named = group.label if kind == GREEDY else f"{group.label}, sampled"
            draw_seeds(axes, curve(group.records, name, kind), group.look, named, LINES[kind])
    axes.set_xlabel(STEPS)


def draw_seeds(axes: Any, curve: Curve, look: Look, label: str, line: str = "-") -> None:
    """Mean over seeds as a line, and behind it the seeds themselves or, of enough, a shade."""
    if not len(curve.steps):
        return
    mean, deviation = mean_and_deviation(curve.values)
    if deviation is not None and len(curve.values) >= FEWEST_SEEDS:
        low, high = mean - deviation, mean + deviation
        axes.fill_between(curve.steps, low, high, color=look.colour, alpha=0.15, linewidth=0)
    else:
        axes.plot(curve.steps, curve.values.T, line, color=look.colour, alpha=0.3, linewidth=0.8)
    marks = {"marker": look.marker, "markersize": 4, "markevery": max(1, len(mean) // MARKED)}
    axes.plot(
        *(curve.steps, mean, line),
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
    # Below everything else, so that an SVG holds all dots as one picture and not each as a path.
    dots = {"rasterized": True, "zorder": 1.5} if looks else {}
    for index, (look, _, records) in enumerate(coloured(groups, looks)):
        at = [quarter + (index + 0.5) * width - 0.4 for quarter in range(1, 5)]
        boxes = axes.boxplot(
            training_costs_by_quarter(records),
            positions=at,
            widths=0.85 * width,
            whis=1.5,
            patch_artist=True,
            flierprops={"markersize": 2, "markeredgecolor": look.colour, **dots},
            medianprops={"color": "black"},
        )
        for box in boxes["boxes"]:
            box.set_facecolor(look.colour)
            box.set_alpha(0.6)
    axes.set_xticks(range(1, 5), ["1st", "2nd", "3rd", "4th"])
    axes.set_xlabel("quarter of training")


def cut_spikes(axes: Any, usual: float) -> str:
    """A few values far above the usual ones would press all others flat: then the axis ends below
    them, and a note for its title says how high they go.
    """
    drawn = heights(axes.lines)
    if usual <= 0 or drawn.max() <= SPIKE * usual:
        return ""
    lowest = drawn.min()
    margin = 0.05 * (usual - lowest)
    axes.set_ylim(lowest - margin, usual + margin)
    return f", at most {drawn.max():.3g}"


def heights(lines: Iterable[Any]) -> np.ndarray:
    drawn = np.concatenate([np.asarray(line.get_ydata(), float) for line in lines])
    return drawn[np.isfinite(drawn)]


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
        if log_steps:
            use_log_steps(axes)
    handles, labels = middle.get_legend_handles_labels()
    columns = min(len(labels), 6)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=8)
    figure.suptitle(literally(runs[0]["task"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)


def use_log_steps(axes: Any) -> None:
    """Step 0 is then left out; where there is no other, the axis stays as it is."""
    if axes.dataLim.xmax > 0:
        # Clipped, it would stand at the far left, and a flat line lead to it.
        axes.set_xscale("log", nonpositive="mask")


def has_gap(groups: Groups) -> bool:
    return any(len(diagnostics_curve(records, "gap").steps) for records in groups.values())


def has_spread(groups: Groups) -> bool:
    spreads = (training_curve(records, "ensemble_spread") for records in groups.values())
    return any(spread.values.any() for spread in spreads)


def task_figure(groups: Groups, looks: Looks, log_steps: bool = False) -> Any:
    """All panels that these runs of one task have, and below them a legend with what is drawn."""
    curves: dict[str, Panel] = {"return": draw_return, "cost": draw_cost}
    curves |= {"gap": draw_gap} if has_gap(groups) else {}
    curves |= {"spread": draw_spread} if has_spread(groups) else {}
    mosaic = arrangement(list(curves), wide_boxes=len(groups) > MANY)
    lines = -(-(len(groups) + 1) // legend_columns(groups))
    with matplotlib.rc_context(cast("Any", PRINTED)):
        figure, places = plt.subplot_mosaic(cast("Any", mosaic), **spaced(mosaic, lines))
        for name, axes in places.items():
            curves.get(name, draw_training_boxes)(axes, groups, looks)
            if name in curves and log_steps:
                use_log_steps(axes)
            elif name in curves:
                axes.xaxis.set_major_formatter(EngFormatter(sep=""))
            else:
                axes.set_xlim(0.5, 4.5)
        task = next(iter(groups.values()))[0].run["task"]
        figure.suptitle(literally(task), fontweight="bold", y=1 - 0.1 / figure.get_figheight())
        figure.legend(
            handles=legend_handles(groups, looks),
            loc="lower center",
            ncols=legend_columns(groups),
            fontsize=8.5,
            frameon=False,
            title=in_words(groups),
            title_fontproperties={"size": 8},
        )
    return figure


def spaced(mosaic: Sequence[Sequence[str]], legend_lines: int) -> dict[str, Any]:
    """Size and margins in inches. Matplotlib's own layout takes as long as all the drawing."""
    rows, columns = len(mosaic), len(mosaic[0])
    width, height = (4.0, 2.75) if columns > 2 else (5.2, 2.9)  # of one panel
    left, right, top, between, above = 0.6, 0.15, 0.65, 0.55, 0.8
    bottom = 0.8 + 0.185 * legend_lines
    across = left + right + columns * width + (columns - 1) * between
    along = top + bottom + rows * height + (rows - 1) * above
    margins = {
        "left": left / across, "right": 1 - right / across, "wspace": between / width,
        "bottom": bottom / along, "top": 1 - top / along, "hspace": above / height,
    }  # fmt: skip
    return {"figsize": (across, along), "gridspec_kw": margins}


def arrangement(curves: Sequence[str], wide_boxes: bool) -> list[list[str]]:
    """Names of panels by row; boxes of many groups have a row of their own."""
    if wide_boxes:
        columns = 3 if len(curves) == 3 else 2
        rows = [list(curves[at : at + columns]) for at in range(0, len(curves), columns)]
        return [*rows, ["boxes"] * columns]
    panels = [*curves[:2], "boxes", *curves[2:]]
    columns = 2 if len(panels) == 4 else 3
    panels += ["."] * (-len(panels) % columns)
    return [panels[at : at + columns] for at in range(0, len(panels), columns)]


def legend_handles(groups: Groups, looks: Looks) -> list[Any]:
    """One for each group, not for each of its lines; then the budget."""
    lines = [
        Line2D([], [], color=look.colour, marker=look.marker, label=literally(label), linewidth=1.8)
        for label, look in looks.items()
    ]
    budgets = {records[0].run["budget"] for records in groups.values()}
    styles = zip(BUDGET_LINES, sorted(budgets), strict=False)
    return lines + [
        Line2D([], [], color="black", linestyle=style, label=f"budget {shown(budget)}")
        for style, budget in styles
    ]


def legend_columns(groups: Groups) -> int:
    """As many as the longest label leaves room for."""
    return max(1, min(4, 150 // max(12 + len(label) for label in groups)))


def in_words(groups: Groups) -> str:
    """What stands behind the lines, which depends on how many seeds there are."""
    counts = {len(records) for records in groups.values()}
    parts = ["Thick: mean over seeds."] if max(counts) > 1 else ["One seed each."]
    if counts & set(range(2, FEWEST_SEEDS)):
        parts.append(f"Thin: each seed, where there are fewer than {FEWEST_SEEDS}.")
    if max(counts) >= FEWEST_SEEDS:
        parts.append("Shade: one standard deviation over seeds.")
    if any(SAMPLED in kinds(records) for records in groups.values()):
        parts.append("Dotted: episodes with sampled actions.")
    parts.append("Boxes: quartiles, whiskers within 1.5 box lengths, seeds pooled.")
    return " ".join(parts)
