"""Run folders read back as data."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Record(NamedTuple):
    """What one run wrote about itself."""

    run: dict[str, Any]
    progress: list[dict[str, Any]]
    episodes: list[dict[str, Any]]

    @property
    def label(self) -> str:
        return f"{self.run['algorithm']} ({self.run['preset']})"


def read_record(folder: Path) -> Record:
    if not (folder / "run.json").exists():
        raise ValueError(f"{folder} holds no run (there is no run.json)")

    def lines(name: str) -> list[dict[str, Any]]:
        path = folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    run = json.loads((folder / "run.json").read_text())["run"]
    return Record(run, lines("progress.jsonl"), lines("episodes.jsonl"))


def by_label(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Seeds of the same settings together, in the order given. One task only."""
    tasks = sorted({record.run["task"] for record in records})
    if len(tasks) != 1:
        raise ValueError(f"one task at a time; these runs are of {', '.join(tasks) or 'none'}")
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.label, []).append(record)
    return groups


class Curve(NamedTuple):
    """One number per evaluation and seed, on the steps that all seeds have reached."""

    steps: np.ndarray  # [T]
    values: np.ndarray  # [seeds, T]


GREEDY, SAMPLED = "evaluation", "sampled_evaluation"


def kinds(records: Sequence[Record]) -> list[str]:
    """How these runs were evaluated: greedily, and where every reset is alike by sampling too."""
    every_line = [line for record in records for line in record.progress]
    return [kind for kind in (GREEDY, SAMPLED) if all(kind in line for line in every_line)]


def curve(records: Sequence[Record], name: str, kind: str = GREEDY) -> Curve:
    shared = set.intersection(*({line["step"] for line in r.progress} for r in records))
    steps = sorted(shared)
    values = [[line[kind][name] for line in r.progress if line["step"] in shared] for r in records]
    return Curve(np.array(steps), np.array(values))


def training_costs_by_quarter(records: Sequence[Record]) -> list[list[float]]:
    """Costs of the training episodes in time order, each run cut into four, seeds pooled."""
    quarters: list[list[float]] = [[], [], [], []]
    for record in records:
        costs = [e["cost"] for e in record.episodes if e["phase"] == "training"]
        for quarter, part in zip(quarters, np.array_split(np.array(costs), 4), strict=True):
            quarter.extend(part.tolist())
    return quarters
