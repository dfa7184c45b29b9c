"""The task that learners are measured on."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prudent.api import make_run
from prudent.experiments.presets import BASELINES, settings
from prudent.tasks import TASKS
from prudent.training.reporter import Reporter
from prudent.training.session import Session, Warmup, open_session

OBSERVATION, ACTION, BUDGET = 11, 3, 82.748  # sizes, and what its critics' cost may be
TASK = TASKS["hopper-velocity"]


def hopper_config(algorithm: str) -> Any:
    """An off-policy learner's, with the sizes that CAL has."""
    return hopper_settings(algorithm)[0]


def hopper_settings(algorithm: str) -> tuple[Any, Any]:
    return settings(algorithm, "default" if algorithm in BASELINES else "head", TASK.name)


@contextmanager
def hopper_session(algorithm: str) -> Iterator[Session]:
    """An off-policy run before its first step, in a folder that goes with it."""
    run = make_run(algorithm, TASK, "bench", 0, *hopper_settings(algorithm))
    with tempfile.TemporaryDirectory() as folder:
        yield open_session(run, TASK, Path(folder), Reporter(quiet=True), Warmup())
