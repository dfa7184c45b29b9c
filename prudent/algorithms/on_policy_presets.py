"""Presets of the on-policy algorithms.

`paper` are the values of the public code that the paper took these algorithms from, the same for
every task, so that `paper` and `default` are one. They are meant for ten million steps; `million`
updates every 2048 steps, as the same code prescribes for one million.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from prudent.algorithms.entry import Entry
from prudent.settings.checks import Values
from prudent.settings.schedules import OnPolicySchedule
from prudent.tasks.task import Task

MILLION: Values = {
    "steps": 1_000_000,
    "epoch_steps": 2_048,
    "evaluate_every": 20_000,
    "snapshot_every": 100_000,
}
ORBIT: Values = {
    "discount": 0.95,
    "cost_discount": 0.95,
    "steps": 200_000,
    "epoch_steps": 4_000,
    "evaluate_every": 20_000,
    "checkpoint_every": 4_000,
    "snapshot_every": 50_000,
}
# Rewards and costs are brought to scale.
NORMALISED: Values = {"normalise_reward": True, "normalise_cost": True}
# Critics are fitted after one second-order step of the policy.
SECOND_ORDER: Values = {
    "passes": 10,
    "batch_size": 128,
    "max_divergence": 0.01,
    "critic_learning_rate": 1e-3,
}


def on_policy_presets(own: Values, task: Task) -> dict[str, Values]:
    """For an algorithm whose `own` values hold on every task."""
    values = {**own, **ORBIT} if task.settled_as == "orbit" else own
    if task.family == "other":
        return {"default": values}
    return {"paper": values, "million": {**values, **MILLION}, "default": values}


def on_policy_entry(
    name: str, summary: str, build: Callable[[Any, Any], Any], config: type, own: Values
) -> Entry:
    presets = partial(on_policy_presets, own)
    return Entry(name, summary, build, config, OnPolicySchedule, presets)
