"""Small runs for tests."""

import json
from dataclasses import replace
from pathlib import Path

from prudent.algorithms import ALGORITHMS
from prudent.api import make_run
from prudent.configs import CALConfig, OffPolicySchedule
from prudent.experiments.presets import VARIANTS
from prudent.training.off_policy import train
from prudent.training.reporter import Reporter
from prudent.training.session import Warmup

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


def small_run(task, algorithm="cal", seed=0, config=None, **schedule):
    if config is None and algorithm in VARIANTS:
        config = replace(CONFIG, **VARIANTS[algorithm])
    elif config is None:
        config = ALGORITHMS[algorithm].config(hidden=CONFIG.hidden)
    return make_run(algorithm, task, "default", seed, config, replace(SCHEDULE, **schedule))


def train_quietly(run, task, folder: Path, warmup=None):
    folder.mkdir(parents=True, exist_ok=True)
    return train(run, task, folder, Reporter(quiet=True), warmup or Warmup())


def timeless(value):
    """Without what depends on the clock."""
    if not isinstance(value, dict):
        return value
    kept = {k: v for k, v in value.items() if not k.endswith(("_seconds", "_per_second"))}
    return {k: timeless(v) for k, v in kept.items()}


def lines(path: Path) -> list[str]:
    return [json.dumps(timeless(json.loads(line))) for line in path.read_text().splitlines()]
