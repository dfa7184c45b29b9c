"""What a grid costs besides its runs.

    python benchmarks/grid.py [--runs 6] [--steps 4000] [--jobs 2] [--repeats 2] [--without-ray]

Idle share: of the time between the first look for something to run and the moment when the last
run of the grid begins, the share in which one of the --jobs places has no process although runs
are waiting. A place is taken from the moment its process is started until the operating system says
that it has ended (not when the grid notices). Target: under 2 %. Two things are not in it, and are
told beside it: the start of the command itself, once, and what each run's process needs to be ready
(Python, JAX, the environment, compilation), which is work of a process and not a lack of one, but
which a single process for all runs would need only once.

Ray's seconds: the same grid by `prudent sweep` with either engine in turn, each as a command of its
own with nothing cached but what is compiled; the median of the differences. Target: under 15 s.
That is by the clock, which a busy machine stretches: so beside it stand its parts (starting a
cluster of this machine, looking at its nodes, leaving it), and how much slower than alone a process
was that never waits.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, sleep
from typing import Any

from prudent.experiments import clusters, engines, on_ray
from prudent.experiments.grid import Grid, Variant, expand

IDLE_TARGET, RAY_TARGET = 0.02, 15.0
VALUES = {"hidden": (64, 64), "updates_per_step": 1, "batch_size": 12, "warmup_steps": 200}
VALUES |= {"evaluate_every": 2_000, "evaluation_episodes": 1, "checkpoint_every": 2_000}


class Watched:
    """When a run's process began, was ready, and ended."""

    def __init__(self, child: engines.Child, folder: Path) -> None:
        self.began, self.folder, self._pid = perf_counter(), folder, child.process.pid
        self.ready: float | None = None
        self.ended: float | None = None
        threading.Thread(target=self._wait_for_end, daemon=True).start()
        threading.Thread(target=self._wait_until_ready, daemon=True).start()

    def _wait_for_end(self) -> None:
        try:
            os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
            ended = perf_counter()
        except ChildProcessError:  # the grid was quicker: it ended since the last look, at most
            ended = perf_counter() - engines.POLL_SECONDS
        self.ended = min(self.ended or ended, ended)

    def _wait_until_ready(self) -> None:
        while self.ended is None and not (self.folder / "progress.jsonl").exists():
            sleep(0.02)
        self.ready = perf_counter()


def jobs_in(home: Path, runs: int, steps: int) -> list[engines.Job]:
    variant = Variant("cal", {**VALUES, "steps": steps})
    planned = expand(Grid(["orbit"], [variant], range(runs)))
    return [
        engines.Job(p.run, home / f"seed-{p.run.seed}", "cal", f"seed-{p.run.seed}")
        for p in planned
    ]


def measure_idle(home: Path, options: argparse.Namespace) -> None:
    watched: list[Watched] = []
    begin: Callable[..., engines.Child] = engines.begin
    end: Callable[..., None] = engines.end

    def watching(standing: engines.Standing, *rest: Any) -> engines.Child:
        child = begin(standing, *rest)
        watched.append(Watched(child, standing.job.folder))
        return child

    def noticing(standing: engines.Standing, *rest: Any) -> None:
        now = perf_counter()
        one = next(one for one in watched if one.folder == standing.job.folder)
        one.ended = min(one.ended or now, now)  # whoever watches it may have had to wait
        end(standing, *rest)

    engines.begin, engines.end = watching, noticing
    started = perf_counter()
    ended = engines.run_locally(
        jobs_in(home, options.runs, options.steps), options.jobs, home / "notes", lambda _: None
    )
    engines.begin, engines.end = begin, end
    assert {standing.stage for standing in ended.standings} == {"finished"}
    last = max(one.began for one in watched)
    places = options.jobs * (last - started)
    busy = sum(min(one.ended or last, last) - one.began for one in watched)
    share = 1.0 - busy / places
    each = sum((one.ended or last) - one.began for one in watched) / len(watched)
    ready = sum((one.ready or last) - one.began for one in watched) / len(watched)
    print(
        f"idle: {share:.2%} of {places:.1f} s of {options.jobs} places while runs remained "
        f"({options.runs} runs of {each:.1f} s); target {IDLE_TARGET:.0%} "
        f"{'reached' if share < IDLE_TARGET else 'MISSED'}"
    )
    print(f"beside it: a process was ready to train after {ready:.1f} s, once per run")


def command(home: Path, engine: str, options: argparse.Namespace) -> list[str]:
    words = [sys.executable, "-m", "prudent", "sweep", "--algorithms", "cal", "--tasks", "orbit"]
    words += ["--seeds", *map(str, range(options.runs)), "--engine", engine, "--out", str(home)]
    words += ["--jobs", str(options.jobs), "--steps", str(options.steps)]
    for name, value in VALUES.items():
        said = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        words += [f"--{name.replace('_', '-')}", said]
    return words


def seconds_of(words: list[str]) -> float:
    started = perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - started


def measure_ray(home: Path, options: argparse.Namespace) -> None:
    added, slower = [], []
    for repeat in range(options.repeats):
        local, on_ray = (
            seconds_of(command(home / f"{engine}-{repeat}", engine, options))
            for engine in ("local", "ray")
        )
        added.append(on_ray - local)
        slower.append(stretched())
        print(f"the same grid: {local:.1f} s local, {on_ray:.1f} s on Ray", flush=True)
    verdict = "reached" if median(added) < RAY_TARGET else "MISSED"
    print(
        f"Ray adds {median(added):.1f} s by the clock, target {RAY_TARGET:g} s {verdict}; about "
        f"{median(added) / median(slower):.1f} s on a machine that is not in use (this one was "
        f"{median(slower):.1f} times slower)"
    )


def stretched() -> float:
    """Seconds by the clock per second of CPU time of a process that never waits: 1 if alone."""
    started, worked = perf_counter(), process_time()
    while process_time() - worked < 0.5:
        pass
    return (perf_counter() - started) / (process_time() - worked)


def measure_parts(home: Path, options: argparse.Namespace) -> None:
    """What Ray's share is made of."""
    notes = home / "parts"
    slower = [stretched()]
    times = [perf_counter()]
    with clusters.said_to(notes) as log, clusters.connected(None, options.jobs, log) as ray:
        times.append(perf_counter())
        with on_ray.marked(notes) as marker:
            on_ray.check_nodes(ray, marker)
        times.append(perf_counter())
    times.append(perf_counter())
    slower.append(stretched())
    start, look, leave = (later - earlier for earlier, later in pairwise(times))
    print(
        f"its parts: start {start:.1f} s, look at the nodes {look:.1f} s, leave {leave:.1f} s by "
        f"the clock, on a machine {sum(slower) / 2:.1f} times slower than one that is not in use"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--steps", type=int, default=4_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--without-ray", action="store_true")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    started = perf_counter()
    subprocess.run(
        [*command(Path("none"), "local", options), "--dry-run"],
        stdout=subprocess.DEVNULL,
        check=True,
    )
    print(f"start of the command: {perf_counter() - started:.1f} s, once per grid")
    with tempfile.TemporaryDirectory() as home:
        measure_idle(Path(home) / "idle", options)
        if not options.without_ray:
            measure_parts(Path(home), options)
            measure_ray(Path(home), options)


if __name__ == "__main__":
    main()
