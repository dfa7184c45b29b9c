"""Safe reinforcement learning: most reward, with a cost kept under a limit."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prudent.agent import Agent, Result, resume, semi_batch, train
    from prudent.algorithms import ALGORITHMS, register_algorithm
    from prudent.algorithms.entry import Entry
    from prudent.api import evaluate, export, load
    from prudent.certification import certify
    from prudent.policies.exported import load_exported
    from prudent.settings.run import Constraint
    from prudent.tasks import TASKS, register_task
    from prudent.tasks.task import Task

__version__ = "0.5.0"
__all__ = [
    "ALGORITHMS",
    "TASKS",
    "Agent",
    "Constraint",
    "Entry",
    "Result",
    "Task",
    "certify",
    "evaluate",
    "export",
    "load",
    "load_exported",
    "register_algorithm",
    "register_task",
    "resume",
    "semi_batch",
    "train",
]

# Imported when first asked for: a service that only runs an exported policy needs no Gymnasium.
_HOMES = {
    "ALGORITHMS": "prudent.algorithms",
    **dict.fromkeys(("Agent", "Result", "resume", "semi_batch", "train"), "prudent.agent"),
    "TASKS": "prudent.tasks",
    "Constraint": "prudent.settings.run",
    "certify": "prudent.certification",
    "Entry": "prudent.algorithms.entry",
    "Task": "prudent.tasks.task",
    "load_exported": "prudent.policies.exported",
    "register_algorithm": "prudent.algorithms",
    "register_task": "prudent.tasks",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'prudent' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "prudent.api")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
