"""Per-task values of CAL, which its relatives share, and what tasks mean for every schedule.

`paper` follows the paper's text, its gaps filled from the first public code; `head` follows the
official repository's current code and README, which re-tuned nearly everything; `default` is for an
environment of one's own. Walker2d and Swimmer are not in the paper and take Hopper's values.

The other off-policy algorithms have `paper`, the settings of the paper's own runs of them, and
`matched`: their own networks and rates with CAL's `head` schedule, for comparisons at equal work.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from prudent.algorithms.entry import Entry
from prudent.settings.checks import Values, fitting
from prudent.settings.schedules import OffPolicySchedule
from prudent.tasks.task import Task

FAMILIES: dict[str, Values] = {
    "velocity": {"timeout_is_terminal": True, "steps": 300_000},
    "navigation": {"steps": 200_000},
}

PAPER: dict[str, Any] = {
    "cost_network": "relu-xavier",
    "cost_loss": "sum",  # each member has an optimiser of its own
    "cost_learning_rate": 5e-4,
    "updates_per_step": 20,
}
PAPER_ENSEMBLE = {"velocity": 4, "navigation": 6}
PAPER_TASKS: dict[str, Values] = {
    "halfcheetah-velocity": {"convexity": 1000.0, "updates_per_step": 40},
    "ant-velocity": {"convexity": 100.0},
    "humanoid-velocity": {"convexity": 1000.0, "updates_per_step": 10},
    "point-push1": {"conservatism": 0.8},
}
# `head` is the dataclasses' own defaults and these.
HEAD_TASKS: dict[str, Values] = {
    "halfcheetah-velocity": {"convexity": 1000.0, "updates_per_step": 20, "cost_critics": 8},
    "ant-velocity": {"convexity": 100.0, "cost_critics": 8},
    "humanoid-velocity": {"convexity": 1000.0, "conservatism": 0.0, "random_targets": 4},
}

# Of baselines: updates follow whole episodes, and none are skipped.
BY_EPISODE: Values = {"update_unit": "episodes", "updates_cap": None}
# As cvpo-safe-rl runs its own: 1066 updates for 20 navigation episodes of 400 steps.
BY_TWENTY_EPISODES: Values = {
    **BY_EPISODE,
    "warmup_steps": 0,
    "updates_per_step": 0.13325,
    "update_every": 20,
    "batch_size": 300,
}

# The tutorial is meant to be quick: small networks, a short warm-up, a short memory (its best
# behaviour is the same at every discount). The critics see costs of about 1, hence the convexity.
ORBIT: Values = {
    "hidden": (64, 64),
    "discount": 0.95,
    "cost_discount": 0.95,
    "target_rate": 0.01,
    "convexity": 100.0,
    "conservatism": 2.0,
    "steps": 10_000,
    "warmup_steps": 1_000,
    "replay_capacity": 4_000,  # so that the violation is measured on what the policy does now
    "evaluate_every": 400,
    "snapshot_every": 2_000,
}

# The traps keep a long replay and its warm-up, which is what they are about.
SKID: Values = {
    **ORBIT,
    "conservatism": 0.5,
    "steps": 60_000,
    "warmup_steps": 5_000,
    "updates_per_step": 4,
    "batch_size": 32,
    "replay_capacity": 1_000_000,
    "evaluate_every": 1_000,
    "snapshot_every": 10_000,
}
# For an environment of one's own: the limit is to hold on episodes (docs/results/dual.md).
OWN: Values = {"dual_states": "recent", "calibration": "episodes", "cost_bounds": "task"}
SMALL_TASKS: dict[str, Values] = {
    "orbit": ORBIT,
    "skid": SKID,
    "stall": {**SKID, "warmup_steps": 20_000},
}


def conservative_presets(config: type, task: Task) -> dict[str, Values]:
    """CAL's, as far as `config` and the schedule have fields for them."""
    name = task.settled_as
    found: dict[str, Values] = {}
    if task.family in FAMILIES:
        of_family = FAMILIES[task.family]
        ensemble = {"cost_critics": PAPER_ENSEMBLE[task.family]}
        found = {
            "head": {**of_family, **HEAD_TASKS.get(name, {})},
            "paper": {**PAPER, **ensemble, **of_family, **PAPER_TASKS.get(name, {})},
        }
    found["default"] = SMALL_TASKS.get(name, OWN)
    return {preset: fitting(values, config, OffPolicySchedule) for preset, values in found.items()}


def conservative_entry(
    name: str, summary: str, build: Callable[[Any, Any], Any], config: type
) -> Entry:
    presets = partial(conservative_presets, config)
    return Entry(name, summary, build, config, OffPolicySchedule, presets)


def baseline_presets(
    config: type, task: Task, own: Values, matched: Values | None = None
) -> dict[str, Values]:
    """Presets of an algorithm that the paper compares with.

    `own` are the values of the paper's runs for this task, `matched` those of them that stay when
    it learns with CAL's schedule.
    """
    conservative = conservative_presets(config, task)
    if task.family not in FAMILIES:
        return {"default": conservative["default"] or own}
    return {
        "paper": {**FAMILIES[task.family], **own},
        "matched": {**(matched or {}), **conservative["head"]},
        "default": own,
    }
