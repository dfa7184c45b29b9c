"""What `prudent experiment` and `prudent sweep` share: the options of a grid, and its runs."""

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from rich.console import Console

from prudent.backend import usable_cores
from prudent.cli.options import AlgorithmName, TaskName, note
from prudent.experiments.board import board, counted
from prudent.experiments.engines import Ended, Job, Show, run_locally
from prudent.experiments.grid import Grid, select
from prudent.experiments.on_ray import run_on_ray
from prudent.experiments.plan import Plan, planned_jobs
from prudent.experiments.speed import STEPS_PER_SECOND, UPDATES_PER_SECOND
from prudent.settings.checks import Count, CountOrZero, PositiveShare


@dataclass(frozen=True)
class Running:
    """How the runs of a grid are run."""

    preset: str | None = None
    """`paper` (the default) or `head`: where an algorithm has no `head` it takes `matched`, then
    `paper`; on a task outside the paper `default`."""
    scale: PositiveShare = 1.0
    """Take this share of the steps, rounded to whole evaluation intervals, one at least. Warm-up
    and the intervals of evaluations, checkpoints and snapshots stay as they are."""
    jobs: Count | None = None
    """Runs at once, each with one thread (default: one per usable core; on Ray as many as fit)."""
    engine: Literal["local", "ray"] = "local"
    """`local`: processes on this machine; `ray`: tasks of a cluster whose nodes share --out."""
    address: str | None = None
    """With --engine ray: HOST:PORT of the cluster's head, or `auto` (default: one of its own)."""
    dry_run: bool = False
    """Only say which runs there are, which of them are done, and how long the others may take."""


@dataclass(frozen=True)
class GridOptions:
    """What every grid can be told."""

    tasks: tuple[TaskName, ...] = ()
    """These tasks instead of the grid's own."""
    algorithms: tuple[AlgorithmName, ...] = ()
    """Only these of the grid's algorithms."""
    seeds: tuple[CountOrZero, ...] = ()
    """These seeds instead of the grid's own."""
    out: Path = Path("runs")
    """New runs go here; those that stand anywhere below are not run again."""
    running: Running = field(default_factory=Running)


def chosen(grid: Grid, options: GridOptions) -> Grid:
    return select(
        grid,
        tasks=options.tasks,
        algorithms=options.algorithms,
        seeds=options.seeds,
        preset=options.running.preset,
    )


class Outcome(NamedTuple):
    finished: list[Path]
    complete: bool  # nothing failed


def run_grid(name: str, grid: Grid, out: Path, running: Running) -> Outcome:
    """Run what is missing, and say which of the grid's runs are finished then."""
    if running.address is not None and running.engine != "ray":
        raise ValueError("--address names a Ray cluster; it needs --engine ray")
    plans = planned_jobs(grid, out, running.scale, note, measure=running.dry_run)
    at_once = running.jobs or len(usable_cores())
    counts = Counter(plan.state for plan in plans)
    states = ", ".join(f"{counts[s]} {s}" for s in ("finished", "begun", "missing") if counts[s])
    print(f"{name}: {len(plans)} runs, {states}")
    if running.dry_run:
        show_plan(plans, at_once)
        return Outcome([], True)
    jobs = [plan.job for plan in plans if plan.state != "finished"]
    if not jobs:
        print(f"nothing is left to run; the runs are below {out}")
        return Outcome([plan.job.folder for plan in plans], True)
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    with board(console) as show:
        ended = run_jobs(jobs, running, out / "grids" / name, show)
    complete = conclude(ended, out)
    unfinished = {s.job.folder for s in ended.standings if s.stage != "finished"}
    folders = [plan.job.folder for plan in plans if plan.job.folder not in unfinished]
    return Outcome(folders, complete)


def run_jobs(jobs: Sequence[Job], running: Running, notes: Path, show: Show) -> Ended:
    if running.engine == "ray":
        return run_on_ray(jobs, running.jobs, notes, show, running.address)
    return run_locally(jobs, running.jobs or len(usable_cores()), notes, show)


def conclude(ended: Ended, out: Path) -> bool:
    """Say how the runs ended; whether all is well."""
    standings = ended.standings
    print(counted(standings))
    for standing in standings:
        job = standing.job
        if standing.stage == "failed":
            what = f"{job.name} on {job.run.task}, seed {job.run.seed}"
            note(f"{what} failed: {standing.error}")
        elif standing.stage == "elsewhere":
            print(f"another process is writing {job.folder}; it was left to it")
    again = shlex.join(["prudent", *sys.argv[1:]])
    if ended.interrupted:
        print(f"\nStopped; what was begun is saved. Go on with: {again}", file=sys.stderr)
        sys.exit(130)
    if any(standing.stage in ("failed", "stopped") for standing in standings):
        note(f"what failed is tried again by: {again}")
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
