"""`prudent experiment`."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from prudent.backend import usable_cores
from prudent.cli.grids import GridOptions, Running, chosen, run_grid
from prudent.cli.options import one_of
from prudent.experiments.figures import EXPERIMENTS, FIGURES
from prudent.experiments.layout import Layout
from prudent.experiments.oracle import measure
from prudent.report.folders import collect
from prudent.report.records import Record, shortened
from prudent.settings.checks import Count, option


@dataclass(frozen=True, kw_only=True)
class ExperimentOptions(GridOptions):
    name: Annotated[str, tyro.conf.Positional, one_of(EXPERIMENTS, "NAME")]
    """Which figure of the paper."""
    records: tuple[Path, ...] = ()
    """Only draw, from the runs below these folders, whatever their settings; run nothing."""
    until: Count | None = None
    """With --records: only what runs did in their first so many steps, if some went further."""


def experiment(options: ExperimentOptions) -> None:
    if options.name not in FIGURES:  # it needs no runs
        from prudent.experiments.figures.theory import draw

        for path in draw(options.out / options.name):
            print(path)
        return
    grid, layout = FIGURES[options.name]
    if options.records:
        draw_figure(options.name, layout, chosen_records(options), options.out)
        return
    if options.until is not None:
        raise ValueError("--until is for --records; --scale makes runs shorter")
    wanted = chosen(grid, options)
    finished, complete = run_grid(options.name, wanted, options.out, options.running)
    if finished:
        if layout.needs_oracle:
            complete &= measure(finished, options.running.jobs or len(usable_cores()))
        figures = options.out / "figures"
        draw_figure(options.name, layout, collect(finished), figures)
        write_page(options.name, finished, figures / options.name)
    if not complete:
        sys.exit(1)


def chosen_records(options: ExperimentOptions) -> list[Record]:
    """Runs that are there: those of the tasks, algorithms and seeds that were named."""
    running = vars(options.running).items() - vars(Running()).items()
    if running:
        raise ValueError(f"{option(min(running)[0])} is for running; --records only draws")
    wanted = {"task": options.tasks, "algorithm": options.algorithms, "seed": options.seeds}
    records = [
        record if options.until is None else shortened(record, options.until)
        for record in collect(options.records)
        if all(not values or record.run[name] in values for name, values in wanted.items())
    ]
    if not records:
        raise ValueError(f"there is no run that {options.name} shows")
    return records


def draw_figure(name: str, layout: Layout, records: Sequence[Record], out: Path) -> None:
    from prudent.experiments.drawing import draw

    for path in draw(records, layout, out, name):
        print(path)


def write_page(name: str, folders: Sequence[Path], out: Path) -> None:
    from prudent.report.writing import PAGE, read_all, write_report

    write_report(read_all(folders), out, False, f"Experiment: {name}")
    print(out / PAGE)
