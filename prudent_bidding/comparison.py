"""`prudent bidding compare`: the same plan in several worlds, as one table and one figure.

A world is one observation: weeks of one world share its advertisers and what was learned, so they
are averaged first, and intervals are Student's over worlds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import tyro
from matplotlib.figure import Figure

from prudent.cli.options import read
from prudent.files import new_folder, write_atomically, writing
from prudent.statistics import mean_interval
from prudent_bidding.forms import FORMS
from prudent_bidding.plan import INCUMBENT, Plan, kept_files
from prudent_bidding.tables import (
    BEST_CONSTANT,
    Line,
    Rows,
    as_markdown,
    draw_frontier,
    figure_bytes,
    read_lines,
    title,
)

FIGURE, TABLES = "bidding-frontier.png", "bidding-tables.md"


class Ran(NamedTuple):
    """A run of one world: its weeks with learners."""

    folder: Path
    plan: Plan
    lines: list[Line]

    def weeks(self) -> list[int]:
        return sorted({line.week for line in self.lines})

    def find(self, week: int, name: str) -> Line:
        for line in self.lines:
            if (line.week, line.name) == (week, name):
                return line
        raise ValueError(f"{self.folder} has no results of {name} in week {week}; restore them")


Measure = Callable[[Ran, Line], float]  # NaN where it does not exist


def read_runs(folders: Sequence[Path]) -> list[Ran]:
    """Runs of one plan in different worlds, all of the same weeks."""
    runs = []
    for folder in folders:
        plan = Plan.read(folder)
        # The best constant in hindsight is another one in every week.
        lines = [
            line
            for line in read_lines(folder, plan)
            if line.week > 0 and not line.name.startswith(BEST_CONSTANT)
        ]
        runs.append(Ran(folder, plan, lines))
    first = runs[0]
    for run in runs[1:]:
        if replace(run.plan, world_seed=0) != replace(first.plan, world_seed=0):
            raise ValueError(f"{run.folder} has another plan than {first.folder}")
        if run.weeks() != first.weeks():
            raise ValueError(
                f"{run.folder} has {len(run.weeks())} finished weeks, {first.folder} "
                f"{len(first.weeks())}; finish both with `prudent bidding run --resume FOLDER`"
            )
    seeds = [run.plan.world_seed for run in runs]
    for run in runs:
        if seeds.count(run.plan.world_seed) > 1:
            raise ValueError(f"{run.folder}: world {run.plan.world_seed} is given twice")
    if not first.lines:
        raise ValueError(f"{first.folder} has no finished week")
    return sorted(runs, key=lambda run: run.plan.world_seed)


def measure(name: str, scale: float) -> Measure:
    return lambda run, line: scale * line.value(name)


def pay_change(run: Ran, line: Line) -> float:
    """Against the incumbent in the same world and week, in %."""
    incumbent = run.find(line.week, INCUMBENT).value("pay_per_day")
    return 100.0 * (line.value("pay_per_day") / incumbent - 1.0) if incumbent else np.nan


def beyond_constants(metric: str) -> Measure:
    """Pay above what constants would have had with the same metric in the same week, in %; between
    constants it is interpolated, beyond them unknown.
    """

    def of(run: Ran, line: Line) -> float:
        constants = [
            (one.value(metric), one.value("pay_per_day"))
            for one in run.lines
            if one.week == line.week and one.is_constant
        ]
        known = sorted(pair for pair in constants if np.isfinite(pair).all())
        if not known:
            return np.nan
        places, pays = zip(*known, strict=True)
        usual = np.interp(line.value(metric), places, pays, np.nan, np.nan)
        return 100.0 * (line.value("pay_per_day") / float(usual) - 1.0)

    return of


# Title, digits, and what is shown.
COLUMNS: tuple[tuple[str, int, Measure], ...] = (
    ("pay against incumbent (%)", 1, pay_change),
    ("vio_week (%)", 1, measure("vio_week", 100.0)),
    ("vio_exp (%)", 1, measure("vio_exp", 100.0)),
    ("depth (%)", 2, measure("depth", 100.0)),
    ("ROI / target", 3, measure("roi_ratio", 1.0)),
    # What the usual form of the constraint limits: an advertiser's day, whatever its size.
    ("deficit, % of a day's budget", 1, measure("deficit", 100.0)),
    ("mean k", 2, measure("mean_k", 1.0)),
    ("pay beyond constants at its vio_week (%)", 1, beyond_constants("vio_week")),
    ("at its depth (%)", 1, beyond_constants("depth")),
)


def names_of(runs: Sequence[Ran]) -> list[str]:
    return list(dict.fromkeys(line.name for line in runs[0].lines))


def by_world(runs: Sequence[Ran], name: str, of: Measure) -> np.ndarray:
    """Means over weeks, [worlds]."""
    return np.array([np.mean([of(run, run.find(w, name)) for w in run.weeks()]) for run in runs])


def shown(values: np.ndarray, digits: int) -> str:
    """The mean with its interval; a dash where a world has none."""
    if not np.all(np.isfinite(values)):
        return "-"
    text = f"{np.mean(values):z.{digits}f}"
    interval = mean_interval(values)
    if interval is not None:
        text += f" [{interval[0]:z.{digits}f}, {interval[1]:z.{digits}f}]"
    return text


def weekly_table(runs: Sequence[Ran]) -> Rows:
    """The paper's layout, and what was learned to limit: a week a row, an arm a column, means over
    worlds.
    """
    plan = runs[0].plan
    limited = measure(plan.form, 100.0)
    cell = ((pay_change, "+z.1f"), (measure("vio_week", 100.0), ".1f"), (limited, "+z.1f"))

    def shown_of(week: int, name: str) -> str:
        means = (np.mean([of(run, run.find(week, name)) for run in runs]) for of, _ in cell)
        return " / ".join(f"{mean:{how}}" for mean, (_, how) in zip(means, cell, strict=True))

    weeks = [[str(week), *(shown_of(week, name) for name in plan.arms)] for week in runs[0].weeks()]
    return [["week", *map(title, plan.arms)], *weeks]


def policy_table(runs: Sequence[Ran], less: str | None = None) -> Rows:
    """Every policy; with `less`, what that algorithm has more than each other, paired by world."""
    heading = "policy" if less is None else f"{title(less)} less"
    rows = [[heading, *(column for column, _, _ in COLUMNS)]]

    def cell(name: str, digits: int, of: Measure) -> str:
        values = by_world(runs, name, of)
        return shown(values if less is None else by_world(runs, less, of) - values, digits)

    for name in names_of(runs):
        if name != less:
            rows.append([title(name), *(cell(name, digits, of) for _, digits, of in COLUMNS)])
    return rows


def critic_table(runs: Sequence[Ran]) -> Rows:
    """What cost critics promised of a day and what days then cost, means over worlds."""
    rows = [["week", *map(title, runs[0].plan.algorithms)]]
    for week in runs[0].weeks():
        cells = [str(week)]
        for name in runs[0].plan.algorithms:
            found = [run.find(week, name).calibration for run in runs]
            known = all("conservative" in one for one in found)
            means = (np.mean([f[part] for f in found]) for part in ("conservative", "realised"))
            cells.append(" / ".join(f"{mean:.2f}" for mean in means) if known else "-")
        rows.append(cells)
    return rows


def picture(runs: Sequence[Ran]) -> bytes:
    figure = Figure(figsize=(3.6 * len(runs) + 1.8, 4.4), layout="constrained")
    # Each has a scale of its own: worlds differ in how much money there is.
    panels = figure.subplots(1, len(runs), sharex=True, squeeze=False)[0]
    for run, axes in zip(runs, panels, strict=True):
        draw_frontier(axes, run.lines, run.plan)
        axes.set_title(f"world {run.plan.world_seed}")
        if axes is not panels[0]:
            axes.set_ylabel("")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=8)
    weeks = len(runs[0].weeks())
    figure.suptitle(f"Simulated: {runs[0].plan.preset}, numbers are weeks 1 to {weeks}")
    return figure_bytes(figure)


def text_of(runs: Sequence[Ran]) -> str:
    plan, weeks = runs[0].plan, runs[0].weeks()
    compared = "cal" if "cal" in plan.algorithms else plan.algorithms[0]
    worlds = ", ".join(str(run.plan.world_seed) for run in runs)
    done = f"weeks {weeks[0]} to {weeks[-1]}"
    if len(weeks) < plan.weeks:
        done += f" of {plan.weeks} (unfinished)"
    parts = [
        f"Simulated: world `{plan.preset}` ({plan.world_sha256[:8]}), world seeds {worlds}, "
        f"{done}. Intervals: Student's, 95 %, over means of worlds.",
        "Pay against the incumbent in % / advertisers below their target in % / what the "
        f"constraint limits ({plan.form}, in %; at most {100 * FORMS[plan.form].bound:g}), means "
        "over worlds:",
        as_markdown(weekly_table(runs)),
        "Means over weeks:",
        as_markdown(policy_table(runs)),
        "Differences, paired by world, of means over weeks:",
        as_markdown(policy_table(runs, less=compared)),
        "A day's cost in tenths of its budget, as critics estimated it at the day's start / as "
        "days then were:",
        as_markdown(critic_table(runs)),
    ]
    return "\n\n".join(parts) + "\n"


def keep(runs: Sequence[Ran], out: Path) -> None:
    """Copy what tables and figures are made of into new folders, `out`/world-N."""
    for run in runs:
        destination = out / f"world-{run.plan.world_seed}"
        if destination.exists():
            raise ValueError(f"{destination} exists already; choose another place or remove it")
        missing = [p for p in kept_files(run.folder, run.plan) if not (run.folder / p).exists()]
        if missing:
            raise ValueError(
                f"{run.folder} is not finished ({missing[0]} is missing); finish it with `prudent "
                f"bidding run --resume {run.folder}`"
            )
    for run in runs:
        with new_folder(out / f"world-{run.plan.world_seed}") as folder:
            for path in kept_files(run.folder, run.plan):
                write_into(folder / path, (run.folder / path).read_bytes())


def write_into(path: Path, content: bytes) -> None:
    """With the folders that lead there."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)


@dataclass(frozen=True)
class CompareOptions:
    folders: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Of `prudent bidding run`, or their records: one plan, different worlds."""
    out: Path | None = None
    """Where to write the tables and the figure of pay against violations (default: tables are
    printed)."""
    keep: Path | None = None
    """Copy the runs' records, without data and checkpoints, into new folders here: world-0, ..."""


def main(arguments: list[str]) -> None:
    options = read(CompareOptions, "prudent bidding compare", arguments)
    if not options.folders:
        raise ValueError("name the folders of one run or more")
    runs = read_runs(options.folders)
    if options.keep is not None:
        keep(runs, options.keep)
    text = text_of(runs)
    print(text, end="")
    if options.out is not None:
        write_into(options.out / TABLES, text.encode())
        write_into(options.out / FIGURE, picture(runs))
        print(f"\nfigure: {options.out / FIGURE}")
