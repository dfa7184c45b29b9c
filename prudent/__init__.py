"""Safe reinforcement learning: most reward, with a cost kept under a limit."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prudent.api import Result, evaluate, export, load, resume, semi_batch, train
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
    "semi_batch",
    "train",
]

# Imported when first asked for: a service that only runs an exported policy needs no Gymnasium.
_HOMES = {
    "TASKS": "prudent.tasks",
    "Constraint": "prudent.constraints",
    "load_exported": "prudent.exported",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'prudent' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "prudent.api")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
