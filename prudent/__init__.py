"""Safe reinforcement learning: most reward, with a cost kept under a limit."""

from prudent.api import Result, evaluate, export, load, resume, train
from prudent.constraints import Constraint
from prudent.exported import load_exported
from prudent.tasks import TASKS

__version__ = "0.1.0"
__all__ = [
    "TASKS",
    "Constraint",
    "Result",
    "evaluate",
    "export",
    "load",
    "load_exported",
    "resume",
    "train",
]
