"""Numbers that are not finite stop a run."""

import math
from typing import Any

import numpy as np

from prudent.runs.checkpoint import named_leaves
from prudent.training.session import Session


class NonFinite(RuntimeError):
    """A NaN or an infinity, and where it appeared."""


def all_finite(numbers: np.ndarray | float) -> bool:
    # A product is quicker; it is not finite if any number is not, or if they are very large.
    return math.isfinite(np.vdot(numbers, numbers)) or bool(np.isfinite(numbers).all())


def check_finite(session: Session[Any], **quantities: np.ndarray | float) -> None:
    for name, value in quantities.items():
        if not all_finite(value):
            stop_as_non_finite(session, f"the environment's {name}")


def check_metrics(session: Session[Any], values: np.ndarray) -> None:
    names = session.learner.metric_names
    if not np.isfinite(values).all():
        wrong = [n for n, v in zip(names, values, strict=True) if not math.isfinite(v)]
        stop_as_non_finite(session, f"the learner's {', '.join(wrong)}")


def state_arrays(session: Session[Any]) -> dict[str, np.ndarray]:
    """The learner's state for a checkpoint, which must not keep a number that is not finite."""
    leaves = {name: np.asarray(leaf) for name, leaf in named_leaves(session.state).items()}
    for name, leaf in leaves.items():
        if not np.isfinite(leaf).all():
            stop_as_non_finite(session, f"the learner's state ({name})")
    return {f"state/{name}": leaf for name, leaf in leaves.items()}


def stop_as_non_finite(session: Session[Any], quantity: str) -> None:
    where = "none was written yet"
    if session.last_checkpoint is not None:
        where = f"checkpoint at step {session.last_checkpoint} in {session.folder}"
    raise NonFinite(
        f"step {session.step}: {quantity} is not finite. Training stopped; the records are kept. "
        f"Last good checkpoint: {where}."
    )
