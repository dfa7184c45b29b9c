"""The command line."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support import settings

from prudent.algorithms import ALGORITHMS
from prudent.algorithms.cal import CALConfig
from prudent.algorithms.resolve import preset_named
from prudent.cli.main import main
from prudent.tasks import TASKS


def prudent_command(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["prudent", *map(str, words)])
    main()


def test_list_shows_algorithms_and_budgets(monkeypatch, capsys):
    prudent_command(monkeypatch, "list")
    shown = capsys.readouterr().out
    for name in (*ALGORITHMS, *TASKS):
        assert f"  {name} " in shown
    assert "82.748 discounted sum per episode" in shown
    assert "16 sum per episode" in shown


def resolved(monkeypatch, *words):
    """The settings a command line leads to, without training."""
    from prudent.agent import Agent

    found = {}

    def of_run(run, task, folder, **options):
        found.update(run=run, rest=(task, folder, options))
        return SimpleNamespace(learn=dict)

    monkeypatch.setattr(Agent, "of_run", of_run)
    prudent_command(monkeypatch, "train", *words)
    return found["run"], found["rest"]


@pytest.mark.parametrize(
    ("algorithm", "preset"),
    [("cal", "head"), ("sac-lag", "head"), ("cvpo", "paper"), ("pdo", "paper")],
)
def test_what_is_run_where_no_preset_is_named(algorithm, preset):
    entry = ALGORITHMS[algorithm]
    assert preset_named(entry, TASKS["hopper-velocity"], None) == preset
    assert preset_named(entry, TASKS["orbit"], None) == "default"


def test_presets_are_the_defaults(monkeypatch):
    run, _ = resolved(monkeypatch, "cal", "--task", "halfcheetah-velocity", "--preset", "paper")
    assert (run.config.convexity, run.schedule.updates_per_step) == (1000.0, 40)
    assert run.budget == 151.989


def test_an_explicit_value_wins_even_where_it_equals_a_default(monkeypatch):
    default = CALConfig().convexity
    run, _ = resolved(
        monkeypatch, "cal", "--task", "halfcheetah-velocity", "--convexity", default,
        "--budget", "82.748",
    )  # fmt: skip
    assert run.config.convexity == default
    assert run.budget == 82.748


def test_the_folder_tells_the_settings_apart(monkeypatch):
    base = ("cal", "--task", "orbit")
    run, (_, folder, *_) = resolved(monkeypatch, *base, "--seed", "3")
    assert str(folder) == f"runs/orbit/cal/default-{run.identity()}/seed-3"
    other, _ = resolved(monkeypatch, *base, "--seed", "3", "--conservatism", "0.7")
    assert other.identity() != run.identity()
    _, (_, chosen, *_) = resolved(monkeypatch, *base, "--out", "here")
    assert str(chosen) == "here"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fly"], "no command 'fly'"),
        (["train", "cal", "--task", "nowhere"], "no task 'nowhere'"),
        (["train", "cal", "--env", "Pendulum-v1"], "a budget is needed"),
        (["resume", "nowhere"], "holds no run"),
        (["evaluate", "nowhere"], "holds no run"),
    ],
)
def test_errors_are_one_line(words, message, monkeypatch):
    with pytest.raises(SystemExit) as stop:
        prudent_command(monkeypatch, *words)
    assert message in str(stop.value.code)
    assert "\n" not in str(stop.value.code)


def test_a_registered_environment_without_cost_is_refused(monkeypatch):
    with pytest.raises(SystemExit) as stop:
        prudent_command(monkeypatch, "train", "cal", "--env", "Pendulum-v1", "--budget", "1")
    assert 'set info["cost"] at every step' in str(stop.value.code)


def test_train_evaluate_and_film(monkeypatch, tmp_path, capsys):
    folder = tmp_path / "run"
    prudent_command(
        monkeypatch, "train", "sac-lag", "--task", "orbit", "--steps", "30", "--warmup-steps", "30",
        "--hidden", "8", "8", "--evaluation-episodes", "2", "--out", folder, "--quiet",
    )  # fmt: skip
    record = json.loads((folder / "run.json").read_text())
    assert "cost_critics" not in record["run"]["config"]  # it has one, and no choice
    assert record["versions"]["jax"]
    capsys.readouterr()
    prudent_command(
        monkeypatch, "evaluate", folder, "--episodes", "3", "--json", "--video", tmp_path / "a.gif"
    )
    found = json.loads(capsys.readouterr().out)
    assert len(found["evaluation"]["returns"]) == 3
    low, high = found["evaluation"]["cost_interval"]
    assert low <= found["evaluation"]["cost"] <= high
    assert (tmp_path / "a.gif").read_bytes()[:3] == b"GIF"
    prudent_command(monkeypatch, "evaluate", folder, "--video", tmp_path / "a.mp4")
    assert b"ftyp" in (tmp_path / "a.mp4").read_bytes()[:12]
    assert "within budget" in capsys.readouterr().out


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
