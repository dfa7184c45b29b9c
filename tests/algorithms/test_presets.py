"""Presets: the values that they set, by the tables."""

from dataclasses import replace

import pytest
from support import settings

from prudent.algorithms import ALGORITHMS
from prudent.algorithms.resolve import preset_named
from prudent.tasks import TASKS


@pytest.mark.parametrize(
    ("algorithm", "preset"),
    [("cal", "head"), ("sac-lag", "head"), ("cvpo", "paper"), ("pdo", "paper")],
)
def test_what_is_run_where_no_preset_is_named(algorithm, preset):
    entry = ALGORITHMS[algorithm]
    assert preset_named(entry, TASKS["hopper-velocity"], None) == preset
    assert preset_named(entry, TASKS["orbit"], None) == "default"


@pytest.mark.parametrize("algorithm", ["cal", "ucb", "sac-lag", "sac"])
@pytest.mark.parametrize("preset", ["paper", "head", "default"])
@pytest.mark.parametrize("task", ["hopper-velocity", "humanoid-velocity", "point-push1"])
def test_every_preset_builds(algorithm, preset, task):
    config, schedule = settings(algorithm, preset, task)
    if preset != "default":
        assert schedule.timeout_is_terminal == task.endswith("velocity")
    assert hasattr(config, "convexity") == (algorithm == "cal")
    assert schedule.batch_size == 12


def test_preset_values_by_the_table():
    config, schedule = settings("cal", "paper", "humanoid-velocity")
    assert (config.convexity, config.conservatism, config.cost_critics) == (1000.0, 0.5, 4)
    assert (config.cost_learning_rate, schedule.updates_per_step) == (5e-4, 10)
    config, schedule = settings("cal", "head", "humanoid-velocity")
    assert (config.convexity, config.conservatism, config.random_targets) == (1000.0, 0.0, 4)
    config, _ = settings("cal", "head", "ant-velocity")
    assert (config.convexity, config.cost_critics, config.cost_network) == (100.0, 8, "silu-normal")
    config, schedule = settings("cal", "paper", "point-push1")
    assert (config.conservatism, config.cost_critics, schedule.steps) == (0.8, 6, 200_000)


@pytest.mark.parametrize("algorithm", ["sac-pid", "wcsac", "cvpo"])
@pytest.mark.parametrize("task", ["hopper-velocity", "halfcheetah-velocity", "point-button2"])
def test_matched_presets_have_the_schedule_of_cal(algorithm, task):
    _, head = settings("cal", "head", task)
    config, schedule = settings(algorithm, "matched", task)
    if algorithm == "cvpo" and task != "point-button2":  # a round is an episode
        assert (schedule.update_unit, schedule.update_every) == ("episodes", 1)
        schedule = replace(schedule, update_unit="steps", updates_cap=head.updates_cap)
    assert replace(schedule, target_steps=1) == head
    assert config == settings(algorithm, "paper", task)[0]


def test_baseline_values_by_the_table():
    _, schedule = settings("sac-pid", "paper", "point-button1")
    assert (schedule.updates_per_step, schedule.update_every) == (0.13325, 20)
    assert (schedule.batch_size, schedule.replay_capacity) == (300, 20_000)
    assert settings("sac-pid", "paper", "point-button2")[1].updates_per_step == 20
    config, schedule = settings("wcsac", "paper", "hopper-velocity")
    assert (config.risk_level, schedule.batch_size, schedule.update_every) == (0.1, 256, 100)
    config, schedule = settings("cvpo", "paper", "point-push1")
    assert (config.dual_solver, config.covariance, config.samples) == ("newton", "full", 32)
    assert (schedule.updates_per_step, schedule.target_steps) == (0.13325, 1)
    config, schedule = settings("cvpo", "paper", "ant-velocity")
    assert (config.dual_solver, config.covariance, config.samples) == ("adam", "diagonal", 32)
    assert (schedule.updates_per_step, schedule.update_every, schedule.target_steps) == (0.5, 1, 3)
    assert schedule.timeout_is_terminal
    assert settings("cvpo", "matched", "humanoid-velocity")[0].samples == 64
