"""One run folder as data: its settings, its evaluations, its training episodes."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prudent.report.stored import (
    EPISODES,
    PROGRESS,
    RUN,
    STEPS,
    Entry,
    Say,
    damaged,
    find,
    is_number,
    note,
    read_lines,
    read_object,
    require,
)

GREEDY, SAMPLED = "evaluation", "sampled_evaluation"


class Record(NamedTuple):
    """What one run wrote about itself."""

    run: dict[str, Any]
    progress: list[dict[str, Any]]
    episodes: list[dict[str, Any]]
    folder: Path
    format: int  # of run.json: which settings `run` stores
    diagnostics: Sequence[dict[str, Any]] = ()  # as `folders.collect` adds them


RUN_FIELDS = {
    "algorithm": "a string", "task": "a string", "preset": "a string", "seed": "a whole number",
    "budget": "a number", "discounted": "true or false",
}  # fmt: skip
LINE_FIELDS = {"step": STEPS, GREEDY: "an object", "window_seconds": "a number"}
EPISODE_FIELDS = {"phase": "a string", "cost": "a number"}
MEASURES = dict.fromkeys(("return", "cost", "length", "within_budget"), "a number")


def read_record(folder: Path, say: Say = note) -> Record:
    """A run's records, or a one-line error naming the file and line at fault."""
    path = folder / RUN
    if not path.exists():
        raise ValueError(f"{folder} holds no run (there is no run.json)")
    about = {"format": 1, **read_object(path)}
    require(str(path), about, {"format": "a whole number", "run": "an object"})
    require(f"{path}, 'run'", about["run"], RUN_FIELDS)
    progress, episodes = find(folder, PROGRESS), find(folder, EPISODES)
    return Record(
        about["run"],
        read_progress(progress, say) if progress else [],
        read_episodes(episodes, say) if episodes else [],
        folder,
        about["format"],
    )


def read_progress(path: Path, say: Say) -> list[Entry]:
    """The evaluations, in the order of their steps."""
    lines = read_lines(path, say)
    for number, line in enumerate(lines, 1):
        where = f"{path}:{number}"
        require(where, line, LINE_FIELDS)
        for kind in (GREEDY, SAMPLED):
            if kind in line:
                require(where, line, {kind: "an object"})
                require(f"{where}, {kind!r}", line[kind], MEASURES)
    for number, (before, line) in enumerate(pairwise(lines), 2):
        if line["step"] <= before["step"]:
            fault = f"step {line['step']} comes after step {before['step']}"
            raise damaged(f"{path}:{number}", fault)
    return lines


def read_episodes(path: Path, say: Say) -> list[Entry]:
    lines, name = read_lines(path, say), str(path)
    for number, line in enumerate(lines, 1):
        require(f"{name}:{number}", line, EPISODE_FIELDS)
    return lines


class Curve(NamedTuple):
    """One number per evaluation and seed, on the steps that all seeds have reached."""

    steps: np.ndarray  # [T], empty as long as one of the runs has no evaluation
    values: np.ndarray  # [seeds, T]


def kinds(records: Sequence[Record]) -> list[str]:
    """How these runs were evaluated: greedily, and where every reset is alike by sampling too.

    Nothing if they were not evaluated yet.
    """
    every_line = [line for record in records for line in record.progress]
    if not every_line:
        return []
    return [kind for kind in (GREEDY, SAMPLED) if all(kind in line for line in every_line)]


def curve(records: Sequence[Record], name: str, kind: str = GREEDY) -> Curve:
    return together([{line["step"]: line[kind][name] for line in r.progress} for r in records])


def training_curve(records: Sequence[Record], name: str) -> Curve:
    """Of a number that training kept, such as `ensemble_spread`; where it has it."""
    by_step = ({line["step"]: line.get("training") for line in r.progress} for r in records)
    return together([numbers(lines, name) for lines in by_step])


def diagnostics_curve(records: Sequence[Record], name: str) -> Curve:
    """Of a number that `prudent diagnose` measured at snapshots, such as `gap`, of those runs that
    it was used on.
    """
    diagnosed = [record for record in records if record.diagnostics] or records
    by_step = ({line["step"]: line for line in record.diagnostics} for record in diagnosed)
    return together([numbers(lines, name) for lines in by_step])


def numbers(lines: Mapping[int, Any], name: str) -> dict[int, float]:
    """By step; lines that do not have it, or have no number of that name, are passed over."""
    sound = {step: line for step, line in lines.items() if isinstance(line, dict)}
    return {step: line[name] for step, line in sound.items() if is_number(line.get(name))}


def together(by_step: Sequence[Mapping[int, float]]) -> Curve:
    """One row per seed, of the steps that all of them have."""
    first, *others = by_step
    if all(other.keys() == first.keys() for other in others):  # as a rule, and quicker
        steps = sorted(first)
    else:
        steps = sorted(set.intersection(*map(set, by_step)))
    values = [[numbers[step] for step in steps] for numbers in by_step]
    return Curve(np.array(steps, int), np.array(values, float).reshape(len(by_step), len(steps)))


def steps_done(record: Record) -> int:
    """As far as it was evaluated."""
    return int(record.progress[-1]["step"]) if record.progress else 0


def steps_planned(record: Record) -> float | None:
    schedule = record.run.get("schedule")
    steps: Any = schedule.get("steps") if isinstance(schedule, dict) else None
    return float(steps) if is_number(steps) else None


def rates_decay(record: Record) -> bool:
    """Whether its learning rates fall to 0 at its last step: what it did until some earlier one is
    then no run of so many steps.
    """
    return bool(record.run.get("config", {}).get("rate_decay", "none") != "none")


def shortened(record: Record, steps: int) -> Record:
    """What the run had done after that many steps: a run of so many, if nothing in it depends on
    how long it was meant to be.
    """

    def before(lines: Sequence[Entry]) -> list[Entry]:
        return [line for line in lines if line.get("step", 0) <= steps]

    run = record.run
    planned = steps_planned(record)
    if planned is not None and planned > steps and not rates_decay(record):
        run = {**run, "schedule": {**run["schedule"], "steps": steps}}
    return record._replace(
        run=run,
        progress=before(record.progress),
        episodes=before(record.episodes),
        diagnostics=before(record.diagnostics),
    )


def training_costs(record: Record) -> np.ndarray:
    """Of the training episodes, in time order."""
    return np.array([e["cost"] for e in record.episodes if e["phase"] == "training"], float)


def training_costs_by_quarter(records: Sequence[Record]) -> list[list[float]]:
    """Costs of the training episodes in time order, each run cut into four, seeds pooled."""
    quarters: list[list[float]] = [[], [], [], []]
    for record in records:
        parts = np.array_split(training_costs(record), 4)
        for quarter, part in zip(quarters, parts, strict=True):
            quarter.extend(part.tolist())
    return quarters
