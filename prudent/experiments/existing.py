"""Which runs of a grid are there already: they are told by what their `run.json` says, wherever
below a folder they stand, not by the name of theirs.
"""

import gzip
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from prudent.experiments.grid import nameless
from prudent.runs.folder import default_folder, read_run
from prudent.settings.run import Run
from prudent.settings.schedules import OffPolicySchedule

State = Literal["finished", "begun", "missing"]
TAIL = 2**16  # bytes; a line of progress.jsonl has a few thousand
INSIDE = ("checkpoints", "replay", "snapshots")  # of a run's folder: no runs in there


class Existing(NamedTuple):
    folder: Path
    run: Run
    state: State
    step: int  # of the newest evaluation; -1 where there is none


def run_folders(root: Path) -> Iterator[Path]:
    """Folders below `root`, itself included, that hold a run; links are not followed."""
    for folder, inside, files in os.walk(root):
        inside[:] = sorted(name for name in inside if name not in INSIDE)
        if "run.json" in files:
            yield Path(folder)


def existing_runs(root: Path, say: Callable[[str], None]) -> dict[Run, Existing]:
    """By their settings, seed included, the preset's name apart; of several, the furthest."""
    existing: dict[Run, Existing] = {}
    for folder in run_folders(root):
        try:
            run = read_run(folder).run
            state, step = state_of(folder, run)
        except (ValueError, OSError) as error:
            say(f"left out: {error}")
            continue
        if state == "missing":
            continue
        key = nameless(run)
        if key not in existing or step > existing[key].step:
            existing[key] = Existing(folder, run, state, step)
    return existing


class Reached(NamedTuple):
    state: State
    step: int


def state_of(folder: Path, run: Run) -> Reached:
    """How far a run has come, by the ends of its records and the name of its newest checkpoint."""
    lines = last_lines(folder)
    step = int(lines[-1]["step"]) if lines else -1
    checkpoint = newest_checkpoint(folder)
    if step >= run.schedule.steps and checkpoint in (None, last_checkpoint(run)):
        return Reached("finished", step)
    if lines and checkpoint is None and len(lines) > 1:
        return Reached("missing", step)  # records alone, which cannot be gone on with
    return Reached("begun", step)


def last_checkpoint(run: Run) -> int:
    """The number that the checkpoint at a run's end is named by."""
    schedule = run.schedule
    warmup = schedule.warmup_steps if isinstance(schedule, OffPolicySchedule) else 0
    return schedule.steps + warmup


def newest_checkpoint(folder: Path) -> int | None:
    try:
        names = os.listdir(folder / "checkpoints")
    except OSError:
        return None
    steps = [
        int(name[len("step-") : -len(".json")])
        for name in names
        if name.startswith("step-") and name.endswith(".json")
    ]
    return max(steps, default=None)


def last_lines(folder: Path) -> list[dict[str, Any]]:
    """The last lines of a run's progress that are whole, however long the file is."""
    return list(parsed(tail(folder / "progress.jsonl")))


def tail(path: Path) -> list[bytes]:
    """Lines of a file's end, without one that may have begun before, and one not yet ended."""
    packed = path.with_name(f"{path.name}.gz")
    try:
        if packed.exists():
            return gzip.decompress(packed.read_bytes()).split(b"\n")[:-1]
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL))
            lines = file.read().split(b"\n")[:-1]
    except (OSError, EOFError):
        return []
    return lines[1:] if size > TAIL else lines


def parsed(lines: list[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            content = json.loads(line)
            if isinstance(content, dict) and isinstance(content.get("step"), int):
                yield content
        except ValueError:
            continue


def folder_for(run: Run, out: Path, existing: Mapping[Run, Existing]) -> Path:
    """Where the run stands, or would: under its usual name, unless another run has that. (One that
    was prolonged keeps the name it began with.)
    """
    there = existing.get(nameless(run))
    if there:
        return there.folder
    folder, number = default_folder(run, out), 1
    while (folder / "run.json").exists():
        number += 1
        folder = folder.with_name(f"seed-{run.seed}-{number}")
    return folder
