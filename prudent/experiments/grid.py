"""Grids: which runs an experiment is made of, as data.

GRID = Grid(
    tasks=("hopper-velocity",),
    algorithms=(Variant("sac-lag"), *over("ucb", conservatism=(0.5, 1.0, 2.0))),
    seeds=range(3),
)
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple

from prudent.algorithms import find_algorithm
from prudent.algorithms.entry import Entry, Settings, preset_named, settings, with_values
from prudent.api import make_run
from prudent.configs import Run, SemiBatchSchedule
from prudent.settings import field_names
from prudent.tasks import TASKS
from prudent.tasks.task import Task

# Not every algorithm has every preset on every task: the first of these that it has is taken.
PRESETS: Mapping[str, tuple[str, ...]] = {
    "paper": ("paper", "default"),
    "head": ("head", "matched", "paper", "default"),
    "million": ("million", "default"),
}

NAVIGATION = ("point-button1", "point-button2", "car-button1", "car-button2", "point-push1")
VELOCITY = ("ant-velocity", "halfcheetah-velocity", "hopper-velocity", "humanoid-velocity")


class Variant(NamedTuple):
    """An algorithm with settings of its own; other values are its preset's."""

    algorithm: str
    values: Mapping[str, Any] = MappingProxyType({})
    preset: str | None = None  # by default the grid's


def named(variant: Variant, variants: Sequence[Variant]) -> str:
    """The variant in words, without the values that all of them have alike."""
    alike = [
        name
        for name, value in variant.values.items()
        if all(name in other.values and other.values[name] == value for other in variants)
    ]
    told = [f"{n}={shown(v)}" for n, v in variant.values.items() if n not in alike]
    return " ".join([variant.algorithm, *told])


def shown(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ",".join(map(shown, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Grid:
    """Every algorithm on every task with every seed."""

    tasks: Sequence[str]
    algorithms: Sequence[Variant | str]
    seeds: Sequence[int] = tuple(range(6))
    steps: int | None = None
    """Environment steps of every run (default: those of its preset)."""
    preset: str = "paper"


class Planned(NamedTuple):
    run: Run
    variant: str  # what tells it from the grid's others, in words


def over(algorithm: str, **axes: Iterable[Any]) -> tuple[Variant, ...]:
    """The algorithm with every combination of these values."""
    return tuple(
        Variant(algorithm, dict(zip(axes, values, strict=True)))
        for values in product(*(tuple(axis) for axis in axes.values()))
    )


def expand(grid: Grid, scale: float = 1.0) -> list[Planned]:
    """The grid's runs, task by task; those that come to the same settings once."""
    for name, values in (("tasks", grid.tasks), ("algorithms", grid.algorithms)):
        if not values:
            raise ValueError(f"the grid has no {name}")
    variants = [Variant(v) if isinstance(v, str) else v for v in grid.algorithms]
    found: dict[Run, Planned] = {}
    for name, variant, seed in product(grid.tasks, variants, grid.seeds):
        run = planned_run(grid, known_task(name), variant, seed, scale)
        found.setdefault(nameless(run), Planned(run, named(variant, variants)))
    if not found:
        raise ValueError("the grid has no seeds")
    return list(found.values())


def nameless(run: Run) -> Run:
    """Without the name of its preset, which decides nothing: equal if they compute the same."""
    return replace(run, preset="")


def known_task(name: str) -> Task:
    if name not in TASKS:
        raise ValueError(f"no task {name!r}; `prudent list` shows them")
    return TASKS[name]


def planned_run(grid: Grid, task: Task, variant: Variant, seed: int, scale: float) -> Run:
    entry = find_algorithm(variant.algorithm)
    preset = fitting_preset(entry, task, variant.preset or grid.preset)
    check_known(entry, variant.values)
    chosen = with_values(settings(entry, task, preset), variant.values)
    if grid.steps is not None:
        chosen = with_values(chosen, {"steps": grid.steps})
    return make_run(entry.name, task, preset, seed, shrunk(chosen, scale))


def fitting_preset(entry: Entry, task: Task, wanted: str) -> str:
    usable = entry.presets(task)
    return preset_named(
        entry, task, next((p for p in PRESETS.get(wanted, ()) if p in usable), wanted)
    )


def check_known(entry: Entry, values: Mapping[str, Any]) -> None:
    for name in values:
        if name not in field_names(entry.config, entry.schedule):
            raise ValueError(f"{entry.name} has no setting {name!r}")


def shrunk(chosen: Settings, scale: float) -> Settings:
    """Fewer steps: a whole number of evaluation intervals, and one at least. All else stays:
    warm-up, and how often the run is evaluated and saved.
    """
    schedule = chosen.schedule
    if scale == 1.0 or isinstance(schedule, SemiBatchSchedule):  # which no grid has
        return chosen
    every = math.lcm(schedule.evaluate_every, getattr(schedule, "environments", 1))
    steps = every * max(1, round(scale * schedule.steps / every))
    return with_values(chosen, {"steps": min(schedule.steps, steps)})


def select(
    grid: Grid,
    *,
    tasks: Sequence[str] = (),
    algorithms: Sequence[str] = (),
    seeds: Sequence[int] = (),
    preset: str | None = None,
) -> Grid:
    """The grid on these tasks and seeds instead of its own, and of its algorithms only these."""
    kept = [v for v in grid.algorithms if not algorithms or name_of(v) in algorithms]
    unknown = [name for name in algorithms if name not in map(name_of, grid.algorithms)]
    if unknown:
        there = ", ".join(dict.fromkeys(map(name_of, grid.algorithms)))
        raise ValueError(f"the grid has no algorithm {', '.join(unknown)}; it has: {there}")
    return replace(
        grid,
        tasks=tuple(tasks) or grid.tasks,
        algorithms=tuple(kept),
        seeds=tuple(seeds) or grid.seeds,
        preset=preset or grid.preset,
    )


def name_of(variant: Variant | str) -> str:
    return variant if isinstance(variant, str) else variant.algorithm
