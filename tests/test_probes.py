"""Every algorithm on the probe problems: does it find the answer known in closed form?"""

from dataclasses import replace

import numpy as np
import pytest
from probes import ACTIVE, DELAYED, INFEASIBLE, SLACK
from support import small_run, train_quietly

import prudent
from prudent.configs import CALConfig, CVPOConfig, SACPIDConfig, WCSACConfig
from prudent.experiments.presets import VARIANTS
from prudent.tasks.door import open_door
from prudent.tasks.orbit import BUDGET, best_return
from prudent.training.learner import make_spec
from prudent.training.policy import load_policy
from prudent.training.record import write_run

# Dual steps on what the policy does now: measured on the replay, the violation lags, and on
# problems this small the multiplier circles the answer instead of finding it.
CONFIG = CALConfig(
    hidden=(32, 32),
    learning_rate=1e-3,
    cost_learning_rate=1e-3,
    multiplier="projected_sgd",
    multiplier_learning_rate=3e-3,
    dual_action="policy",
)
OTHERS = {
    "sac-pid": SACPIDConfig(hidden=(32, 32)),
    # Risk neutral, since the answers are for means, and never paid for cost.
    "wcsac": WCSACConfig(
        hidden=(32, 32), multiplier_learning_rate=3e-3, risk_level=1.0, clip_damping=True
    ),
    "cvpo": CVPOConfig(hidden=(32, 32), samples=16),
}


def solve(task, algorithm, folder, steps, **values):
    config = OTHERS.get(algorithm, CONFIG)
    config = replace(config, **{**VARIANTS.get(algorithm, {}), **values})
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


ONE_IS_QUICK = [
    "cal",
    pytest.param("sac-lag", marks=pytest.mark.slow),
    pytest.param("ucb", marks=pytest.mark.slow),
    pytest.param("sac-pid", marks=pytest.mark.slow),
    pytest.param("cvpo", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("algorithm", ONE_IS_QUICK)
def test_active_constraint(algorithm, tmp_path):
    policy, last = solve(ACTIVE, algorithm, tmp_path / "run", 1500)
    assert first_action(policy, 1) == pytest.approx(-0.25, abs=0.1)
    assert last["evaluation"]["cost"] == pytest.approx(0.75, abs=0.1)
    assert last["training"]["multiplier"] == pytest.approx(1.5, abs=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["cal", "sac-lag", "ucb", "sac", *OTHERS])
def test_slack_constraint_is_ignored(algorithm, tmp_path):
    policy, last = solve(SLACK, algorithm, tmp_path / "run", 1500)
    assert first_action(policy, 1) == pytest.approx(0.5, abs=0.1)
    assert last["training"]["multiplier"] < 0.1


@pytest.mark.slow
def test_unconstrained_sac_breaks_the_active_constraint(tmp_path):
    policy, last = solve(ACTIVE, "sac", tmp_path / "run", 1500)
    assert first_action(policy, 1) == pytest.approx(0.5, abs=0.1)
    assert last["evaluation"]["within_budget"] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["cal", "sac-lag", "ucb", "sac-pid"])
def test_infeasible_constraint_is_broken_as_little_as_possible_and_reported(algorithm, tmp_path):
    policy, last = solve(INFEASIBLE, algorithm, tmp_path / "run", 2500)
    assert first_action(policy, 1) < -0.9
    assert last["training"]["multiplier"] > 4.0
    assert last["probably_infeasible"] is True


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["cal", "sac-lag", "ucb", "sac-pid"])
def test_delayed_cost_is_foreseen(algorithm, tmp_path):
    policy, _ = solve(DELAYED, algorithm, tmp_path / "run", 3000)
    assert first_action(policy, 2) == pytest.approx(-0.25, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("multiplier", ["log_adam", "softplus_adam"])
def test_other_multipliers_find_the_same_answer(multiplier, tmp_path):
    policy, _ = solve(
        ACTIVE, "cal", tmp_path / "run", 2000, multiplier=multiplier, multiplier_learning_rate=1e-3
    )
    assert first_action(policy, 1) == pytest.approx(-0.25, abs=0.1)


@pytest.mark.slow
def test_cal_as_shipped_comes_close_to_the_known_optimum_of_orbit(tmp_path):
    result = prudent.train("cal", task="orbit", out=tmp_path / "run", quiet=True)
    assert result.evaluation["return"] > 0.9 * best_return(BUDGET)
    assert result.evaluation["cost"] < 1.1 * BUDGET
