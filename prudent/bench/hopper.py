"""The task that learners are measured on."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from prudent.algorithms import ALGORITHMS
from prudent.algorithms.resolve import Settings, make_run, settings
from prudent.runs.stored import mark_of
from prudent.settings.run import Run
from prudent.tasks import TASKS
from prudent.training.replay_collector import OffPolicySession, Warmup, open_off_policy
from prudent.training.reporter import Reporter
from prudent.training.session import Place, close_session

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
    with a_place(run) as place:
        session = open_off_policy(place, Warmup())
        yield session
        close_session(session)


@contextmanager
def a_place(run: Run) -> Iterator[Place]:
    with tempfile.TemporaryDirectory() as folder:
        yield Place(
            run, TASK, Path(folder), mark_of(run.identity(), run.seed), Reporter(quiet=True)
        )
