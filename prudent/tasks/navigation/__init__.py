"""Navigation among hazards: the Safety-Gym tasks as modified for CVPO and CAL, on modern MuJoCo.

Each task comes in three forms, told apart by their names: `point-button1` with the fixed layout of
the paper, `point-button1-random` with the same things anywhere, and `point-button1-stock` with
the counts, sizes and time step of Safety-Gym as released, anywhere as well.

MuJoCo is imported when the first environment is made, so that listing tasks stays quick.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium

from prudent.settings.constraint import Constraint
from prudent.tasks.navigation.courses import COURSES
from prudent.tasks.task import Task

HORIZON = 400
BUDGET = Constraint(10.0, discounted=False)

# Which robot plays which course of `courses.py`; each pair becomes up to three tasks.
PAIRS = (
    ("point", "button1"),
    ("point", "button2"),
    ("car", "button1"),
    ("car", "button2"),
    ("point", "push1"),
    ("point", "goal1"),
    ("car", "goal1"),
)
# How a name ends, what that asks of the environment, and how it is described.
FORMS: dict[str, tuple[dict[str, Any], str]] = {
    "": ({"layout": "fixed", "variant": "paper"}, "fixed layout"),
    "-random": ({"layout": "random", "variant": "paper"}, "random layout of the same things"),
    "-stock": (
        {"layout": "random", "variant": "stock"},
        "random layout, Safety-Gym's counts, sizes and time step",
    ),
}


def gymnasium_id(robot: str, course: str) -> str:
    return f"Prudent/{robot.capitalize()}{course.capitalize()}-v0"


def _register(robot: str, course: str) -> None:
    gymnasium.register(
        gymnasium_id(robot, course),
        entry_point="prudent.tasks.navigation.environment:NavigationEnv",
        kwargs={"robot": robot, "course": course},
        max_episode_steps=HORIZON,
        # The environment checks actions itself and is ready from the start; Gymnasium's wrappers
        # for both would cost a good part of the speed.
        disable_env_checker=True,
        order_enforce=False,
    )


def _tasks(robot: str, course: str) -> Iterator[Task]:
    """One for each form that the course has a variant for."""
    if course not in COURSES:
        raise ValueError(
            f"no course {course!r} for the {robot} in PAIRS; courses.py has: {', '.join(COURSES)}"
        )
    for form, (options, layout) in FORMS.items():
        variant = COURSES[course].get(options["variant"])
        if variant is None:
            continue
        yield Task(
            name=f"{robot}-{course}{form}",
            make=partial(gymnasium.make, gymnasium_id(robot, course), **options),
            horizon=HORIZON,
            constraint=BUDGET,
            summary=f"{variant.goal.purpose}; {layout}",
            deterministic_reset=options["layout"] == "fixed",
            family="navigation",
            variant_of=f"{robot}-{course}",
            cost_range=(0.0, 1.0),
        )


for _robot, _course in PAIRS:
    _register(_robot, _course)

NAVIGATION_TASKS: tuple[Task, ...] = tuple(
    task for robot, course in PAIRS for task in _tasks(robot, course)
)
