"""The tasks by name: ours, in the table below, and those that others register."""

from typing import Any

import gymnasium

from prudent.settings.registration import Home, Registry
from prudent.tasks import navigation
from prudent.tasks.task import Task, check_task

OURS = {  # by name, where it stands
    "orbit": Home("prudent.tasks.orbit:ORBIT"),
    "skid": Home("prudent.tasks.skid:SKID_TASK"),
    "stall": Home("prudent.tasks.skid:STALL_TASK"),
    **{
        f"{body}-velocity": Home("prudent.tasks.velocity:VELOCITY_TASKS")
        for body in ("hopper", "halfcheetah", "ant", "humanoid", "walker2d", "swimmer")
    },
    **dict.fromkeys(navigation.NAMES, Home("prudent.tasks.navigation.tasks:NAVIGATION_TASKS")),
}


def _check(task: Any) -> None:
    check_task(task)
    if task.variant_of not in (None, task.name) and task.variant_of not in TASKS:
        raise ValueError(
            f"task {task.name!r}: it is a variant of {task.variant_of!r}, which is no task here; "
            "register that first"
        )


TASKS: Registry[Task] = Registry(
    "task", "prudent.tasks", _check, OURS, others={"a Gymnasium environment": gymnasium.registry}
)


def register_task(task: Task, *, replace: bool = False) -> Task:
    """Make a task of your own known by its name, in this process.

    It can then be named wherever one of ours can. `replace` and other processes are as with
    `register_algorithm`; the group of entry points is `prudent.tasks`.
    """
    return TASKS.register(task, replace=replace)
