"""Every algorithm on the probe problems: does it find the answer known in closed form?"""

from dataclasses import replace

import numpy as np
import pytest
from probes import ACTIVE, DELAYED, INFEASIBLE, SLACK
from support import small_run, train_quietly

from prudent.configs import CALConfig
from prudent.experiments.presets import VARIANTS
from prudent.tasks.door import open_door
from prudent.training.learner import make_spec
from prudent.training.policy import load_policy
from prudent.training.record import write_run

CONFIG = CALConfig(hidden=(32, 32), learning_rate=1e-3, cost_learning_rate=1e-3,
                   multiplier_learning_rate=3e-3)  # fmt: skip


def solve(task, algorithm, folder, steps, **values):
    config = replace(CONFIG, **VARIANTS[algorithm], **values)
    run = small_run(
        task, algorithm, config=config, steps=steps, warmup_steps=200, updates_per_step=4,
        batch_size=32, replay_capacity=500, updates_cap=None, evaluate_every=steps // 10,
        checkpoint_every=steps,
    )  # fmt: skip
    folder.mkdir(exist_ok=True)
    door = open_door(task)
    write_run(folder, run, {"spec": make_spec(door, run.critic_budget())._asdict()})
    last = train_quietly(run, task, folder)
    return load_policy(folder, run, None), last


def first_action(policy, size):
    return float(policy(np.zeros(size))[0])


@pytest.mark.parametrize("algorithm", ["cal", pytest.param("sac-lag", marks=pytest.mark.slow),
                                       pytest.param("ucb", marks=pytest.mark.slow)])  # fmt: skip
def test_active_constraint(algorithm, tmp_path):
    policy, last = solve(ACTIVE, algorithm, tmp_path / "run", 1500)
    assert first_action(policy, 1) == pytest.approx(-0.25, abs=0.1)
    assert last["evaluation"]["cost"] == pytest.approx(0.75, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["cal", "sac-lag", "ucb", "sac"])
def test_slack_constraint_is_ignored(algorithm, tmp_path):
    policy, _ = solve(SLACK, algorithm, tmp_path / "run", 1500)
    assert first_action(policy, 1) > 0.9


@pytest.mark.slow
def test_unconstrained_sac_breaks_the_active_constraint(tmp_path):
    policy, last = solve(ACTIVE, "sac", tmp_path / "run", 1500)
    assert first_action(policy, 1) > 0.9
    assert last["evaluation"]["within_budget"] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["cal", "sac-lag", "ucb"])
def test_infeasible_constraint_is_broken_as_little_as_possible_and_reported(algorithm, tmp_path):
    policy, last = solve(INFEASIBLE, algorithm, tmp_path / "run", 2500)
    assert first_action(policy, 1) < -0.9
    assert last["training"]["multiplier"] > 2.0
    assert last["probably_infeasible"] is True


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["cal", "sac-lag", "ucb"])
def test_delayed_cost_is_foreseen(algorithm, tmp_path):
    policy, _ = solve(DELAYED, algorithm, tmp_path / "run", 4000)
    assert first_action(policy, 2) == pytest.approx(-0.25, abs=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("multiplier", ["projected_sgd", "softplus_adam"])
@pytest.mark.parametrize("dual_action", ["buffer", "policy"])
def test_other_duals_solve_the_active_constraint(multiplier, dual_action, tmp_path):
    policy, _ = solve(
        ACTIVE, "cal", tmp_path / "run", 1500, multiplier=multiplier, dual_action=dual_action
    )
    assert first_action(policy, 1) == pytest.approx(-0.25, abs=0.1)
