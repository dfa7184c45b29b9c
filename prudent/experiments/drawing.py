"""A figure in the paper's layout, and its numbers as a table, from the records of runs."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D

from prudent.experiments.layout import Layout, Panel, Place
from prudent.files import write_atomically
from prudent.report import figures
from prudent.report.cautions import unfinished
from prudent.report.groups import (
    WITHOUT_EFFECT,
    differences,
    distinct,
    evaluated,
    in_order,
    natural,
)
from prudent.report.looks import COLOURS, MARKERS, Look, looks_of
from prudent.report.records import GREEDY, Record, diagnostics_curve, training_costs
from prudent.report.rendering import literally, save
from prudent.report.stored import Say, note
from prudent.report.tables import final, final_table, markdown, with_interval
from prudent.statistics import cost_interval

BY_QUARTER = ("training cost",)  # and not over steps
FORMATS = (".png", ".svg")
SIDE = (3.4, 2.7)  # inches of one panel
COMMON = 3  # panels of several families that stand side by side
MOST = 4  # panels in a row of their own
FEW, WIDE = 2, 5.1  # panels side by side that have more room, and how much
WORD = 1.7  # inches of an entry of the legend
LINE = 56  # letters of a title that a panel has room for
TICKS = 5  # intervals of a step axis at most, so that numbers of six digits do not meet
Groups = dict[str, list[Record]]


class Cell(NamedTuple):
    """One panel, with the runs that it shows."""

    panel: Panel
    groups: Groups


def draw(
    records: Sequence[Record], layout: Layout, folder: Path, name: str, say: Say = note
) -> list[Path]:
    """Pictures and table of those runs that the layout has lines for, and where they are."""
    labelled = by_task(distinct(evaluated(records, say), say), layout)
    if not labelled:
        raise ValueError(f"there is no run that {name} shows")
    warn(labelled, layout, say)
    folder.mkdir(parents=True, exist_ok=True)
    figure = picture(labelled, layout)
    paths = [folder / f"{name}{suffix}" for suffix in FORMATS]
    for path in paths:
        save(figure, path)
    table = folder / f"{name}.md"
    write_atomically(table, tables(labelled, layout).encode())
    return [*paths, table]


def warn(labelled: Mapping[str, Sequence[Groups]], layout: Layout, say: Say) -> None:
    """What a reader of the figure has to know of its runs."""
    for task, places in labelled.items():
        for groups in places:
            for text in unfinished(groups):
                say(f"{task}: {text}")
            for label, records in groups.items():
                without = [str(r.folder) for r in records if not r.diagnostics]
                if layout.needs_oracle and without:
                    say(
                        f"{task}, {label}: not in the gap's panel and table, since `prudent "
                        f"diagnose` was not there: {', '.join(without)}"
                    )


def by_task(records: Sequence[Record], layout: Layout) -> dict[str, list[Groups]]:
    """Runs by task, place and label.

    A line shows runs of one setting. Runs of several settings that would share a line are refused.
    """
    by_place: dict[str, dict[Place, Groups]] = {}
    for record in records:
        label = layout.label(record.run)
        if label is not None:
            place = layout.place(record.run, layout.panels[0])
            groups = by_place.setdefault(record.run["task"], {}).setdefault(place, {})
            line = groups.setdefault(label, [])
            for other in line:
                check_seeds_of_one(other, record, label)
            line.append(record)

    def sorted_groups(groups: Groups) -> Groups:
        if not layout.kinds:
            return in_order(groups)
        labels = dict.fromkeys([*layout.kinds, *groups])
        return {label: groups[label] for label in labels if label in groups}

    return {
        task: [sorted_groups(places[place]) for place in sorted(places, key=by_column)]
        for task, places in by_place.items()
    }


def by_column(place: Place) -> list[tuple[float, str]]:
    return natural(place.column)


def check_seeds_of_one(one: Record, other: Record, label: str) -> None:
    """That both may be of one line."""
    differing = differences(one, other) - WITHOUT_EFFECT
    task = other.run["task"]
    if differing:
        names = ", ".join(sorted(name.rpartition(".")[2] for name in differing))
        raise ValueError(
            f"{one.folder} and {other.folder} would both be {label!r} on {task}, but differ in "
            f"{names}; give runs of one of them"
        )
    if one.run["seed"] == other.run["seed"]:
        raise ValueError(
            f"{one.folder} and {other.folder} would both be seed {one.run['seed']} of {label!r} on "
            f"{task}; give one of them"
        )


def cells_of(labelled: Mapping[str, Sequence[Groups]], layout: Layout) -> dict[Place, Cell]:
    cells = {}
    for groups in (groups for places in labelled.values() for groups in places):
        run = next(iter(groups.values()))[0].run
        for panel in layout.panels:
            cells[layout.place(run, panel)] = Cell(panel, groups)
    return cells


def picture(labelled: Mapping[str, Sequence[Groups]], layout: Layout) -> Any:
    cells = cells_of(labelled, layout)
    rows = in_rows(cells)
    across = max(map(len, rows))
    width = SIDE[0] if across > FEW else WIDE
    size = (width * across, SIDE[1] * len(rows) + 0.5)
    looks = looks_of(
        {label: runs for cell in cells.values() for label, runs in cell.groups.items()}
    )
    for label, colour, marker in zip(layout.kinds, COLOURS, cycle(MARKERS), strict=False):
        looks[label] = Look(colour, marker)
    figure, axes = plt.subplots(
        len(rows), across, figsize=size, squeeze=False, layout="constrained"
    )
    for places, panels in zip(rows, axes, strict=True):
        for place, panel in zip(places, panels, strict=False):
            draw_cell(panel, place, cells[place], looks)
            if layout.log_steps and cells[place].panel not in BY_QUARTER:
                figures.use_log_steps(panel)
        for panel in panels[len(places) :]:
            panel.set_axis_off()
    add_legend(figure, axes.flat)
    return figure


def in_rows(places: Iterable[Place]) -> list[list[Place]]:
    """Side by side what has the same row. A few tasks of several families have rows in common, a
    single column is laid on its side, and a single row that is too long is broken.
    """
    rows: dict[tuple[str, ...], list[Place]] = {}
    common: dict[tuple[str, ...], list[Place]] = {}
    for place in places:
        rows.setdefault(place.row, []).append(place)
        common.setdefault(place.row[1:], []).append(place)
    if () not in common and max(map(len, common.values())) <= COMMON:
        rows = common
    if max(map(len, rows.values())) > 1 and len(rows) > 1:
        return list(rows.values())
    alone = [place for row in rows.values() for place in row]
    width = len(alone) if len(alone) <= MOST else COMMON
    return [alone[at : at + width] for at in range(0, len(alone), width)]


def draw_cell(axes: Any, place: Place, cell: Cell, looks: figures.Looks) -> None:
    figures.PANELS[cell.panel](axes, cell.groups, looks)
    run = next(iter(cell.groups.values()))[0].run
    where = [run["task"]] if place.column == run["task"] else [run["task"], place.column]
    where = [part for part in where if part != cell.panel]
    parts = [": ".join(where), axes.get_title()]
    between = ": " if len(": ".join(parts)) <= LINE else "\n"
    axes.set_title(between.join(map(literally, parts)), fontsize=8)
    axes.tick_params(labelsize=8)
    if cell.panel not in BY_QUARTER:
        axes.locator_params(axis="x", nbins=TICKS)
    axes.xaxis.label.set_size(8)


def add_legend(figure: Any, axes: Iterable[Any]) -> None:
    """One for all panels, above them. One entry says that sampled evaluations are dotted."""
    named: dict[str, Any] = {}
    sampled = False
    for panel in axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            if label.endswith(", sampled"):
                sampled = True
            else:
                named.setdefault(label, handle)
    if sampled:
        named["dotted: sampled actions"] = Line2D([], [], color="0.4", linestyle=":")
    columns = max(1, int(figure.get_figwidth() / WORD))
    figure.legend(
        named.values(), named.keys(), loc="outside upper center", ncols=columns, fontsize=8
    )


def tables(labelled: Mapping[str, Sequence[Groups]], layout: Layout) -> str:
    """The numbers behind the figure, task by task."""
    parts = []
    for task, places in labelled.items():
        for groups in places:
            place = layout.place(next(iter(groups.values()))[0].run, layout.panels[0])
            aside = "" if len(places) == 1 else f", {place.column}"
            parts.append(f"## {task}{aside}\n")
            shown = [n for n in layout.tables if n != "gap" or figures.has_gap(groups)]
            parts += [TABLES[name](groups) + "\n" for name in shown]
    return "\n".join(parts)


def half_cost_table(groups: Mapping[str, Sequence[Record]]) -> str:
    """How the paper came by its budgets: half of what unconstrained PPO costs in the end."""
    headings = ("algorithm", "seeds", "cost at the end", "half of it", "budget of the task")
    rows = []
    for label, records in groups.items():
        costs = final(records, "cost", GREEDY)
        cells = [label, str(len(records)), with_interval(costs), with_interval(costs / 2)]
        rows.append([*cells, f"{records[0].run['budget']:g}"])
    return markdown(headings, rows)


def last_quarter_table(groups: Mapping[str, Sequence[Record]]) -> str:
    """What the training episodes cost in the end, of which the limit is meant to hold."""
    headings = (
        "options", "seeds", "budget", "cost of training episodes, last quarter", "over budget",
        "final test cost", "final test return",
    )  # fmt: skip
    rows = []
    for label, records in groups.items():
        budget = records[0].run["budget"]
        costs = [np.array_split(training_costs(record), 4)[-1] for record in records]
        mean = np.array([part.mean() if len(part) else np.nan for part in costs])
        over = np.mean([np.mean(part > budget) for part in costs if len(part)] or [np.nan])
        cells = [label, str(len(records)), f"{budget:g}"]
        cells += [with_interval(mean, cost_interval), f"{over:.0%}"]
        cells += [with_interval(final(records, "cost", GREEDY), cost_interval)]
        cells += [with_interval(final(records, "return", GREEDY))]
        rows.append(cells)
    return markdown(headings, rows)


def gap_table(groups: Mapping[str, Sequence[Record]]) -> str:
    """Estimate minus oracle, mean over the snapshots of each half of training and over seeds."""
    headings = (
        "algorithm", "seeds", "snapshots", "gap (A), first half", "second half",
        "gap (B), first half", "second half", "coverage",
    )  # fmt: skip
    rows = []
    for label, every in groups.items():
        records = [record for record in every if record.diagnostics] or every
        gap = diagnostics_curve(records, "gap")
        cells = [label, str(len(records) if gap.steps.size else 0), str(len(gap.steps))]
        for name in ("gap", "dual_gap"):
            cells += halves(diagnostics_curve(records, name).values)
        coverage = diagnostics_curve(records, "coverage").values
        cells.append(f"{coverage.mean():.0%}" if coverage.size else "-")
        rows.append(cells)
    return markdown(headings, rows)


TABLES = {
    "final": final_table,
    "gap": gap_table,
    "half cost": half_cost_table,
    "last quarter": last_quarter_table,
}


def halves(values: np.ndarray) -> list[str]:
    """The mean of each half of the snapshots, with its interval over seeds. [seeds, snapshots]"""
    if values.shape[1] < 2:
        return ["-", "-"]
    middle = values.shape[1] // 2
    parts = values[:, :middle], values[:, middle:]
    return [with_interval(part.mean(axis=1), digits="#.3g") for part in parts]
