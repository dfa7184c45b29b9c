"""The navigation tasks, of the robots, courses and forms that `PAIRS` names."""

from functools import partial
from typing import Any

import gymnasium

from prudent.settings.run import Constraint
from prudent.tasks.navigation import GYMNASIUM_ID, HORIZON, PAIRS
from prudent.tasks.navigation.courses import COURSES
from prudent.tasks.task import Task

BUDGET = Constraint(10.0, discounted=False)
# What a form asks of the environment, and how it is described.
FORMS: dict[str, tuple[dict[str, Any], str]] = {
    "": ({"layout": "fixed", "variant": "paper"}, "fixed layout"),
    "-random": ({"layout": "random", "variant": "paper"}, "random layout of the same things"),
    "-stock": (
        {"layout": "random", "variant": "stock"},
        "random layout, Safety-Gym's counts, sizes and time step",
    ),
}


def navigation_task(robot: str, course: str, form: str) -> Task:
    options, layout = FORMS[form]
    variant = COURSES.get(course, {}).get(options["variant"])
    if variant is None:
        raise ValueError(f"PAIRS has {robot}-{course}{form}, and courses.py no such course")
    return Task(
        name=f"{robot}-{course}{form}",
        make=partial(gymnasium.make, GYMNASIUM_ID.format(robot.title(), course.title()), **options),
        horizon=HORIZON,
        constraint=BUDGET,
        summary=f"{variant.goal.purpose}; {layout}",
        deterministic_reset=options["layout"] == "fixed",
        family="navigation",
        variant_of=f"{robot}-{course}",
        cost_range=(0.0, 1.0),
    )


NAVIGATION_TASKS: dict[str, Task] = {
    task.name: task
    for (robot, course), forms in PAIRS.items()
    for task in (navigation_task(robot, course, form) for form in forms)
}
