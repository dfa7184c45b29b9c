"""Runs in processes of their own, several at once.

A run is described to its process by a file; `run_job` is what the process does with it, and any
other engine (see `on_ray`) does the same. Whatever happens to one run, the others go on.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from prudent.agent import Agent, resume
from prudent.backend import ONE_THREAD, usable_cores
from prudent.experiments.existing import last_lines, state_of
from prudent.files import CannotWrite, to_json, write_atomically
from prudent.runs.folder import FORMATS, read_run, run_from_json
from prudent.settings.run import Run, run_to_json
from prudent.tasks.finding import task_of

ELSEWHERE = 75  # a run's process found that another one writes it
POLL_SECONDS = 0.1
REFRESH_SECONDS = 1.0

Stage = Literal["waiting", "running", "finished", "failed", "stopped", "elsewhere"]


# By exit code; one that is interrupted before it can answer ends by the signal itself.
STAGES: dict[int, Stage] = {
    0: "finished",
    130: "stopped",
    -signal.SIGINT: "stopped",
    ELSEWHERE: "elsewhere",
}


class Job(NamedTuple):
    run: Run
    folder: Path
    name: str  # in words, for people
    key: str  # in a file's name


@dataclass
class Standing:
    """How a job stands. `line` is the newest of its progress.jsonl."""

    job: Job
    stage: Stage = "waiting"
    line: dict[str, Any] | None = None
    began: float | None = None  # when this grid began with it, by the monotonic clock
    first_step: int = 0  # where it was then
    error: str | None = None

    @property
    def step(self) -> int:
        return max(0, int(self.line["step"])) if self.line else 0

    def seconds_left(self) -> float | None:
        """By what was done since this grid began with it."""
        if self.stage != "running" or self.began is None or self.step <= self.first_step:
            return None
        rate = (time.monotonic() - self.began) / (self.step - self.first_step)
        return rate * (self.job.run.schedule.steps - self.step)


Show = Callable[[Sequence[Standing]], None]


def write_job(path: Path, job: Job) -> None:
    content = {"format": FORMATS[-1], "run": run_to_json(job.run), "folder": str(job.folder)}
    write_atomically(path, (to_json(content, indent=2) + "\n").encode())


class Described(NamedTuple):
    run: Run
    folder: Path


def read_job(path: Path) -> Described:
    try:
        content = json.loads(path.read_text())
        run = run_from_json(content["run"], content["format"])
        return Described(run, Path(content["folder"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} describes no run ({error})") from None


def run_job(run: Run, folder: Path) -> None:
    """Start the run, or go on with it if its folder has begun it: the same on every engine.

    The environment is the one that the grid names, not what the folder may name by now.
    """
    if not (folder / "run.json").exists():
        Agent.of_run(run, task_of(run, run.task), folder).learn()
    else:
        resume(folder, env=run.task)


def command(description: Path) -> list[str]:
    return [sys.executable, "-m", "prudent", "run-one", str(description)]


def stop_with_parent() -> None:
    """Save and stop when whoever started this process, and holds the other end of its stdin, is no
    more. Signals get through again: processes of Ray's block them, and their children inherit that.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})

    def wait_for_end() -> None:
        while os.read(0, 1):
            continue
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait_for_end, daemon=True).start()


class Ended(NamedTuple):
    standings: list[Standing]
    interrupted: bool


class Child(NamedTuple):
    process: subprocess.Popen[bytes]
    errors: Path  # what it writes to stderr
    core: int | None


def run_locally(jobs: Sequence[Job], at_once: int, notes: Path, show: Show) -> Ended:
    """Run all jobs, `at_once` of them at a time. Descriptions, output and errors go into `notes`.

    SIGINT and SIGTERM let the runs save and stop; a second one stops them at once.
    """
    notes.mkdir(parents=True, exist_ok=True)
    standings = [Standing(job) for job in jobs]
    waiting = list(standings)
    children: list[tuple[Standing, Child]] = []
    cores = usable_cores()
    # Each on a core of its own, if all are used; else others may want those we would choose.
    free: list[int | None] = [*cores] if at_once == len(cores) > 1 else [None] * at_once
    shown_at = -REFRESH_SECONDS
    with stop_requests() as requests:
        told = 0
        try:
            while children or (waiting and not requests):
                while waiting and free and not requests:
                    standing = waiting.pop(0)
                    if not done_meanwhile(standing):
                        children.append((standing, begin(standing, notes, free.pop())))
                if len(requests) > told:
                    told = len(requests)
                    interrupt(child for _, child in children)
                time.sleep(POLL_SECONDS)
                for standing, child in [c for c in children if c[1].process.poll() is not None]:
                    children.remove((standing, child))
                    free.append(child.core)
                    end(standing, child.process.returncode, child.errors, notes)
                if time.monotonic() - shown_at >= REFRESH_SECONDS:
                    refresh(standings)
                    show(standings)
                    shown_at = time.monotonic()
        finally:
            interrupt(child for _, child in children)
            for _, child in children:
                child.process.wait()
    for standing in standings:
        if standing.stage == "elsewhere":
            done_meanwhile(standing)
    refresh(standings)
    show(standings)
    return Ended(standings, bool(requests))


def done_meanwhile(standing: Standing) -> bool:
    """Whether another process has finished the run since it was planned."""
    folder = standing.job.folder
    if (folder / "run.json").exists() and is_finished(folder):
        standing.stage, standing.line = "finished", None
        return True
    return False


def is_finished(folder: Path) -> bool:
    try:
        return state_of(folder, read_run(folder).run).state == "finished"
    except (ValueError, OSError):
        return False  # its own process will say what is wrong


def begin(standing: Standing, notes: Path, core: int | None) -> Child:
    job = standing.job
    description = notes / f"{job.key}.json"
    errors = notes / f"{job.key}.{os.getpid()}.stderr"
    try:
        write_job(description, job)
        environment = {**ONE_THREAD, **os.environ}
        with (notes / f"{job.key}.log").open("ab") as output, errors.open("wb") as complaints:
            process = subprocess.Popen(
                command(description),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=complaints,
                env=environment,
                start_new_session=True,  # Ctrl-C is ours to pass on, once
            )
    except OSError as error:
        raise CannotWrite(f"{notes} cannot be written: {error.strerror or error}") from error
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(process.pid, {core})  # threads it starts later inherit it
    note_beginning(standing)
    return Child(process, errors, core)


def note_beginning(standing: Standing) -> None:
    lines = last_lines(standing.job.folder)
    standing.stage, standing.began = "running", time.monotonic()
    standing.first_step = max(0, lines[-1]["step"]) if lines else 0


def end(standing: Standing, code: int, errors: Path, notes: Path) -> None:
    """Keep what the run's process had to say, if it failed."""
    kept = notes / f"{standing.job.key}.error.txt"
    refresh([standing])
    standing.stage = STAGES.get(code, "failed")
    if standing.stage == "failed":
        kept.unlink(missing_ok=True)
        with suppress(FileNotFoundError):  # shared storage may be late, or the file was removed
            os.replace(errors, kept)
        complaints = kept.read_text(errors="replace").strip().splitlines() if kept.exists() else []
        killed = f"ended by signal {-code}" if code < 0 else f"ended with code {code}"
        standing.error = f"{complaints[-1] if complaints else killed} (all of it: {kept})"
        return
    errors.unlink(missing_ok=True)
    if standing.stage == "finished":
        kept.unlink(missing_ok=True)


def refresh(standings: Sequence[Standing]) -> None:
    for standing in standings:
        if standing.stage == "running" or standing.line is None:
            lines = last_lines(standing.job.folder)
            standing.line = lines[-1] if lines else standing.line


def interrupt(children: Iterator[Child]) -> None:
    for child in children:
        if child.process.poll() is None:
            child.process.send_signal(signal.SIGINT)


@contextmanager
def stop_requests() -> Iterator[list[int]]:
    """The signals that asked to stop, as they arrive."""
    requests: list[int] = []
    try:
        previous = {
            number: signal.signal(number, lambda number, frame: requests.append(number))
            for number in (signal.SIGINT, signal.SIGTERM)
        }
    except ValueError:  # only the main thread can handle signals
        yield requests
        return
    try:
        yield requests
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
