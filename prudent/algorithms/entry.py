"""What an algorithm says of itself."""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any, NamedTuple

from prudent.files import to_json
from prudent.settings.checks import Values, checked, field_names
from prudent.settings.configs import OffPolicyConfig, OnPolicyConfig
from prudent.settings.schedules import (
    OffPolicySchedule,
    OnPolicySchedule,
    Schedule,
    SemiBatchSchedule,
)
from prudent.tasks.task import Task


class Entry(NamedTuple):
    """An algorithm under its name. Nothing of it needs JAX before `build` is called."""

    name: str
    summary: str
    build: Callable[[Any, Any], Any]  # config, spec -> prudent.pieces.types.Algorithm
    config: type  # a frozen dataclass; every field is read
    schedule: type[Schedule]  # decides the training loop
    # The values that each preset sets for a task. The first is used where none is named.
    presets: Callable[[Task], Mapping[str, Values]]


# What every algorithm's `train` takes besides its settings.
RESERVED = frozenset(
    (
        *("algorithm", "task", "env", "cost", "cost_range", "negative_costs"),
        *("budget", "horizon", "discounted"),
        *("preset", "seed", "out", "warmup", "init_from", "callbacks", "log", "quiet"),
    )
)
# Options of `prudent sweep` besides, where a setting is an option too.
SWEPT = frozenset(
    ("scale", "tasks", "algorithms", "seeds", "jobs", "engine", "address", "dry_run", "file")
)
CONFIGS = {OffPolicySchedule: OffPolicyConfig, OnPolicySchedule: OnPolicyConfig}


def check_entry(entry: Any) -> None:
    """Refuse what cannot be an algorithm's entry. The functions that `build` returns are looked at
    when they are used.
    """
    if not isinstance(entry, Entry):
        raise ValueError(f"a prudent.Entry is needed, not a {type(entry).__name__}")
    parts: dict[str, Any] = entry._asdict()  # of whatever type
    config, functions = parts["config"], (parts["build"], parts["presets"])
    needed = next((base for kind, base in CONFIGS.items() if kind is entry.schedule), None)
    if needed is None:
        complaint = "its schedule is neither OffPolicySchedule nor OnPolicySchedule"
    elif not (isinstance(config, type) and issubclass(config, needed)):
        complaint = f"its config is no class that extends {needed.__name__}, as its schedule needs"
    elif not all(map(callable, functions)):
        complaint = "build and presets must be functions"
    else:
        complaint = _complaint_of_fields(entry)
    if complaint:
        raise ValueError(f"algorithm {entry.name!r}: {complaint}")


def _complaint_of_fields(entry: Entry) -> str:
    """What is wrong with the names and defaults of its settings, if anything."""
    if "__dataclass_fields__" not in vars(entry.config):  # its new fields would be none
        return f"{entry.config.__name__} is no dataclass itself; write @dataclass(frozen=True)"
    own = fields(entry.config)
    bare = [f.name for f in own if f.default is MISSING and f.default_factory is MISSING]
    schedules: list[type] = [entry.schedule]
    if entry.schedule is OffPolicySchedule:
        schedules.append(SemiBatchSchedule)
    taken = sorted({f.name for f in own} & (RESERVED | SWEPT | field_names(*schedules)))
    if bare:
        return f"its settings {', '.join(bare)} have no default"
    if taken:
        return f"its settings {', '.join(taken)} have names that every run uses otherwise"
    try:
        default = checked(entry.config())
        stored = checked(entry.config(), **json.loads(to_json(asdict(default))))
    except Exception as error:  # of types that are no types, and whatever their code does
        said = " ".join(f"{type(error).__name__}: {error}".split())
        return f"its settings' defaults cannot be used ({said})"
    return "" if stored == default else "its settings' defaults change when they are stored as JSON"
