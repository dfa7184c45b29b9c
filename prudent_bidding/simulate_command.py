"""`prudent bidding simulate`."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prudent.backend import usable_cores
from prudent.cli.options import read
from prudent.files import to_json
from prudent.settings.checks import Count, CountOrZero
from prudent_bidding.assignment import Assignment
from prudent_bidding.engines import EngineName, make_engine
from prudent_bidding.progress_bar import bar
from prudent_bidding.schema import DAYS
from prudent_bidding.simulate import make_order, simulate_week
from prudent_bidding.tasks import Finished
from prudent_bidding.world import preset, world_hash


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


def main(arguments: list[str]) -> None:
    options = read(SimulateOptions, "prudent bidding simulate", arguments)
    data_sets = {options.out: options.policy}
    if options.assignment == "isolated":
        data_sets = {options.out / f"arm-{i}": (name,) for i, name in enumerate(options.policy)}
    summaries = [
        simulate(options, folder, policies, week)
        for folder, policies in data_sets.items()
        for week in range(options.week, options.week + options.weeks)
    ]
    if options.json:
        print(to_json(summaries, indent=2))


def simulate(
    options: SimulateOptions, folder: Path, policies: tuple[str, ...], week: int
) -> dict[str, Any]:
    world = preset(options.preset)
    order = make_order(
        folder, world, options.seed, week, policies, options.assignment, options.oracle_rows
    )
    engine = make_engine(options.engine, options.processes or len(usable_cores()))
    silent = options.quiet or options.json
    began, finished = time.perf_counter(), list[Finished]()

    def simulated() -> int:
        return sum(result.rows.rows for result in finished if not result.skipped)

    with bar(f"week {week}", world.blocks * DAYS, silent) as show:

        def tell(result: Finished) -> None:
            finished.append(result)
            rate = simulated() / (time.perf_counter() - began)
            show(len(finished), f"{simulated() / 1e6:.1f} M rows, {rate / 1e6:.2f} M rows/s")

        manifest = simulate_week(order, engine, tell)
    summary = {
        "folder": str(folder),
        "week": week,
        "world_sha256": world_hash(world),
        "rows": manifest["rows"],
        "row_bytes": manifest["row_bytes"],
        "bytes_per_row": manifest["row_bytes"] / manifest["rows"],
        "seconds": time.perf_counter() - began,
        "simulated_rows": simulated(),
    }
    if not silent:
        print(
            f"{folder}: week {week}, {manifest['rows']:,} rows of {summary['bytes_per_row']:.1f} "
            f"bytes, {simulated():,} of them simulated now, {summary['seconds']:.0f} s"
        )
    return summary
