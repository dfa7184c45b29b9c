"""From an algorithm, a task, a preset and the user's values to the settings of a run."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from prudent.algorithms.entry import Entry
from prudent.settings.checks import Values, checked, field_names
from prudent.settings.registration import NAME
from prudent.settings.run import Run, checked_run
from prudent.settings.schedules import OffPolicySchedule, Schedule, SemiBatchSchedule, settled
from prudent.tasks import TASKS
from prudent.tasks.task import Task, step_range


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


def make_run(algorithm: str, task: Task, preset: str, seed: int, chosen: Settings) -> Run:
    """Refuses a budget that no policy could keep, by what a step can cost."""
    bounds, limit = step_range(task), task.constraint
    lowest, _ = limit.of_episode(bounds, chosen.config.cost_discount, task.horizon)
    if limit.budget < lowest:
        raise ValueError(
            f"{task.name}: the budget is {limit.budget:g}, but a step costs {bounds[0]:g} to "
            f"{bounds[1]:g}, so that no episode costs less than {lowest:g}"
        )
    least, largest = (bound if math.isfinite(bound) else None for bound in bounds)
    # A task's own range is stored where a setting makes use of it, another one always.
    used = getattr(chosen.config, "cost_bounds", "none") == "task"
    own = TASKS[task.name].cost_range if task.name in TASKS else None
    return checked_run(
        Run(
            algorithm=algorithm,
            task=task.name,
            preset=preset,
            seed=seed,
            config=chosen.config,
            schedule=chosen.schedule,
            budget=limit.budget,
            discounted=limit.discounted,
            horizon=task.horizon,
            cost_source=task.cost_source,
            least_cost=least if used else None,
            largest_cost=largest if used else None,
            cost_range=None if task.cost_range in (None, own) else (least, largest),
        )
    )
