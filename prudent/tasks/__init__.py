"""The tasks by name: ours, in the list below, and those that others register."""

from typing import Any

import gymnasium

from prudent.settings.registration import OURS, Registry
from prudent.tasks.navigation import NAVIGATION_TASKS
from prudent.tasks.orbit import ORBIT
from prudent.tasks.skid import SKID_TASKS
from prudent.tasks.task import Task, check_task
from prudent.tasks.velocity import VELOCITY_TASKS
from prudent_bidding.task import BIDDING


def _check(task: Any) -> None:
    check_task(task)
    if task.variant_of not in (None, task.name) and task.variant_of not in TASKS:
        raise ValueError(
            f"task {task.name!r}: it is a variant of {task.variant_of!r}, which is no task here; "
            "register that first"
        )


TASKS: Registry[Task] = Registry(
    "task", "prudent.tasks", _check, {"a Gymnasium environment": gymnasium.registry}
)
for _task in (ORBIT, *SKID_TASKS, *VELOCITY_TASKS, *NAVIGATION_TASKS, BIDDING):
    TASKS.register(_task, OURS)


def register_task(task: Task, *, replace: bool = False) -> Task:
    """Make a task of your own known by its name, in this process.

    It can then be named wherever one of ours can. `replace` and other processes are as with
    `register_algorithm`; the group of entry points is `prudent.tasks`.
    """
    return TASKS.register(task, replace=replace)
