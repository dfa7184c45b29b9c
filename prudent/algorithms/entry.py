"""What an algorithm says of itself, and settings by preset."""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any, NamedTuple

from prudent.files import to_json
from prudent.settings.checks import Values, checked, field_names
from prudent.settings.configs import (
    OffPolicyConfig,
    OffPolicySchedule,
    OnPolicyConfig,
    OnPolicySchedule,
    Schedule,
    SemiBatchSchedule,
    settled,
)
from prudent.settings.registration import NAME
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


class Settings(NamedTuple):
    config: Any
    schedule: Schedule


def preset_named(entry: Entry, task: Task, preset: str | None) -> str:
    """The preset that is meant, which the algorithm must have for this task."""
    usable = entry.presets(task)
    if not isinstance(usable, Mapping) or not usable:
        raise ValueError(
            f"{entry.name} has no preset for task {task.name}: its presets are {usable!r}, a dict "
            "of at least one is needed"
        )
    if preset is None:
        preset = next(iter(usable))
    if not isinstance(preset, str) or not NAME.fullmatch(preset):
        raise ValueError(
            f"preset {preset!r} of {entry.name}: it becomes part of a folder's name; letters, "
            "digits, '-', '_' and '.' are needed, the first a letter or digit"
        )
    if preset not in usable:
        raise ValueError(
            f"no preset {preset!r} for task {task.name}; {entry.name} has: {', '.join(usable)}"
        )
    return preset


def settings(entry: Entry, task: Task, preset: str | None = None) -> Settings:
    """The algorithm's settings for a task, before the user's own values."""
    values = entry.presets(task)[preset_named(entry, task, preset)]
    return with_values(Settings(entry.config(), entry.schedule()), values)


def in_deployments(entry: Entry, task: Task, preset: str | None = None) -> Settings:
    """The same for a run in deployments, before the user's own values."""
    config, schedule = settings(entry, task, preset)
    if not isinstance(schedule, OffPolicySchedule):
        raise ValueError(
            f"{entry.name} learns from its newest policy's steps only, which deploys and learns "
            f"already: `prudent train {entry.name} --epoch-steps` is the length of a deployment"
        )
    shared = {name: getattr(schedule, name) for name in SHARED}
    return Settings(config, SemiBatchSchedule(**shared))


def resolved(entry: Entry, task: Task, preset: str, values: Values) -> Settings:
    """The settings with the user's values; in deployments where their number is among these."""
    if "deployments" not in values:
        return with_values(settings(entry, task, preset), values)
    chosen = with_values(in_deployments(entry, task, preset), values)
    return with_updates(chosen, entry, task, preset)


SHARED = ("target_steps", "batch_size", "replay_capacity", "timeout_is_terminal")


def with_updates(chosen: Settings, entry: Entry, task: Task, preset: str) -> Settings:
    """With the number of updates that the preset makes in as many steps, unless one is given."""
    usual = settings(entry, task, preset).schedule
    assert isinstance(chosen.schedule, SemiBatchSchedule)
    assert isinstance(usual, OffPolicySchedule)
    return Settings(chosen.config, settled(chosen.schedule, usual))


def with_values(before: Settings, values: Values) -> Settings:
    """Each value in the dataclass that has a field of its name."""
    config, schedule = (field_names(part) for part in before)
    unknown = sorted(values.keys() - config - schedule)
    if unknown:
        known = ", ".join(sorted(config | schedule))
        raise ValueError(f"no setting named {', '.join(unknown)}; there is: {known}")
    return Settings(
        checked(before.config, **{k: v for k, v in values.items() if k in config}),
        checked(before.schedule, **{k: v for k, v in values.items() if k in schedule}),
    )
