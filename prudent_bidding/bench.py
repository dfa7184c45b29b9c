"""How fast this machine simulates, each number beside a limit measured in the same run.

The limits are what cannot be saved: drawing the random numbers of a row, the actor's matrix
products, writing the bytes. Seconds are of the processor, which a busy neighbour moves less; with
`--full` whole weeks are simulated as `prudent bidding simulate` does it, and the clock counts.
"""

import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from prudent.backend import usable_cores
from prudent.cli.options import read
from prudent.files import to_json, write_atomically, writing
from prudent.policies.exported import write_exported
from prudent.settings.checks import Count
from prudent.tasks.adapter import AdaptedEnv, describe_spaces
from prudent_bidding.engines import make_engine
from prudent_bidding.environment import OCPMEnv, OCPMVectorEnv
from prudent_bidding.policies import ROWS_AT_ONCE
from prudent_bidding.population import MEANS, make_week
from prudent_bidding.sampling import measure_sampling
from prudent_bidding.schema import OBSERVATION_SIZE, USER_SIZE
from prudent_bidding.simulate import make_order, simulate_week
from prudent_bidding.tasks import Task, run_task
from prudent_bidding.world import CONTEXT, PAPER, World, preset, stream

WEEK_ROWS = 51_200_000
FOUR_WEEKS = 4 * WEEK_ROWS
SAMPLED_ADVERTISERS = PAPER.advertisers  # of the week from which minibatches are drawn
HIDDEN = 256
ENVIRONMENTS = 4096
# What issue and specification ask of two cores.
GOALS = {
    "rule_week_seconds": 130.0,
    "actor_week_seconds": 210.0,
    "bytes_per_row": 22.0,
    "four_weeks_seconds": 900.0,
    "four_weeks_bytes": 5e9,
    "four_weeks_cache_bytes": 9e9,
    "worker_bytes": 1e9,
    "environment_steps_per_second": 200_000.0,
}


@dataclass(frozen=True)
class BenchOptions:
    preset: str = "paper-data"
    """The world, of which a first day of the first block is simulated."""
    full: bool = False
    """Also simulate whole weeks, with the rule and with the actor. Minutes, and gigabytes."""
    weeks: Count = 1
    """With --full: how many of the rule's."""
    processes: Count | None = None
    folder: Path | None = None
    """Where to write meanwhile (default: a temporary folder). All of it is removed."""
    json: bool = False


def main(arguments: list[str]) -> None:
    options = read(BenchOptions, "prudent bidding bench", arguments)
    world, processes = preset(options.preset), options.processes or len(usable_cores())
    with threadpool_limits(1), scratch(options.folder) as folder:
        actor = write_actor(folder / "actor.safetensors")
        parts = {"rule": "incumbent", "actor": str(actor)}
        tasks = {name: measure_task(world, folder / name, policy) for name, policy in parts.items()}
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        limits = measure_limits(world, tasks["rule"], folder)
        results = summary(tasks, limits, memory, processes)
        results["environment"] = measure_environments(limits)
        if options.full:
            weeks = {"rule": options.weeks, "actor": 1}
            results["full"] = [
                beside_limit(
                    measure_weeks(world, folder / f"full-{name}", policy, processes, weeks[name]),
                    least_seconds(limits, name) / processes,
                )
                for name, policy in parts.items()
            ]
        # Last: a worker's greatest memory counts what this process holds when it starts one.
        results["sampling"] = measure_sampling(folder, SAMPLED_ADVERTISERS)
        per_row = results["sampling"]["cache_bytes_per_row"]
        results["four_weeks_cache_bytes"] = FOUR_WEEKS * per_row
    if options.json:
        print(to_json(results, indent=2))
    else:
        show(results)


@contextmanager
def scratch(folder: Path | None) -> Iterator[Path]:
    with writing(folder or Path(tempfile.gettempdir())):
        path = Path(tempfile.mkdtemp(prefix="bidding-bench-", dir=folder))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def write_actor(path: Path) -> Path:
    """A policy of the usual size, untrained."""
    generator = np.random.default_rng(0)
    arrays = {"action/scale": np.full(1, 0.5, np.float32), "action/centre": np.ones(1, np.float32)}
    sizes = (OBSERVATION_SIZE, HIDDEN, HIDDEN, 2)
    for layer in range(3):
        shape = sizes[layer], sizes[layer + 1]
        weight = generator.normal(0.0, shape[0] ** -0.5, shape)
        arrays[f"layers/{layer}/weight"] = weight.astype(np.float32)
        arrays[f"layers/{layer}/bias"] = np.zeros(shape[1], np.float32)
    about = {"activation": "relu", "head": "tanh", "algorithm": "cal"}
    write_exported(
        path, arrays, about, describe_spaces(AdaptedEnv(OCPMEnv("smoke"), "bidding-day"))
    )
    return path


def measure_task(world: World, folder: Path, policy: str) -> dict[str, float]:
    """One day of one block, as a worker does it."""
    order = make_order(folder, world, 0, 0, [policy])
    make_week(world, 0, 0)  # a worker does this once a week
    began, clock = time.process_time(), time.perf_counter()
    done = run_task(Task(order, 0, 0))
    return {
        "rows": done.rows.rows,
        "row_bytes": done.rows.bytes,
        "seconds": time.process_time() - began,
        "clock_seconds": time.perf_counter() - clock,
    }


def best_of(action: Callable[[], object], repeats: int = 5) -> float:
    """Seconds of the processor."""
    best = float("inf")
    for _ in range(repeats):
        began = time.process_time()
        action()
        best = min(best, time.process_time() - began)
    return best


def measure_limits(world: World, task: dict[str, float], folder: Path) -> dict[str, float]:
    """Seconds per row of what every row needs."""
    rows = 65_536
    generator = stream(CONTEXT, 0)
    probability = generator.uniform(0.0, 0.56, rows)
    win = generator.binomial(world.requests_per_record, probability)
    converted = np.ones(rows // 8)

    def draw() -> None:
        """As many of each kind as a row takes; an eighth of the rows convert."""
        generator.random(rows)  # arrival
        generator.random(rows, dtype=np.float32)  # segment
        generator.standard_normal((MEANS + 1 + USER_SIZE, rows), dtype=np.float32)
        generator.standard_normal(rows, dtype=np.float32)  # exploration
        generator.binomial(world.requests_per_record, probability)
        generator.poisson(win * 0.005)
        generator.standard_gamma(converted)

    layers = [
        generator.standard_normal(shape, dtype=np.float32)
        for shape in ((OBSERVATION_SIZE, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 2))
    ]
    seen = generator.standard_normal((ROWS_AT_ONCE, OBSERVATION_SIZE), dtype=np.float32)
    content = os.urandom(int(task["row_bytes"]))
    return {
        "random_seconds_per_row": best_of(draw) / rows,
        "product_seconds_per_row": best_of(lambda: seen @ layers[0] @ layers[1] @ layers[2], 50)
        / ROWS_AT_ONCE,
        "write_seconds_per_row": best_of(lambda: write_atomically(folder / "written", content), 3)
        / task["rows"],
    }


def least_seconds(limits: dict[str, float], name: str) -> float:
    """That a row of the rule or of the actor takes a core."""
    needed = limits["random_seconds_per_row"] + limits["write_seconds_per_row"]
    return needed + (limits["product_seconds_per_row"] if name == "actor" else 0.0)


def summary(
    tasks: dict[str, dict[str, float]], limits: dict[str, float], memory: int, processes: int
) -> dict[str, Any]:
    results: dict[str, Any] = {"limits": limits, "processes": processes, "goals": GOALS}
    for name, task in tasks.items():
        limit = least_seconds(limits, name)
        per_row = task["seconds"] / task["rows"]
        results[name] = {
            **task,
            "rows_per_second": 1.0 / per_row,
            "limit_rows_per_second": 1.0 / limit,
            "limit_ratio": limit / per_row,
            "week_seconds": WEEK_ROWS * per_row / processes,
            "bytes_per_row": task["row_bytes"] / task["rows"],
        }
    results["worker_bytes"] = memory
    return results


def measure_environments(limits: dict[str, float]) -> dict[str, float]:
    vector = OCPMVectorEnv(ENVIRONMENTS)
    vector.reset(seed=0)
    actions = np.full((ENVIRONMENTS, 1), 0.85, np.float32)
    seconds = best_of(lambda: vector.step(actions), 60) / ENVIRONMENTS
    return {
        "slots": ENVIRONMENTS,
        "steps_per_second": 1.0 / seconds,
        "limit_steps_per_second": 1.0 / limits["random_seconds_per_row"],
        "limit_ratio": limits["random_seconds_per_row"] / seconds,
    }


def measure_weeks(
    world: World, folder: Path, policy: str, processes: int, weeks: int
) -> dict[str, Any]:
    """As the command does it, by the clock and by the processor, workers included."""
    began, rows, row_bytes = time.perf_counter(), 0, 0
    worked = processor_seconds()
    for week in range(weeks):
        order = make_order(folder, world, 0, week, [policy])
        manifest = simulate_week(order, make_engine("local", processes))
        rows, row_bytes = rows + manifest["rows"], row_bytes + manifest["row_bytes"]
    seconds = time.perf_counter() - began
    # One process is this one; see `engines.make_engine`.
    workers = resource.RUSAGE_CHILDREN if processes > 1 else resource.RUSAGE_SELF
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    shutil.rmtree(folder)
    return {
        "policy": "incumbent" if policy == "incumbent" else "actor 256x256",
        "weeks": weeks,
        "rows": rows,
        "clock_seconds": seconds,
        "processor_seconds": processor_seconds() - worked,
        "seconds_per_51_2_million": seconds * WEEK_ROWS / rows,
        "four_weeks_seconds": seconds * FOUR_WEEKS / rows,
        "bytes_per_row": row_bytes / rows,
        "all_bytes": size,
        "four_weeks_bytes": size * FOUR_WEEKS / rows,
        "largest_worker_bytes": resource.getrusage(workers).ru_maxrss * 1024,
        "load_average": os.getloadavg()[0],
    }


def beside_limit(found: dict[str, Any], seconds_per_row: float) -> dict[str, Any]:
    least = found["rows"] * seconds_per_row
    return {**found, "limit_seconds": least, "limit_ratio": least / found["clock_seconds"]}


def processor_seconds() -> float:
    """Of this process and of children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def show(results: dict[str, Any]) -> None:
    def goal(name: str, scale: float = 1.0) -> str:
        return f"(goal {GOALS[name] / scale:,.0f})"

    for name in ("rule", "actor"):
        found = results[name]
        print(
            f"{name}: {found['rows_per_second'] / 1e6:.2f} M rows/s a core, "
            f"{found['limit_ratio']:.2f} of the limit; 51.2 M rows in {found['week_seconds']:.0f} "
            f"s on {results['processes']} cores {goal(f'{name}_week_seconds')}, "
            f"{found['bytes_per_row']:.1f} bytes a row {goal('bytes_per_row')}"
        )
    found = results["environment"]
    print(
        f"vector environment: {found['steps_per_second']:,.0f} steps/s "
        f"{goal('environment_steps_per_second')}, {found['limit_ratio']:.2f} of the limit; "
        f"{results['worker_bytes'] / 1e6:.0f} MB {goal('worker_bytes', 1e6)}"
    )
    found = results["sampling"]
    print(
        f"sampling: {found['transitions_per_second'] / 1e6:.2f} M transitions/s a core (goal "
        f"{found['goal'] / 1e6:.0f}), {found['limit_ratio']:.2f} of copying the rows; a cache of "
        f"four weeks has {results['four_weeks_cache_bytes'] / 1e9:.1f} GB "
        f"{goal('four_weeks_cache_bytes', 1e9)}"
    )
    for name, found in zip(("rule", "actor"), results.get("full", ()), strict=False):
        print(
            f"{found['policy']}: {found['weeks']} week(s), {found['rows']:,} rows in "
            f"{found['clock_seconds']:.0f} s by the clock, {found['limit_ratio']:.2f} of the "
            f"limit; 51.2 M rows in {found['seconds_per_51_2_million']:.0f} s "
            f"{goal(f'{name}_week_seconds')}, four such weeks in "
            f"{found['four_weeks_seconds']:.0f} s {goal('four_weeks_seconds')} and "
            f"{found['four_weeks_bytes'] / 1e9:.2f} GB {goal('four_weeks_bytes', 1e9)}; a worker "
            f"held {found['largest_worker_bytes'] / 1e6:.0f} MB {goal('worker_bytes', 1e6)}"
        )
