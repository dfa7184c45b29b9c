"""`prudent bidding ...`: its commands, each imported when it is asked for."""

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prudent.backend import usable_cores
from prudent.cli.options import read
from prudent.files import to_json
from prudent.settings.checks import Count, CountOrZero
from prudent_bidding.assignment import Assignment
from prudent_bidding.engines import EngineName, make_engine
from prudent_bidding.schema import DAYS
from prudent_bidding.simulate import Finished, make_order, simulate_week
from prudent_bidding.world import World, preset, world_hash

USAGE = """\
usage: prudent bidding COMMAND ...

  simulate     weeks of an advertising market, written as Parquet files
  calibrate    what rule policies do in a world, against the targets it was set to
  run          the semi-batch protocol: incumbent log, weekly updates, deployments, tables
  report       tables and page of runs, made anew
  compare      runs of one plan in several worlds: tables with intervals, and a figure
  import       somebody's own log, or AuctionNet's, as a data set
  inspect      what a log can tell about its action, and what it would feign
  fit          learn once from logged weeks, your own or simulated, and export the policy
  bench        how fast this machine simulates, against what it could
"""


@dataclass(frozen=True)
class SimulateOptions:
    out: Path
    """The data set's folder; what is there already is kept."""
    preset: str = "small"
    """The world: smoke, small, paper-data, paper, stationary or hard."""
    seed: CountOrZero = 0
    """Of the world."""
    week: CountOrZero = 0
    """The first week."""
    weeks: Count = 1
    """How many, each with the same policies."""
    policy: tuple[str, ...] = ("incumbent",)
    """incumbent, constant:K, feedback:AIM, dual:RATE, informed:AIM, or a file by `prudent export`
    (FILE@greedy for its mode). Several are the arms of an experiment."""
    assignment: Assignment = "switchback"
    """How arms share advertisers. `isolated`: a data set each, in OUT/arm-0, OUT/arm-1, ..."""
    oracle_rows: bool = True
    """Also write expected GMV and prices by row, for diagnostics (daily totals always)."""
    engine: EngineName = "local"
    processes: Count | None = None
    """Of the local engine (default: one per core)."""
    json: bool = False
    quiet: bool = False


def simulate(arguments: list[str]) -> None:
    options = read(SimulateOptions, "prudent bidding simulate", arguments)
    world = preset(options.preset)
    arms = [options.policy]
    folders = [options.out]
    if options.assignment == "isolated":
        arms = [(policy,) for policy in options.policy]
        folders = [options.out / f"arm-{arm}" for arm in range(len(arms))]
    summaries = []
    for folder, policies in zip(folders, arms, strict=True):
        for week in range(options.week, options.week + options.weeks):
            summaries.append(simulate_one(options, world, folder, policies, week))
    if options.json:
        print(to_json(summaries, indent=2))


def simulate_one(
    options: SimulateOptions, world: World, folder: Path, policies: tuple[str, ...], week: int
) -> dict[str, Any]:
    order = make_order(
        folder, world, options.seed, week, policies, options.assignment, options.oracle_rows
    )
    engine = make_engine(options.engine, options.processes or len(usable_cores()))
    began = time.perf_counter()
    silent = options.quiet or options.json
    with Bar(f"week {week}", world.blocks * DAYS, silent) as bar:
        manifest = simulate_week(order, engine, bar.tell)
    seconds = time.perf_counter() - began
    summary = {
        "folder": str(folder),
        "week": week,
        "world_sha256": world_hash(world),
        "rows": manifest["rows"],
        "row_bytes": manifest["row_bytes"],
        "bytes_per_row": manifest["row_bytes"] / manifest["rows"],
        "seconds": seconds,
        "simulated_rows": bar.rows,
    }
    if not silent:
        print(
            f"{folder}: week {week}, {manifest['rows']:,} rows of {summary['bytes_per_row']:.1f} "
            f"bytes, {bar.rows:,} of them simulated now, {seconds:.0f} s"
        )
    return summary


class Bar:
    """Rows so far, rows per second and the time left, on a terminal."""

    def __init__(self, title: str, tasks: int, silent: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self.rows = 0
        console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} {task.fields[words]}"),
            TimeRemainingColumn(),
            console=console,
            disable=silent or not console.is_terminal,
        )
        self.task = self.progress.add_task(title, total=tasks, words="")

    def __enter__(self) -> "Bar":
        self.progress.start()
        self.began = time.perf_counter()
        return self

    def tell(self, finished: Finished) -> None:
        self.rows += 0 if finished.skipped else finished.rows.rows
        rate = self.rows / (time.perf_counter() - self.began)
        words = f"{self.rows / 1e6:.1f} M rows, {rate / 1e6:.2f} M rows/s"
        self.progress.update(self.task, advance=1, words=words)

    def __exit__(self, *_: object) -> None:
        self.progress.stop()


def calibrate(arguments: list[str]) -> None:
    from prudent_bidding.calibration import main as run_calibration

    run_calibration(arguments)


def inspect(arguments: list[str]) -> None:
    from prudent_bidding.inspection import main as run_inspection

    run_inspection(arguments)


def fit(arguments: list[str]) -> None:
    from prudent_bidding.fit_command import fit as run_fit

    run_fit(arguments)


def bench(arguments: list[str]) -> None:
    from prudent_bidding.bench import main as run_bench

    run_bench(arguments)


def run(arguments: list[str]) -> None:
    from prudent_bidding.run_command import run as run_protocol

    run_protocol(arguments)


def report(arguments: list[str]) -> None:
    from prudent_bidding.report_command import report as report_runs

    report_runs(arguments)


def compare(arguments: list[str]) -> None:
    from prudent_bidding.comparison import main as run_comparison

    run_comparison(arguments)


def import_log(arguments: list[str]) -> None:
    from prudent_bidding.run_command import import_log as run_import

    run_import(arguments)


def end_with(parent: int) -> None:
    """Nobody would read what comes: the protocol was killed, and its successor begins anew."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def learn(arguments: list[str]) -> None:
    """For `run`: one algorithm's update of one week, in a process of its own."""
    from prudent import backend

    if len(arguments) < 4:
        raise ValueError("`prudent bidding learn` is for `prudent bidding run`; give that instead")
    threading.Thread(target=end_with, args=(int(arguments[3]),), daemon=True).start()
    backend.prepare()
    from prudent_bidding.arms import main as learn_one

    learn_one(arguments)


COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "simulate": simulate,
    "calibrate": calibrate,
    "run": run,
    "report": report,
    "compare": compare,
    "import": import_log,
    "inspect": inspect,
    "fit": fit,
    "bench": bench,
}
INTERNAL = {"learn": learn}  # which `run` gives


def main(arguments: list[str]) -> None:
    """An advertising market: simulate it, learn from its logs."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, end="")
        return
    command = {**COMMANDS, **INTERNAL}.get(arguments[0])
    if command is None:
        raise ValueError(
            f"no command `prudent bidding {arguments[0]}`; there is: {', '.join(COMMANDS)}"
        )
    try:
        command(arguments[1:])
    except KeyboardInterrupt:
        sys.exit("\nStopped; what was finished is kept. The same command goes on with the rest.")
