"""On-policy algorithms on a probe problem: do they find the answer known in closed form?"""

import json

import numpy as np
import pytest
from probes import ACTIVE, DELAYED, INFEASIBLE, SLACK
from support import settings, train_quietly

from prudent.algorithms import ALGORITHMS
from prudent.algorithms.resolve import make_run, with_values
from prudent.policies.policy import load_policy
from prudent.runs.folder import read_run
from prudent.settings.checks import fitting
from prudent.settings.schedules import OnPolicySchedule

pytestmark = pytest.mark.slow

# Small epochs and quick steps. No advantage is standardised: on one state that takes the curvature
# out of the reward, and without it a Lagrangian circles its saddle forever.
QUICK = {
    "hidden": (16,), "initial_log_std": -1.0, "policy_learning_rate": 3e-3, "passes": 5,
    "critic_learning_rate": 1e-2, "batch_size": 64, "steps": 24_000, "epoch_steps": 400,
    "evaluate_every": 2_400, "evaluation_episodes": 1, "checkpoint_every": 24_000,
    "standardise_reward": False, "standardise_cost": False, "multiplier": "projected_sgd",
    "multiplier_learning_rate": 0.1, "normalise_reward": False, "normalise_cost": False,
}  # fmt: skip
OWN = {
    "ipo": {"barrier_cap": 3.0, "standardise_reward": True, "standardise_cost": True},
    "crpo": {"tolerance": 0.02},  # the preset's 2 is more than these problems' whole cost
    "cppo-pid": {"proportional_gain": 1.0, "integral_gain": 0.1, "smoothing": 0.5},
    "cup": {"policy_learning_rate": 1e-3, "largest_multiplier": 20.0},
}
# A Lagrangian's price settles. CRPO has none and steps over the budget and back; CUP's first stage
# goes for reward by as much as its trust region allows wherever it stands, and only the second asks
# for the price, so that little damps their swing about the solution. What is asked of these two is
# the budget on average over the last third.
SETTLING = ["pdo", "rcpo", "ppo-lag", "ipo", "cppo-pid"]
CIRCLING = ["crpo", "cup"]


def solve(task, algorithm, folder, **values):
    chosen = {**QUICK, **OWN.get(algorithm, {}), **values}
    preset = settings(algorithm, "default", task.name)
    known = fitting(chosen, ALGORITHMS[algorithm].config, OnPolicySchedule)
    run = make_run(algorithm, task, "default", 0, with_values(preset, known))
    last = train_quietly(run, task, folder)
    return load_policy(read_run(folder), None), last


def first_action(policy, size):
    return float(policy(np.zeros(size))[0])


def late_cost(folder):
    """Of the training episodes in the last third of the run."""
    lines = (folder / "episodes.jsonl").read_text().splitlines()
    costs = [json.loads(line)["cost"] for line in lines]
    return np.mean(costs[-len(costs) // 3 :])


@pytest.mark.parametrize("algorithm", SETTLING)
def test_active_constraint(algorithm, tmp_path):
    policy, last = solve(ACTIVE, algorithm, tmp_path / "run")
    assert first_action(policy, 1) == pytest.approx(-0.25, abs=0.1)
    assert last["evaluation"]["cost"] == pytest.approx(0.75, abs=0.1)


@pytest.mark.parametrize("algorithm", CIRCLING)
def test_active_constraint_on_average(algorithm, tmp_path):
    policy, _ = solve(ACTIVE, algorithm, tmp_path / "run")
    assert late_cost(tmp_path / "run") == pytest.approx(0.75, abs=0.1)
    assert first_action(policy, 1) == pytest.approx(-0.25, abs=0.3)


@pytest.mark.parametrize("algorithm", [*SETTLING, *CIRCLING, "ppo"])
def test_slack_constraint(algorithm, tmp_path):
    policy, last = solve(SLACK, algorithm, tmp_path / "run", steps=12_000)
    assert first_action(policy, 1) == pytest.approx(0.5, abs=0.1)
    assert last["evaluation"]["within_budget"] == 1.0
    assert last["training"]["multiplier"] < 0.01


@pytest.mark.parametrize("algorithm", [*SETTLING, *CIRCLING])
def test_infeasible_constraint(algorithm, tmp_path):
    """What cannot be kept is broken as little as possible."""
    policy, last = solve(INFEASIBLE, algorithm, tmp_path / "run")
    assert first_action(policy, 1) < -0.8
    assert last["evaluation"]["within_budget"] == 0.0


@pytest.mark.parametrize("algorithm", [*SETTLING, *CIRCLING])
def test_cost_that_comes_later(algorithm, tmp_path):
    policy, _ = solve(DELAYED, algorithm, tmp_path / "run", steps=48_000, epoch_steps=800)
    assert late_cost(tmp_path / "run") == pytest.approx(0.99 * 0.75, abs=0.1)
    reach = 0.1 if algorithm in SETTLING else 0.3
    assert first_action(policy, 2) == pytest.approx(-0.25, abs=reach)


def test_unconstrained_ppo_breaks_the_active_constraint(tmp_path):
    policy, last = solve(ACTIVE, "ppo", tmp_path / "run", steps=20_000)
    assert first_action(policy, 1) == pytest.approx(0.5, abs=0.1)
    assert last["evaluation"]["within_budget"] == 0.0
