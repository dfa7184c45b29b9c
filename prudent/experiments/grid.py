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
from importlib import util
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from prudent.algorithms import ALGORITHMS, find_algorithm
from prudent.algorithms.entry import Entry
from prudent.algorithms.resolve import Settings, make_run, preset_named, settings, with_values
from prudent.settings.checks import field_names
from prudent.settings.run import Run
from prudent.settings.schedules import SemiBatchSchedule
from prudent.tasks import TASKS
from prudent.tasks.finding import find_task
from prudent.tasks.task import Task

# Not every algorithm has every preset on every task: the first of these that it has is taken.
PRESETS: Mapping[str, tuple[str, ...]] = {
    "paper": ("paper", "default"),
    "head": ("head", "matched", "paper", "default"),
    "million": ("million", "default"),
}


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


class Problem(NamedTuple):
    """What `prudent train` takes for a task: one of ours, perhaps with limits of its own, or an
    environment and its limits.
    """

    name: str  # a task, a Gymnasium id, `module:callable` or `module:id`
    budget: float | None = None
    horizon: int | None = None
    discounted: bool | None = None
    cost: str | None = None  # the entry of `info` that is the cost
    negative_costs: bool = False
    cost_range: tuple[float, float] | None = None  # of a step


@dataclass(frozen=True)
class Grid:
    """Every algorithm on every task with every seed."""

    tasks: Sequence[str | Problem]
    algorithms: Sequence[Variant | str]
    seeds: Sequence[int] = tuple(range(6))
    steps: int | None = None
    """Environment steps of every run that has none of its own (default: those of its preset)."""
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
    tasks = [find_problem(Problem(t) if isinstance(t, str) else t) for t in grid.tasks]
    planned: dict[Run, Planned] = {}
    for task, variant, seed in product(tasks, variants, grid.seeds):
        run = planned_run(grid, task, variant, seed, scale)
        planned.setdefault(nameless(run), Planned(run, named(variant, variants)))
    if not planned:
        raise ValueError("the grid has no seeds")
    return list(planned.values())


def nameless(run: Run) -> Run:
    """Without the name of its preset, which decides nothing: equal if they compute the same."""
    return replace(run, preset="")


def find_problem(problem: Problem) -> Task:
    """By names only: the processes of the runs have to find it too."""
    name, cost = problem.name, problem.cost
    if not isinstance(name, str) or not isinstance(cost, str | None):
        raise ValueError(
            f"{name!r}: a grid's runs have processes of their own, which find an environment by "
            "its name (module:callable) and a cost by its key in info"
        )
    if name in TASKS:
        TASKS.check_installed(name)
    return find_task(**problem._asdict())


def planned_run(grid: Grid, task: Task, variant: Variant, seed: int, scale: float) -> Run:
    entry = find_algorithm(variant.algorithm)
    ALGORITHMS.check_installed(entry.name)
    preset = fitting_preset(entry, task, variant.preset or grid.preset)
    check_known(entry, variant.values)
    values = variant.values if grid.steps is None else {"steps": grid.steps, **variant.values}
    chosen = with_values(settings(entry, task, preset), values)
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
    tasks: Sequence[str | Problem] = (),
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


def grid_in(path: Path) -> Grid:
    """The user's own file, which the user named: it is run."""
    spec = util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"{path} is no Python file")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    grid = getattr(module, "GRID", None)
    if not isinstance(grid, Grid):
        raise ValueError(f"{path} has no GRID = Grid(...) (from prudent.experiments.grid)")
    return grid
