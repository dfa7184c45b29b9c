"""Safe reinforcement learning: most reward, with a cost kept under a limit."""

from prudent.api import Result, evaluate, load, resume, train
from prudent.constraints import Constraint
from prudent.tasks import TASKS

__version__ = "0.1.0"
__all__ = ["TASKS", "Constraint", "Result", "evaluate", "load", "resume", "train"]
