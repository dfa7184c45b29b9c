"""Every algorithm on the probe problems: does it find the answer known in closed form?"""

from dataclasses import asdict, replace

import numpy as np
import pytest
from probes import ACTIVE, DELAYED, INFEASIBLE, SLACK
from support import settings, small_run, train_quietly

import prudent
from prudent.algorithms import ALGORITHMS
from prudent.algorithms.cal import CALConfig
from prudent.algorithms.cvpo import CVPOConfig
from prudent.algorithms.sac_pid import SACPIDConfig
from prudent.algorithms.wcsac import WCSACConfig
from prudent.policies.policy import load_policy
from prudent.runs.folder import read_run
from prudent.settings.checks import fitting
from prudent.tasks.orbit import BUDGET, best_return

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
    # Risk neutral, since the answers are for means. Its violation is always that of the replay, so
    # the replay is short and what answers to it is slow. The best action falls by 1/2 per unit of
    # price: a damping of 10 is a gain of 5 on a signal that lags, and with a long replay the price
    # circles the answer at any risk level.
    "wcsac": WCSACConfig(
        hidden=(32, 32), multiplier_learning_rate=1e-3, risk_level=1.0, damping=1.0
    ),
    "cvpo": CVPOConfig(hidden=(32, 32), samples=16),
    "cvpo mujoco": replace(settings("cvpo", "paper", "hopper-velocity")[0], hidden=(32, 32)),
}
SCHEDULES = {"wcsac": {"replay_capacity": 100}, "cvpo mujoco": {"target_steps": 3}}


def solve(task, algorithm, folder, steps, **values):
    config = OTHERS.get(algorithm)
    if config is None:  # CAL or one of its relatives, as far as they have its settings
        kind = ALGORITHMS[algorithm].config
        config = kind(**fitting(asdict(CONFIG), kind))
    config = replace(config, **values)
    schedule = {
        "steps": steps, "warmup_steps": 200, "updates_per_step": 4, "updates_cap": None,
        "batch_size": 32, "replay_capacity": 500, "evaluate_every": steps // 10,
        "checkpoint_every": steps, **SCHEDULES.get(algorithm, {}),
    }  # fmt: skip
    run = small_run(task, algorithm.split()[0], config=config, **schedule)
    last = train_quietly(run, task, folder)
    return load_policy(read_run(folder), None), last


def first_action(policy, size):
    return float(policy(np.zeros(size))[0])


ONE_IS_QUICK = [
    "cal",
    pytest.param("sac-lag", marks=pytest.mark.slow),
    pytest.param("ucb", marks=pytest.mark.slow),
    pytest.param("sac-pid", marks=pytest.mark.slow),
    pytest.param("wcsac", marks=pytest.mark.slow),
    pytest.param("cvpo", marks=pytest.mark.slow),
    pytest.param("cvpo mujoco", marks=pytest.mark.slow),
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
    never_paid_for_cost = {"clip_damping": True} if algorithm == "wcsac" else {}
    policy, last = solve(SLACK, algorithm, tmp_path / "run", 1500, **never_paid_for_cost)
    assert first_action(policy, 1) == pytest.approx(0.5, abs=0.1)
    assert last["training"]["multiplier"] < 0.1


@pytest.mark.slow
def test_wcsac_with_the_reference_damping_is_paid_for_cost_far_below_the_budget(tmp_path):
    """It cannot solve this one: the weight of cost β + ζ G, G = 1 + a - 5, is at most β - 30 for
    ζ = 10, against a slope of the reward of 3 at most, so that a goes to its bound.
    """
    policy, last = solve(SLACK, "wcsac", tmp_path / "run", 1000, damping=10.0)
    assert first_action(policy, 1) > 0.9
    assert last["training"]["cost_weight"] < -20


@pytest.mark.slow
def test_wcsac_puts_the_cost_at_risk_at_the_budget(tmp_path):
    """At the paper's risk level. A cost that is not random has no variance, so the action is that
    of the plain problem but for what the learned variance has not yet unlearned.
    """
    policy, last = solve(ACTIVE, "wcsac", tmp_path / "run", 1500, risk_level=0.1)
    assert last["training"]["cost_estimate"] == pytest.approx(0.75, abs=0.03)
    assert last["training"]["variance_target"] < 1e-3
    assert first_action(policy, 1) == pytest.approx(-0.25, abs=0.1)


@pytest.mark.slow
def test_unconstrained_sac_breaks_the_active_constraint(tmp_path):
    policy, last = solve(ACTIVE, "sac", tmp_path / "run", 1500)
    assert first_action(policy, 1) == pytest.approx(0.5, abs=0.1)
    assert last["evaluation"]["within_budget"] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["cal", "sac-lag", "ucb", "sac-pid", "wcsac"])
def test_infeasible_constraint_is_broken_as_little_as_possible_and_reported(algorithm, tmp_path):
    policy, last = solve(INFEASIBLE, algorithm, tmp_path / "run", 2500)
    assert first_action(policy, 1) < -0.9
    assert last["training"]["multiplier"] > 4.0
    assert last["probably_infeasible"] is True


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["cvpo", "cvpo mujoco"])
def test_under_an_infeasible_constraint_cvpo_selects_the_cheapest_actions(algorithm, tmp_path):
    """Its price of cost does not grow but rests at its bound, which makes the selection one of
    cost alone, as cheap as the divergence allows.
    """
    policy, last = solve(INFEASIBLE, algorithm, tmp_path / "run", 1500)
    assert first_action(policy, 1) < -0.9
    assert last["training"]["multiplier"] == pytest.approx(OTHERS[algorithm].largest_dual)
    assert last["training"]["selected_cost"] < last["training"]["cost_estimate"]


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["cal", "sac-lag", "ucb", *OTHERS])
def test_delayed_cost_is_foreseen(algorithm, tmp_path):
    steps = {"wcsac": 2500, "cvpo": 2000, "cvpo mujoco": 2000}.get(algorithm, 3000)
    policy, _ = solve(DELAYED, algorithm, tmp_path / "run", steps)
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
