"""`prudent train` and `prudent semi-batch`: what they hand on."""

from math import inf
from pathlib import Path

import pytest
from command_lines import prudent_command, would_train

from prudent.algorithms import ALGORITHMS
from prudent.algorithms.cal import CALConfig
from prudent.settings.checks import field_names


def test_presets_are_the_defaults(monkeypatch):
    _, given = would_train(
        monkeypatch, "train", "cal", "--task", "halfcheetah-velocity", "--preset", "paper"
    )
    assert (given["preset"], given["convexity"], given["updates_per_step"]) == ("paper", 1000.0, 40)


def test_an_explicit_value_wins_even_where_it_equals_a_default(monkeypatch):
    default = CALConfig().convexity
    _, given = would_train(
        monkeypatch, "train", "cal", "--task", "halfcheetah-velocity", "--convexity", default,
        "--budget", "82.748",
    )  # fmt: skip
    assert given["convexity"] == default
    assert given["budget"] == 82.748


def test_the_folder_tells_the_settings_apart(monkeypatch):
    base = ("train", "cal", "--task", "orbit", "--seed", "3")
    folder = would_train(monkeypatch, *base)[1]["out"]
    assert folder.match("runs/orbit/cal/default-*/seed-3")
    other = would_train(monkeypatch, *base, "--conservatism", "0.7")[1]["out"]
    assert other.name == folder.name
    assert other != folder
    assert would_train(monkeypatch, *base, "--out", "here")[1]["out"] == Path("here")


def test_every_option_arrives(monkeypatch, tmp_path):
    words = (
        "train sac --task orbit --seed 3 --budget 5 --horizon 77 --discounted True --quiet "
        f"--out {tmp_path}/out --warmup {tmp_path}/log.npz --log tensorboard --steps 99 "
        f"--init-from {tmp_path}/other --negative-costs --cost-range -1 inf"
    )
    algorithm, given = would_train(monkeypatch, *words.split())
    expected = {
        "task": "orbit", "env": None, "preset": None, "seed": 3, "budget": 5.0, "horizon": 77,
        "discounted": True, "quiet": True, "out": tmp_path / "out", "cost": None, "steps": 99,
        "warmup": tmp_path / "log.npz", "log": ("tensorboard",), "init_from": tmp_path / "other",
        "negative_costs": True, "cost_range": (-1.0, inf),
    }  # fmt: skip
    assert algorithm == "sac"
    assert expected.items() <= given.items()
    entry = ALGORITHMS["sac"]
    assert given.keys() - expected.keys() < field_names(entry.config, entry.schedule)


def test_what_is_not_said_is_left_to_the_task(monkeypatch):
    _, given = would_train(monkeypatch, "train", "sac", "--env", "Pendulum-v1", "--budget", "1")
    assert (given["task"], given["env"], given["seed"]) == (None, "Pendulum-v1", 0)
    for name in ("horizon", "discounted", "cost", "cost_range", "warmup", "init_from"):
        assert given[name] is None


def test_a_run_in_deployments(monkeypatch):
    words = ("semi-batch", "cal", "--task", "orbit", "--deployments", "2")
    _, given = would_train(monkeypatch, *words)
    assert (given["deployments"], given["updates_per_deployment"]) == (2, None)
    assert "steps" not in given


@pytest.mark.parametrize(
    ("words", "offending"),
    [
        (["train"], "cal"),
        (["train", "call", "--task", "orbit"], "call"),
        (["train", "cal"], "--task"),
        (["train", "cal", "--task", "nowhere"], "nowhere"),
        (["train", "cal", "--task", "orbit", "--env", "a:b"], "--env"),
        (["train", "cal", "--task", "orbit", "--seed", "x"], "--seed"),
        (["train", "ppo", "--task", "orbit", "--barrier-strength", "5"], "--barrier-strength"),
    ],
)
def test_a_mistake_in_the_words_is_named(words, offending, monkeypatch, capsys):
    with pytest.raises(SystemExit) as stop:
        prudent_command(monkeypatch, *words)
    assert stop.value.code == 2
    assert offending in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["train", "--help"], ["sac-lag", ALGORITHMS.summary("sac-lag")[:20]]),
        (["train", "cal", "--help"], ["--task", "--preset"]),
        (["train", "cal", "--task", "orbit", "--help"], ["--task", "--convexity", "--steps"]),
        (["semi-batch", "cal", "--task=orbit", "-h"], ["--deployments", "--convexity"]),
    ],
)
def test_help_shows_what_can_be_said_next(words, shown, monkeypatch, capsys):
    with pytest.raises(SystemExit) as stop:
        prudent_command(monkeypatch, *words)
    assert not stop.value.code
    text = capsys.readouterr().out
    assert all(word in text for word in shown)


def test_a_registered_environment_without_cost_is_refused(monkeypatch):
    with pytest.raises(SystemExit) as stop:
        prudent_command(monkeypatch, "train", "cal", "--env", "Pendulum-v1", "--budget", "1")
    assert 'set info["cost"] at every step' in str(stop.value.code)
