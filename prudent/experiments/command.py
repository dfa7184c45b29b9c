"""`prudent experiment` and `prudent sweep`."""

import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import util
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from typing import get_type_hints as type_hints

import tyro
from rich.console import Console

from prudent.algorithms import find_algorithm
from prudent.api import in_a_name
from prudent.backend import usable_cores
from prudent.cli.options import parse, read
from prudent.experiments.board import board, counted
from prudent.experiments.engines import Ended, Job, Show, run_locally
from prudent.experiments.existing import existing_runs, folder_for
from prudent.experiments.figures import EXPERIMENTS, FIGURES
from prudent.experiments.grid import Grid, Planned, Problem, Variant, expand, nameless, over, select
from prudent.experiments.layout import Layout
from prudent.experiments.on_ray import run_on_ray
from prudent.experiments.oracle import measure
from prudent.experiments.speed import (
    STEPS_PER_SECOND,
    UPDATES_PER_SECOND,
    hours_left,
    measured_speeds,
    speed_of,
)
from prudent.report.folders import collect
from prudent.report.records import Record, shortened
from prudent.settings.checks import Count, CountOrZero, PositiveShare, checked, conform, option


@dataclass(frozen=True)
class GridOptions:
    """What every grid can be told."""

    preset: str | None = None
    """`paper` (the default) or `head`: where an algorithm has no `head` it takes `matched`, then
    `paper`; on a task outside the paper `default`."""
    scale: PositiveShare = 1.0
    """Take this share of the steps, rounded to whole evaluation intervals, one at least. Warm-up
    and the intervals of evaluations, checkpoints and snapshots stay as they are."""
    tasks: tuple[str, ...] = ()
    """These tasks instead of the grid's own."""
    algorithms: tuple[str, ...] = ()
    """Only these of the grid's algorithms."""
    seeds: tuple[CountOrZero, ...] = ()
    """These seeds instead of the grid's own."""
    jobs: Count | None = None
    """Runs at once, each with one thread (default: one per usable core; on Ray as many as fit)."""
    engine: Literal["local", "ray"] = "local"
    """`local`: processes on this machine; `ray`: tasks of a cluster whose nodes share --out."""
    address: str | None = None
    """With --engine ray: HOST:PORT of the cluster's head, or `auto` (default: one of its own)."""
    out: Path = Path("runs")
    """New runs go here; those that stand anywhere below are not run again."""
    dry_run: bool = False
    """Only say which runs there are, which of them are done, and how long the others may take."""


@dataclass(frozen=True, kw_only=True)
class ExperimentOptions(GridOptions):
    name: Annotated[Literal[EXPERIMENTS], tyro.conf.Positional]  # type: ignore[valid-type]
    """Which figure of the paper."""
    records: tuple[Path, ...] = ()
    """Only draw, from the runs below these folders, whatever their settings; run nothing."""
    until: Count | None = None
    """With --records: only what runs did in their first so many steps, if some went further."""


@dataclass(frozen=True)
class SweepOptions(GridOptions):
    """Any setting is an option too: with several values it is an axis of the grid, with one it is
    set. Items of a list are joined by commas (--hidden 64,64 256,256).
    """

    file: Path | None = None
    """A Python file with a grid of your own: GRID = Grid(...)."""
    env: tuple[str, ...] = ()
    """Environments of your own, beside or instead of --tasks: Gymnasium ids or module:callable."""
    budget: float | None = None
    """Cost allowed per episode (default: the task's)."""
    negative_costs: bool = False
    """Costs can be negative, and so may the budget."""
    cost_range: tuple[float, float] | None = None
    """Least and largest cost of a step, which may be inf (default: the task's, if it knows)."""
    cost: str | None = None
    """With --env: the entry of `info` that is the cost (default: cost)."""
    horizon: int | None = None
    """Steps after which an episode is cut (default: the task's)."""
    discounted: bool | None = None
    """Whether an episode's cost is its discounted sum (default: the task's; else a plain sum)."""


# What only a grid that is run can be told.
RUNNING = ("preset", "scale", "jobs", "engine", "address", "dry_run")
LIMITS = ("budget", "horizon", "discounted", "cost", "negative_costs", "cost_range")


def experiment(arguments: list[str]) -> None:
    if not arguments:
        raise ValueError(f"which experiment? There is: {', '.join(EXPERIMENTS)}")
    options = read(ExperimentOptions, "prudent experiment", arguments)
    if options.name not in FIGURES:  # it needs no runs
        from prudent.experiments.figures.theory import draw

        for path in draw(options.out / options.name):
            print(path)
        return
    grid, layout = FIGURES[options.name]
    if options.records:
        draw_records(options, layout)
        return
    if options.until is not None:
        raise ValueError("--until is for --records; --scale makes runs shorter")
    outcome = run_grid(options.name, chosen(grid, options), options)
    complete = outcome.complete
    if outcome.finished:
        if layout.needs_oracle:
            complete &= measure(outcome.finished, options.jobs or len(usable_cores()))
        draw_figure(options.name, layout, collect(outcome.finished), options.out / "figures")
        write_page(options.name, outcome.finished, options.out / "figures" / options.name)
    if not complete:
        sys.exit(1)


def draw_records(options: ExperimentOptions, layout: Layout) -> None:
    """From runs that are there: those of the tasks, algorithms and seeds that were named."""
    usual = {field.name: field.default for field in fields(GridOptions)}
    running = [name for name in RUNNING if getattr(options, name) != usual[name]]
    if running:
        raise ValueError(f"{option(running[0])} is for running; --records only draws")
    chosen = {"task": options.tasks, "algorithm": options.algorithms, "seed": options.seeds}
    records = [
        record if options.until is None else shortened(record, options.until)
        for record in collect(options.records)
        if all(not values or record.run[name] in values for name, values in chosen.items())
    ]
    if not records:
        raise ValueError(f"there is no run that {options.name} shows")
    draw_figure(options.name, layout, records, options.out)


def draw_figure(name: str, layout: Layout, records: Sequence[Record], out: Path) -> None:
    from prudent.experiments.drawing import draw

    for path in draw(records, layout, out, name):
        print(path)


def write_page(name: str, folders: Sequence[Path], out: Path) -> None:
    from prudent.report.command import PAGE, read_all, write_report

    write_report(read_all(folders), out, False, f"Experiment: {name}")
    print(out / PAGE)


def sweep(arguments: list[str]) -> None:
    parsed = parse(SweepOptions, prog="prudent sweep", args=arguments, return_unknown_args=True)
    options, given = checked(parsed[0]), settings_given(parsed[1])
    limits = {name: getattr(options, name) for name in LIMITS}
    if options.file is not None:
        ours = [
            name for name in ("env", *LIMITS) if getattr(options, name) not in (None, False, ())
        ]
        if given or ours:
            named = ", ".join(map(option, (*ours, *given)))
            raise ValueError(f"{named}: settings stand in {options.file}")
        grid = chosen(grid_in(options.file), options)
        if not run_grid(options.file.stem, grid, options).complete:
            sys.exit(1)
        return
    problems = [Problem(name, **limits) for name in (*options.tasks, *options.env)]
    if not problems or not options.algorithms:
        raise ValueError(
            "a sweep needs --tasks and --algorithms (or --env and --algorithms), or a --file with "
            "a grid"
        )
    variants = with_axes(options.algorithms, given)
    grid = Grid(problems, variants, options.seeds or (0,), preset=options.preset or "paper")
    if not run_grid("sweep", grid, options).complete:
        sys.exit(1)


def chosen(grid: Grid, options: GridOptions) -> Grid:
    return select(
        grid,
        tasks=options.tasks,
        algorithms=options.algorithms,
        seeds=options.seeds,
        preset=options.preset,
    )


def grid_in(path: Path) -> Grid:
    """The user's own file, which the user named: it is run."""
    spec = util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"{path} is no Python file")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    grid = getattr(module, "GRID", None)
    if not isinstance(grid, Grid):
        raise ValueError(f"{path} has no GRID = Grid(...) (from prudent.experiments.grid)")
    return grid


def settings_given(words: Sequence[str]) -> dict[str, list[str]]:
    """The words that are no option of a sweep's own: settings and their values."""
    found: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            values = found.setdefault(name.replace("-", "_"), [])
            values += [value] if value else []
        elif not found:
            raise ValueError(f"{word!r} belongs to no option")
        else:
            found[next(reversed(found))].append(word)
    for name, values in found.items():
        if not values:
            raise ValueError(f"{option(name)} has no value")
    return found


def with_axes(algorithms: Sequence[str], given: Mapping[str, list[str]]) -> tuple[Variant, ...]:
    """Each algorithm with every combination of the values. An axis that an algorithm lacks is left
    out for it, so that it stands beside the others once; a value that is set must be everyone's.
    """
    hints = {name: hints_of(name) for name in algorithms}
    for setting, words in given.items():
        lacking = [name for name in algorithms if setting not in hints[name]]
        if lacking and (len(words) == 1 or len(lacking) == len(algorithms)):
            raise ValueError(f"{', '.join(lacking)} has no setting {setting!r} ({option(setting)})")
        for name in lacking:
            print(f"{name} has no setting {setting!r}: it is run once, without")
    return tuple(
        variant
        for name, known in hints.items()
        for variant in over(
            name,
            **{
                setting: [value_of(setting, word, known[setting]) for word in words]
                for setting, words in given.items()
                if setting in known
            },
        )
    )


def hints_of(algorithm: str) -> dict[str, Any]:
    entry = find_algorithm(algorithm)
    return {
        **type_hints(entry.config, include_extras=True),
        **type_hints(entry.schedule, include_extras=True),
    }


CONSTANTS = {"None": None, "True": True, "true": True, "False": False, "false": False}


def value_of(name: str, word: str, hint: Any) -> Any:
    """What the word says, of the kinds that the setting can be."""
    for value in (plain(word), tuple(map(plain, word.split(","))), word):
        try:
            return conform(name, value, hint)
        except ValueError:
            continue
    return conform(name, plain(word), hint)


def plain(word: str) -> Any:
    if word in CONSTANTS:
        return CONSTANTS[word]
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


class Plan(NamedTuple):
    planned: Planned
    job: Job
    state: str
    hours: float
    measured: bool


def planned_jobs(grid: Grid, options: GridOptions) -> list[Plan]:
    found = existing_runs(options.out, lambda text: print(f"prudent: {text}", file=sys.stderr))
    speeds = measured_speeds(found.values()) if options.dry_run else {}
    plans = []
    for planned in expand(grid, options.scale):
        run = planned.run
        there, speed = found.get(nameless(run)), speed_of(run, speeds)
        job = Job(
            run,
            folder_for(run, options.out, found),
            planned.variant,
            f"{in_a_name(run.task)}-{run.algorithm}-{run.identity()}-seed-{run.seed}",
        )
        state, step = (there.state, there.step) if there else ("missing", 0)
        hours = 0.0 if state == "finished" else hours_left(run, step, speed)
        plans.append(Plan(planned, job, state, hours, speed.measured))
    return plans


class Outcome(NamedTuple):
    finished: list[Path]
    complete: bool  # nothing failed


def run_grid(name: str, grid: Grid, options: GridOptions) -> Outcome:
    """Run what is missing, and say which of the grid's runs are finished then."""
    if options.address is not None and options.engine != "ray":
        raise ValueError("--address names a Ray cluster; it needs --engine ray")
    plans = planned_jobs(grid, options)
    at_once = options.jobs or len(usable_cores())
    counts = Counter(plan.state for plan in plans)
    states = ", ".join(f"{counts[s]} {s}" for s in ("finished", "begun", "missing") if counts[s])
    print(f"{name}: {len(plans)} runs, {states}")
    if options.dry_run:
        show_plan(plans, at_once)
        return Outcome([], True)
    jobs = [plan.job for plan in plans if plan.state != "finished"]
    if not jobs:
        print(f"nothing is left to run; the runs are below {options.out}")
        return Outcome([plan.job.folder for plan in plans], True)
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    with board(console) as show:
        ended = run_jobs(jobs, options, options.out / "grids" / name, show)
    complete = conclude(ended, options.out)
    unfinished = {s.job.folder for s in ended.standings if s.stage != "finished"}
    folders = [plan.job.folder for plan in plans if plan.job.folder not in unfinished]
    return Outcome(folders, complete)


def run_jobs(jobs: Sequence[Job], options: GridOptions, notes: Path, show: Show) -> Ended:
    if options.engine == "ray":
        return run_on_ray(jobs, options.jobs, notes, show, options.address)
    return run_locally(jobs, options.jobs or len(usable_cores()), notes, show)


def conclude(ended: Ended, out: Path) -> bool:
    """Say how the runs ended; whether all is well."""
    standings = ended.standings
    print(counted(standings))
    for standing in standings:
        job = standing.job
        if standing.stage == "failed":
            what = f"{job.name} on {job.run.task}, seed {job.run.seed}"
            print(f"prudent: {what} failed: {standing.error}", file=sys.stderr)
        elif standing.stage == "elsewhere":
            print(f"another process is writing {job.folder}; it was left to it")
    again = shlex.join(["prudent", *sys.argv[1:]])
    if ended.interrupted:
        print(f"\nStopped; what was begun is saved. Go on with: {again}", file=sys.stderr)
        sys.exit(130)
    if any(standing.stage in ("failed", "stopped") for standing in standings):
        print(f"prudent: what failed is tried again by: {again}", file=sys.stderr)
        return False
    print(f"the runs are below {out}")
    return True


def show_plan(plans: Sequence[Plan], at_once: int) -> None:
    rows = [("task", "run", "preset", "seed", "steps", "state", "hours")]
    for plan in plans:
        run = plan.job.run
        hours = "" if plan.state == "finished" else f"{plan.hours:.2f}"
        hours += "" if plan.measured or not hours else " ?"
        steps = str(run.schedule.steps)
        rows.append((run.task, plan.job.name, run.preset, str(run.seed), steps, plan.state, hours))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip())
    total = sum(plan.hours for plan in plans)
    print(f"\nabout {total:.1f} hours of one core, {total / at_once:.1f} with {at_once} at once")
    if any(not plan.measured and plan.state != "finished" for plan in plans):
        print(
            f"?: no run of that algorithm and task is there to be measured by; taken are "
            f"{UPDATES_PER_SECOND:g} updates (on-policy: {STEPS_PER_SECOND:g} steps) per second, "
            "which may be wrong several times over"
        )
