"""The records that the grids beside this file still lack: `make evidence`.

Each missing run is made (or gone on with) below `runs/`, held against the oracle and packed into
`results/GRID/`; first seeds of all grids come before second ones. Whatever stops it, the same
command goes on: a run that was begun from its checkpoint, one that is done with its records.
"""

import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import tyro
from rich.console import Console

from prudent.backend import usable_cores
from prudent.experiments.board import board
from prudent.experiments.engines import Job, Standing, run_locally
from prudent.experiments.existing import existing_runs, folder_for
from prudent.experiments.grid import expand, grid_in, nameless
from prudent.experiments.oracle import measure
from prudent.report.pack import pack
from prudent.settings.checks import Count, CountOrZero, checked
from prudent.settings.schedules import OffPolicySchedule

RESULTS = Path(__file__).parent
GRIDS = ("second_tasks", "gap", "ablations", "update_ratio", "off_policy", "on_policy",
         "on_policy_long", "every_task")  # fmt: skip


@dataclass(frozen=True)
class Options:
    grids: tuple[str, ...] = GRIDS
    """Files in results/grids, the first ones first."""
    tasks: tuple[str, ...] = ()
    """Only these."""
    seeds: tuple[CountOrZero, ...] = ()
    """Only these."""
    jobs: Count | None = None
    """Runs at once, each with one thread (default: one per usable core)."""
    runs: Path = Path("runs")
    """Where runs are made, with their checkpoints."""
    dry_run: bool = False
    """Only say what is missing."""


class Missing(NamedTuple):
    job: Job
    records: Path  # where they will be


def missing(grids: Sequence[Path], results: Path, runs: Path) -> list[Missing]:
    """What has no record, by seed. A run that several grids have is made for the first of them."""
    kept, begun = existing_runs(results, complain), existing_runs(runs, complain)
    by_run: dict[object, Missing] = {}
    for path in grids:
        for run, variant in expand(grid_in(path)):
            there = kept.get(nameless(run))
            if there is not None and there.state == "finished":
                continue
            name = f"{run.task}-{variant}-seed-{run.seed}".replace(" ", "-").replace("=", "-")
            job = Job(run, folder_for(run, runs, begun), variant, name)
            by_run.setdefault(nameless(run), Missing(job, results / path.stem / name))
    return sorted(by_run.values(), key=lambda each: each.job.run.seed)


def complain(text: str) -> None:
    print(f"prudent: {text}", file=sys.stderr)


def keep(job: Job, records: Path) -> None:
    """Measured first: what the oracle said is a part of the records."""
    if isinstance(job.run.schedule, OffPolicySchedule) and not measure([job.folder], at_once=1):
        raise ValueError(f"{job.folder} could not be measured")
    pack(job.folder, records)
    print(records, flush=True)


def gather(wanted: Sequence[Missing], at_once: int, notes: Path) -> bool:
    """Whether all of it is kept now."""
    records = {each.job.folder: each.records for each in wanted}
    kept: dict[Path, Future[None]] = {}
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    with ThreadPoolExecutor(1) as keeper, board(console) as show:

        def keep_finished(standings: Sequence[Standing]) -> None:
            show(standings)
            for standing in standings:
                folder = standing.job.folder
                if standing.stage == "finished" and folder not in kept:
                    kept[folder] = keeper.submit(keep, standing.job, records[folder])

        ended = run_locally([each.job for each in wanted], at_once, notes, keep_finished)
    faults = [
        *(standing.error for standing in ended.standings if standing.error is not None),
        *(str(done.exception()) for done in kept.values() if done.exception() is not None),
    ]
    for fault in faults:
        complain(fault)
    return not faults and len(kept) == len(wanted)


def main() -> None:
    options = checked(tyro.cli(Options, prog="python results/gather.py", description=__doc__))
    grids = [RESULTS / "grids" / f"{name}.py" for name in options.grids]
    if strange := set(options.tasks).difference(*(grid_in(path).tasks for path in grids)):
        raise ValueError(f"no task of these grids: {', '.join(sorted(strange))}")
    wanted = [
        each
        for each in missing(grids, RESULTS, options.runs)
        if (not options.tasks or each.job.run.task in options.tasks)
        and (not options.seeds or each.job.run.seed in options.seeds)
    ]
    print(f"{len(wanted)} runs have no records yet")
    if options.dry_run:
        for each in wanted:
            print(f"  {each.records.relative_to(RESULTS)}")
        return
    at_once = options.jobs or len(usable_cores())
    if wanted and not gather(wanted, at_once, options.runs / "grids" / "evidence"):
        sys.exit("prudent: not all is kept; the same command goes on")


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"prudent: {error}")
