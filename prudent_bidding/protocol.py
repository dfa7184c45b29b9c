"""The semi-batch protocol: incumbent log, then week by week one offline update per algorithm, one
deployment of the fixed stochastic policies in a shared world, one evaluation from its ledgers.

Every step leaves a file that says it is done, so the same command goes on after a kill wherever it
was: the simulator skips finished days, a learner goes on from its checkpoint, and results are
written once. Learners run in processes of their own; this one imports no JAX.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from prudent.algorithms import ALGORITHMS
from prudent.backend import ONE_THREAD
from prudent.files import make_folder, to_json, write_atomically, writing
from prudent.runs.lock import only_writer
from prudent.settings.registration import OURS
from prudent_bidding import metrics
from prudent_bidding.cache import build_cache
from prudent_bidding.engines import EngineName, make_engine
from prudent_bidding.plan import (
    CLONING,
    INCUMBENT,
    PLAN,
    Plan,
    calibration_file,
    deployed_policy,
    policy_file,
    record_file,
    reference_folder,
    results_file,
)
from prudent_bidding.records import read_json, write_plan
from prudent_bidding.schema import MANIFEST, carried_file, week_folder
from prudent_bidding.simulate import Engine, make_order, simulate_week
from prudent_bidding.tables import write_report
from prudent_bidding.world import World
from prudent_bidding.world import preset as world_preset

Say = Callable[[str], None]


class LearnerFailed(RuntimeError):
    """A learner's process ended with an error, which is told in one line."""


class Site(NamedTuple):
    """Where and how a plan is carried out."""

    folder: Path
    plan: Plan
    processes: int
    engine: Engine
    say: Say

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def world(self) -> World:
        return world_preset(self.plan.preset)


def run_protocol(
    folder: Path, plan: Plan, *, processes: int, engine: EngineName = "local", say: Say = print
) -> None:
    """All weeks, from wherever the folder is; ends with tables, a figure and a page."""
    check_sampled(plan)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with only_writer(folder):
        advice = f"go on with `prudent bidding run --resume {folder}`, or choose another folder "
        write_plan(folder / PLAN, plan, f"{advice}with --out")
        for name in ("arms", "references", "results"):
            make_folder(folder / name)
        site = Site(folder, plan, processes, make_engine(engine, processes), say)
        deploy(site, site.data, 0, [INCUMBENT])
        if not results_file(folder, 0).exists():
            found = measure(site, site.data, 0, [INCUMBENT])
            write_json(results_file(folder, 0), {"week": 0, "arms": found})
        for week in range(1, plan.weeks + 1):
            if not results_file(folder, week).exists():
                run_week(site, week)
            write_report(folder, plan)
        # Those of earlier weeks were made when the next update began.
        learn(site, plan.algorithms, plan.weeks, calibrating=True)
        write_report(folder, plan)


def write_json(path: Path, content: Any) -> None:
    write_atomically(path, (to_json(content, indent=1) + "\n").encode())


def check_sampled(plan: Plan) -> None:
    """That what is to be sampled can be; ours all can, others are asked, which imports JAX."""
    for name in plan.algorithms:
        if plan.deployed == "sampled" and ALGORITHMS.source(name) != OURS:
            from prudent_bidding.learners import check_explores

            check_explores(plan, name)


def run_week(site: Site, week: int) -> None:
    plan, folder = site.plan, site.folder
    build_cache(site.data, week - 1, folder / "cache")  # once, not in every learner
    learn(site, plan.algorithms, week)
    if CLONING in plan.references:
        learn(site, [CLONING], 1)  # it is fitted once, to the incumbent
    policies = [deployed_policy(folder, plan, name, week) for name in plan.algorithms]
    seconds = deploy(site, site.data, week, [*policies, INCUMBENT])
    found = measure(site, site.data, week, plan.arms)
    content = {
        "week": week,
        "arms": found,
        "references": {name: evaluate_reference(site, name, week) for name in plan.references},
        "training": {a: read_json(record_file(folder, a, week)) for a in plan.algorithms},
        "rows": read_json(site.data / week_folder(week) / MANIFEST)["rows"],
    }
    if seconds is not None:
        content["simulation_seconds"] = seconds
    write_json(results_file(folder, week), content)
    site.say(week_summary(week, found))


def deploy(site: Site, data: Path, week: int, policies: Sequence[str]) -> float | None:
    """Simulate a week of a data set; returns the seconds that it took, None if it was there."""
    plan = site.plan
    if (data / week_folder(week) / MANIFEST).exists():
        return None
    site.say(f"week {week}: simulating {data.name} with {len(policies)} arms")
    began = perf_counter()
    order = make_order(data, site.world, plan.world_seed, week, policies, plan.assignment, False)
    simulate_week(order, site.engine)
    return perf_counter() - began


def measure(
    site: Site, data: Path, week: int, arms: Sequence[str], parts_of: Path | None = None
) -> dict[str, Any]:
    """Of every arm, and its pay against the incumbent's, which is the last."""
    requests = site.world.requests_per_record
    found = metrics.evaluate_week(data, week, arms, requests, site.plan.world_seed, parts_of)
    return {name: metrics.to_json(values) for name, values in found.items()}


def evaluate_reference(site: Site, name: str, week: int) -> dict[str, Any]:
    """A policy that has a whole world for itself: the same advertisers and records."""
    data = reference_folder(site.folder, name)
    path = data / f"metrics-{week}.json"
    if not path.exists():
        begin_reference(site.data, data, site.world.market == "meanfield")
        policy = str(policy_file(site.folder, CLONING, 1)) if name == CLONING else name
        deploy(site, data, week, [policy])
        write_json(path, measure(site, data, week, [name], parts_of=site.data)[name])
        for rows in (data / week_folder(week)).glob("day-*/block-*.parquet"):
            rows.unlink()  # only ledgers are asked for again
    return dict(read_json(path))


def begin_reference(incumbent: Path, data: Path, with_ledgers: bool) -> None:
    """Controllers know what the incumbent's week showed, and prices what was bid in it."""
    paths = [incumbent / carried_file(0)]
    if with_ledgers:
        paths += incumbent.glob("week-0/day-*/ledger-*.parquet")
    for path in paths:
        target = data / path.relative_to(incumbent)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(target, path.read_bytes())


def learn(site: Site, names: Sequence[str], week: int, calibrating: bool = False) -> None:
    """Each algorithm's update in a process of its own, several at a time."""
    ready = calibration_file if calibrating else record_file
    missing = [name for name in names if not ready(site.folder, name, week).exists()]
    if missing and not calibrating:
        site.say(f"week {week}: {', '.join(missing)} learn from what was logged")
    with ThreadPoolExecutor(site.processes) as pool:
        list(pool.map(lambda name: learn_in_process(site.folder, name, week, calibrating), missing))


def learn_in_process(folder: Path, name: str, week: int, calibrating: bool) -> None:
    words = [sys.executable, "-m", "prudent", "bidding", "learn", str(folder), name, str(week)]
    words.append(str(os.getpid()))
    if calibrating:
        words.append("--calibrate")
    # The one lock of the run is ours; a learner has its own.
    done = subprocess.run(
        words, env={**ONE_THREAD, **os.environ}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise LearnerFailed(f"{name}, week {week}: {last.removeprefix('prudent: ')}")


def week_summary(week: int, arms: dict[str, Any]) -> str:
    parts = [
        f"{name} pay {found['pay_per_day']['value']:.4g} a day, "
        f"violations {found['vio_week']['value']:.1%}"
        for name, found in arms.items()
        if "vio_week" in found
    ]
    return f"week {week} (simulated): " + "; ".join(parts)
