"""The task that learners are measured on."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from prudent.algorithms import ALGORITHMS
from prudent.algorithms.resolve import Settings, make_run, settings
from prudent.runs.folder import write_run
from prudent.settings.run import Run
from prudent.tasks import TASKS
from prudent.training.collecting import OffPolicySession, open_off_policy
from prudent.training.reporter import Reporter
from prudent.training.run import prepare, record_facts
from prudent.training.session import Prepared

OBSERVATION, ACTION, BUDGET = 11, 3, 82.748  # sizes, and what its critics' cost may be
TASK = TASKS["hopper-velocity"]


def hopper_config(algorithm: str) -> Any:
    """An off-policy learner's, with the sizes that CAL has."""
    return hopper_settings(algorithm).config


def hopper_settings(algorithm: str) -> Settings:
    """CAL's `head`; of the others what they are for an environment of one's own."""
    entry = ALGORITHMS[algorithm]
    if "head" in entry.presets(TASK):
        return settings(entry, TASK, "head")
    task = replace(TASK, family="other")
    return settings(entry, task, "default" if "default" in entry.presets(task) else None)


@contextmanager
def hopper_session(algorithm: str) -> Iterator[OffPolicySession]:
    """An off-policy run before its first step, in a folder that goes with it."""
    run = make_run(algorithm, TASK, "bench", 0, hopper_settings(algorithm))
    with prepared_run(run) as prepared:
        yield open_off_policy(prepared)


@contextmanager
def prepared_run(run: Run) -> Iterator[Prepared]:
    """A run before its first step, in a folder that goes with it."""
    with tempfile.TemporaryDirectory() as name:
        parts = prepare(run, TASK)
        folder = write_run(Path(name), parts.run, record_facts(parts))
        prepared = Prepared(folder, parts, Reporter(quiet=True))
        with prepared.closing:
            prepared.closing.callback(parts.environment.close)
            yield prepared
