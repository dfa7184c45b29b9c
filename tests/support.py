"""Small runs for tests."""

import json
import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from prudent.algorithms import ALGORITHMS, resolve
from prudent.algorithms.cal import CALConfig
from prudent.algorithms.resolve import make_run
from prudent.runs.folder import read_run, write_initial, write_run
from prudent.settings.schedules import OffPolicySchedule, OnPolicySchedule
from prudent.tasks import TASKS
from prudent.tasks.finding import unknown_task
from prudent.training.collecting import open_off_policy
from prudent.training.reporter import Reporter
from prudent.training.run import prepare, prepare_again, record_facts, train
from prudent.training.session import Prepared

ON_POLICY = [name for name, e in ALGORITHMS.items() if e.schedule is OnPolicySchedule]
CONFIG = CALConfig(hidden=(16, 16))
SCHEDULE = OffPolicySchedule(
    steps=60,
    warmup_steps=40,
    updates_per_step=2,
    batch_size=8,
    replay_capacity=70,
    evaluate_every=20,
    evaluation_episodes=2,
    checkpoint_every=10,
    snapshot_every=30,
)

# Where tests run in the background of a shell, interrupts are ignored unless a process wants them.
INTERRUPTIBLE = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from prudent.__main__ import main; main()"
)


def small_run(task, algorithm="cal", seed=0, config=None, **schedule):
    if config is None:
        config = ALGORITHMS[algorithm].config(hidden=CONFIG.hidden)
    chosen = resolve.Settings(config, replace(SCHEDULE, **schedule))
    return make_run(algorithm, task, "default", seed, chosen)


def settings(algorithm, preset, task):
    """What a preset means for a task, which may be none of ours."""
    return resolve.settings(ALGORITHMS[algorithm], TASKS.get(task) or unknown_task(task), preset)


def build(algorithm, config, spec):
    return ALGORITHMS[algorithm].build(config, spec)


def begun(run, task, folder: Path, warmup=None):
    """The folder and the parts of a run that begins there, or goes on with what began there."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "run.json").exists():
        stored = read_run(folder)
        return stored, prepare_again(stored, task, warmup=warmup)
    parts = prepare(run, task, warmup)
    stored = write_run(folder, parts.run, record_facts(parts))
    if parts.initial:
        write_initial(folder, parts.initial)
    return stored, parts


def prepared(run, task, folder: Path, warmup=None, callbacks=()) -> Prepared:
    stored, parts = begun(run, task, folder, warmup)
    ready = Prepared(stored, parts, Reporter(quiet=True), callbacks)
    ready.closing.callback(parts.environment.close)
    return ready


def open_quietly(run, task, folder: Path, warmup=None):
    return open_off_policy(prepared(run, task, folder, warmup))


def train_quietly(run, task, folder: Path, warmup=None, callbacks=()):
    return train(*begun(run, task, folder, warmup), Reporter(quiet=True), callbacks)


def timeless(value):
    """Without what depends on the clock."""
    if not isinstance(value, dict):
        return value
    kept = {k: v for k, v in value.items() if not k.endswith(("_seconds", "_per_second"))}
    return {k: timeless(v) for k, v in kept.items()}


def lines(path: Path) -> list[str]:
    return [json.dumps(timeless(json.loads(line))) for line in path.read_text().splitlines()]


def need_ray() -> None:
    """Skip what needs Ray where there is none, but not where it must be tested."""
    if find_spec("ray") is None:
        if os.environ.get("PRUDENT_REQUIRE_RAY"):
            pytest.fail("Ray is not installed, and must be tested with here")
        pytest.skip("Ray is not installed")
