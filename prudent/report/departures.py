"""Which settings a run has other than its preset, and which of them the paper's experiments vary.

An experiment on k has runs of CAL with c, E and ratio as usual; a claim about CAL is about CAL with
all of them as usual, not about one of its ablations.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from prudent.algorithms import ALGORITHMS
from prudent.algorithms.resolve import settings
from prudent.report.paper import VARIED
from prudent.settings.checks import unstored
from prudent.tasks import TASKS


@cache
def usual_values(algorithm: str, task: str, preset: str) -> Mapping[str, Any]:
    """Of the preset; nothing where this version has no such algorithm, task or preset."""
    entry, known = ALGORITHMS.get(algorithm), TASKS.get(task)
    if entry is None or known is None or preset not in entry.presets(known):
        return {}
    config, schedule = settings(entry, known, preset)
    return {**vars(config), **vars(schedule)}


def changed(run: Mapping[str, Any]) -> set[str]:
    """Names of settings that are not the preset's; what is not stored or not known has not been
    changed.
    """
    usual = usual_values(run["algorithm"], run["task"], run["preset"])
    own = {**run.get("config", {}), **run.get("schedule", {})}
    return {name for name in own if name in usual and own[name] != as_stored(usual[name])}


@cache
def unstored_values(algorithm: str) -> Mapping[str, Any]:
    """Of settings that records do not hold at their default (see `prudent.settings.checks`): their
    defaults; nothing where this version has no such algorithm.
    """
    entry = ALGORITHMS.get(algorithm)
    if entry is None:
        return {}
    default = entry.config()
    return {name: getattr(default, name) for name in unstored(default)}


def as_stored(value: Any) -> Any:
    """As `run.json` gives it back: JSON has no tuples."""
    return list(value) if isinstance(value, tuple) else value


def departures(run: Mapping[str, Any]) -> set[str]:
    """Of what was changed, that which the paper's experiments vary."""
    return changed(run) & set(VARIED)
