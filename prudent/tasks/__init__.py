"""The tasks by name."""

from prudent.tasks.bidding import BIDDING
from prudent.tasks.navigation import NAVIGATION_TASKS
from prudent.tasks.orbit import ORBIT
from prudent.tasks.skid import SKID_TASKS
from prudent.tasks.task import Task
from prudent.tasks.velocity import VELOCITY_TASKS

TASKS: dict[str, Task] = {
    task.name: task for task in (ORBIT, *SKID_TASKS, *VELOCITY_TASKS, *NAVIGATION_TASKS, BIDDING)
}
