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
    check_budget_possible(task, chosen.config.cost_discount)
    least, largest = used_cost_range(task, chosen.config)
    return checked_run(
        Run(
            algorithm=algorithm,
            task=task.name,
            preset=preset,
            seed=seed,
            config=chosen.config,
            schedule=chosen.schedule,
            budget=task.constraint.budget,
            discounted=task.constraint.discounted,
            horizon=task.horizon,
            cost_source=task.cost_source,
            least_cost=least,
            largest_cost=largest,
            cost_range=given_cost_range(task),
        )
    )


def check_budget_possible(task: Task, discount: float) -> None:
    """That some policy could keep the budget, by what a step can cost."""
    least, largest = step_range(task)
    lowest, _ = task.constraint.of_episode((least, largest), discount, task.horizon)
    if task.constraint.budget < lowest:
        raise ValueError(
            f"{task.name}: the budget is {task.constraint.budget:g}, but a step costs {least:g} to "
            f"{largest:g}, so that no episode costs less than {lowest:g}"
        )


def used_cost_range(task: Task, config: Any) -> tuple[float | None, float | None]:
    """The finite ones of the task's bounds, where a setting makes use of them."""
    if getattr(config, "cost_bounds", "none") != "task":
        return None, None
    return finite_only(step_range(task))


def given_cost_range(task: Task) -> tuple[float | None, float | None] | None:
    """The range of a step's cost where it is not the task's own, to be stored with the run."""
    own = TASKS[task.name].cost_range if task.name in TASKS else None
    return None if task.cost_range in (None, own) else finite_only(step_range(task))


def finite_only(bounds: tuple[float, float]) -> tuple[float | None, float | None]:
    least, largest = (bound if math.isfinite(bound) else None for bound in bounds)
    return least, largest
