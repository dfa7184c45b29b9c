"""What a stranger hands in: settings, folders, environments."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import foreign
import numpy as np
import optuna
import pytest
from command_lines import prudent_command
from support import lines

import prudent
from prudent.algorithms import ALGORITHMS
from prudent.settings.checks import field_names, option
from prudent.settings.schedules import OffPolicySchedule

SMALL = {
    "hidden": (4,), "steps": 40, "warmup_steps": 12, "batch_size": 8, "updates_per_step": 1,
    "evaluate_every": 10, "checkpoint_every": 5, "evaluation_episodes": 3, "replay_capacity": 100,
    "horizon": 10, "budget": 5.0,
}  # fmt: skip


def train(folder, env=foreign.make, **more):
    return prudent.train(
        more.pop("algorithm", "cal"), env=env, out=folder, quiet=True, **{**SMALL, **more}
    )


def progress(folder):
    return [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]


# One environment, handed out again and again.


@pytest.mark.parametrize(
    ("algorithm", "values"),
    [
        ("cal", {}),
        ("ppo", {"epoch_steps": 20, "passes": 1}),
    ],
)
@pytest.mark.parametrize("instance", [True, False])
def test_one_environment_is_trained_and_evaluated_in_without_mixing(
    algorithm, values, instance, tmp_path
):
    one = foreign.Walk()
    own = set(ALGORITHMS[algorithm].config.__dataclass_fields__) | field_names(
        ALGORITHMS[algorithm].schedule
    )
    kept = {name: v for name, v in SMALL.items() if name in own or name in ("horizon", "budget")}
    prudent.train(
        algorithm, env=one if instance else lambda: one, out=tmp_path / "run", quiet=True,
        **{**kept, **values},
    )  # fmt: skip
    # The probe before training stops after two steps, and training's last step may be anywhere.
    assert one.mixed <= 2
    found = progress(tmp_path / "run")
    assert all(line["evaluation_environments"] == 1 for line in found)
    assert all(len(set(line["evaluation"]["costs"])) == 3 for line in found)
    costs = [json.loads(line)["cost"] for line in lines(tmp_path / "run" / "episodes.jsonl")]
    assert max(costs) <= 10.0  # ten steps of at most 1 each: no episode went on in another


def test_evaluations_in_the_one_environment_are_those_of_a_fresh_one(tmp_path):
    one = foreign.Walk()
    train(tmp_path / "shared", env=lambda: one)
    train(tmp_path / "own")
    shared, own = progress(tmp_path / "shared"), progress(tmp_path / "own")
    # The warm-up ends in the middle of an episode: the first evaluation waits for its end.
    assert [line["step"] for line in own] == [0, 10, 20, 30, 40]
    assert [line["step"] for line in shared] == [8, 18, 28, 38, 40]
    assert len(lines(tmp_path / "shared" / "episodes.jsonl")) == 5


def test_a_run_in_the_one_environment_resumes_exactly(tmp_path):
    one = foreign.Walk()
    train(tmp_path / "whole", env=lambda: one)
    stopped = []

    def stop(line):
        stopped.append(line["step"])
        return line["step"] >= 18

    train(tmp_path / "cut", env=lambda: one, callbacks=[stop])
    assert stopped == [8, 18]
    prudent.resume(tmp_path / "cut", env=lambda: one, quiet=True)
    for name in ("progress.jsonl", "episodes.jsonl"):
        assert lines(tmp_path / "cut" / name) == lines(tmp_path / "whole" / name)


# Folders.


def test_a_folder_with_other_files_is_refused_and_untouched(tmp_path):
    for name in ("episodes.jsonl", "progress.jsonl", "notes.txt"):
        (tmp_path / name).write_text("mine\n")
    (tmp_path / "replay").mkdir()
    (tmp_path / "replay" / "rows-1-2.safetensors").write_text("mine")
    with pytest.raises(ValueError, match="is not empty"):
        train(tmp_path)
    assert (tmp_path / "episodes.jsonl").read_text() == "mine\n"
    assert sorted(os.listdir(tmp_path)) == [
        "episodes.jsonl",
        "notes.txt",
        "progress.jsonl",
        "replay",
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"discount": 1.5}, {"env": foreign.broken_one("None")}, {"warmup": "nowhere.npz"},
        {"init_from": "nowhere"}, {"log": ["paper"]}, {"budget": float("nan")}, {"horizon": 0},
        {"callbacks": ["no function"]}, {"budget": -1.0}, {"replay_capacity": 7},
    ],
)  # fmt: skip
def test_a_refused_set_up_leaves_nothing_behind(wrong, tmp_path):
    with pytest.raises(ValueError):  # noqa: PT011 - the messages have tests of their own
        train(tmp_path / "a" / "b", **wrong)
    assert not (tmp_path / "a").exists()


def test_the_second_of_two_trainings_changes_nothing(tmp_path):
    folder = tmp_path / "run"
    code = (
        "import sys, foreign, prudent, test_front_door as t\n"
        "t.train(__import__('pathlib').Path(sys.argv[1]), steps=100_000, convexity=3.0)"
    )
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": f"{here}{os.pathsep}{here.parent}"}
    first = subprocess.Popen([sys.executable, "-c", code, str(folder)], env=environment)
    try:
        while not (folder / "run.json").exists():
            assert first.poll() is None
            time.sleep(0.05)
        record = (folder / "run.json").read_bytes()
        with pytest.raises(RuntimeError, match="another process is writing into this folder"):
            train(folder, convexity=4.0)
        assert (folder / "run.json").read_bytes() == record
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()


def test_killed_before_its_first_checkpoint_a_run_with_a_log_begins_again(tmp_path, monkeypatch):
    rows = 30
    log = {
        "observation": np.zeros((rows, 2)), "action": np.zeros((rows, 1)), "reward": np.ones(rows),
        "cost": np.ones(rows), "next_observation": np.ones((rows, 2)), "terminated": np.zeros(rows),
    }  # fmt: skip
    np.savez(tmp_path / "log.npz", **log)
    train(tmp_path / "whole", warmup=tmp_path / "log.npz")
    from prudent.training import run

    def stop(session):
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setitem(run.LOOPS, OffPolicySchedule, (run.open_off_policy, stop))
        with pytest.raises(SystemExit):
            train(tmp_path / "cut", warmup=tmp_path / "log.npz")
    assert not any((tmp_path / "cut").glob("checkpoints/*"))
    (tmp_path / "log.npz").unlink()
    prudent.resume(tmp_path / "cut", env=foreign.make, quiet=True)
    for name in ("progress.jsonl", "episodes.jsonl"):
        assert lines(tmp_path / "cut" / name) == lines(tmp_path / "whole" / name)


# A folder somebody hands over.


def test_a_handed_over_folder_runs_no_code_until_it_is_named_again(tmp_path, monkeypatch, capsys):
    prudent_command(
        monkeypatch, "train", "cal", "--env", "foreign:make", "--out", tmp_path / "run", "--quiet",
        *(word for name, value in SMALL.items()
          for word in (option(name), *(value if isinstance(value, tuple) else [value]))),
    )  # fmt: skip
    made = []
    monkeypatch.setattr(foreign, "make", lambda: made.append(1) or foreign.Walk())
    for command in ("resume", "evaluate"):
        with pytest.raises(SystemExit) as stop:
            prudent_command(monkeypatch, command, tmp_path / "run")
        assert "if you trust it, name it again (--env module:callable" in str(stop.value.code)
    assert not made
    prudent_command(monkeypatch, "evaluate", tmp_path / "run", "--env", "foreign:make", "--json")
    assert made
    assert len(json.loads(capsys.readouterr().out)["evaluation"]["costs"]) == 10


def test_a_run_goes_on_only_in_its_own_environment(tmp_path):
    class Wider(foreign.Walk):
        action_space = gymnasium_box(-2.0, 2.0)

    train(tmp_path)
    with pytest.raises(ValueError, match=r"is not the run's environment: action scale is \[2.0\]"):
        prudent.resume(tmp_path, env=Wider)


def gymnasium_box(low, high):
    return foreign.Box(low, high, (1,), np.float32)


def test_the_cost_may_be_another_entry_or_a_function(tmp_path):
    train(tmp_path / "key", cost="speed")
    assert progress(tmp_path / "key")[-1]["evaluation"]["cost"] == 5.0  # ten steps of 0.5
    found = prudent.evaluate(tmp_path / "key", env=foreign.make, episodes=2)
    assert found["evaluation"]["costs"] == [5.0, 5.0]  # the key is in the record
    train(tmp_path / "function", cost=twice)
    with pytest.raises(ValueError, match="the function twice returns; pass it again"):
        prudent.evaluate(tmp_path / "function", env=foreign.make)
    found = prudent.evaluate(tmp_path / "function", env=foreign.make, cost=twice, episodes=1)
    assert found["evaluation"]["costs"] == [20.0]


def twice(observation, action, reward, terminated, truncated, info):
    return 2.0


# Callbacks and first policies.


class Pruned(Exception):
    """As somebody's own reason to stop."""


def test_optuna_prunes_a_run_by_its_callback(tmp_path):
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(trial):
        def report(line):
            trial.report(line["evaluation"]["return"], line["step"])
            if trial.should_prune():
                raise optuna.TrialPruned

        rate = trial.suggest_float("learning_rate", 1e-4, 1e-3)
        folder = tmp_path / str(trial.number)
        return train(folder, learning_rate=rate, callbacks=[report]).evaluation["return"]

    # Nothing beyond this is accepted, so the first trial is pruned at its first report.
    pruner = optuna.pruners.ThresholdPruner(upper=-1e9)
    study = optuna.create_study(pruner=pruner, sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=1)
    assert study.trials[0].state == optuna.trial.TrialState.PRUNED
    assert [line["step"] for line in progress(tmp_path / "0")] == [0]
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    (tmp_path / "0").rename(tmp_path / "pruned")
    study.optimize(objective, n_trials=1)
    assert study.trials[0].state == optuna.trial.TrialState.COMPLETE


def test_a_callback_that_raises_stops_a_run_that_can_go_on(tmp_path):
    train(tmp_path / "whole")

    def prune(line):
        line["evaluation"].clear()  # a copy: the record does not feel it
        if line["step"] == 20:
            raise Pruned

    with pytest.raises(Pruned):
        train(tmp_path / "cut", callbacks=[prune])
    assert [line["step"] for line in progress(tmp_path / "cut")] == [0, 10, 20]
    prudent.resume(tmp_path / "cut", env=foreign.make, quiet=True)
    for name in ("progress.jsonl", "episodes.jsonl"):
        assert lines(tmp_path / "cut" / name) == lines(tmp_path / "whole" / name)


def test_every_callback_hears_every_evaluation_and_any_may_stop_the_run(tmp_path):
    heard = [], []
    found = train(
        tmp_path,
        callbacks=[
            lambda line: heard[0].append(line["step"]) or line["step"] == 10,
            lambda line: heard[1].append(line["evaluation"]["return"]),
        ],
    )
    assert heard[0] == [0, 10]
    assert found.evaluation["return"] == heard[1][-1]
    assert progress(tmp_path)[-1]["step"] == 10


@pytest.mark.parametrize("algorithm", ["cal", "cvpo", "ppo"])
def test_a_run_begins_with_the_policy_of_another(algorithm, tmp_path):
    values = {"epoch_steps": 20} if algorithm == "ppo" else {}
    names = field_names(ALGORITHMS[algorithm].config, ALGORITHMS[algorithm].schedule)
    small = {n: v for n, v in SMALL.items() if n in names or n in ("horizon", "budget")}
    whole = {**small, **values}
    prudent.train(algorithm, env=foreign.make, out=tmp_path / "first", quiet=True, **whole)
    begins = prudent.train(
        algorithm, env=foreign.make, out=tmp_path / "second", quiet=True, seed=5,
        init_from=tmp_path / "first", callbacks=[lambda line: True], **whole,
    )  # fmt: skip
    # It is evaluated first before anything is learned, on the same starts.
    assert begins.evaluation == progress(tmp_path / "first")[-1]["evaluation"]
    records = [json.loads((tmp_path / n / "run.json").read_text()) for n in ("first", "second")]
    assert records[0]["identity"] != records[1]["identity"]
    prudent.resume(tmp_path / "second", env=foreign.make, quiet=True)
    assert progress(tmp_path / "second")[-1]["step"] == 40
    with pytest.raises(ValueError, match="that run's policy has another form"):
        prudent.train(
            algorithm, env=foreign.make, out=tmp_path / "x", quiet=True,
            init_from=tmp_path / "first", **{**whole, "hidden": (5,)},
        )  # fmt: skip


# Rewards and costs that are random while observations are not.


@pytest.mark.parametrize("quantity", ["reward", "cost"])
def test_a_random_reward_or_cost_is_noticed_on_resume(quantity, tmp_path, capsys):
    class Random(foreign.Walk):
        def step(self, action):
            seen, reward, terminated, truncated, info = super().step(action)
            noise = float(np.random.default_rng().uniform())
            if quantity == "reward":
                reward += noise
            else:
                info["cost"] += noise
            return seen, reward, terminated, truncated, info

    with pytest.raises(Pruned):
        train(tmp_path, env=Random, callbacks=[raise_at_ten])
    prudent.resume(tmp_path, env=Random)
    assert "resume is inexact" in capsys.readouterr().out


def raise_at_ten(line):
    if line["step"] == 10:
        raise Pruned


def test_the_settings_of_a_run_are_checked_when_it_is_read(tmp_path):
    train(tmp_path)
    record = json.loads((tmp_path / "run.json").read_text())
    for change, message in (
        ({"discount": 1.5}, "--discount is 1.5"),
        ({"discount": 0.5}, "do not have the identity"),
        ({"colour": 1}, "unexpected keyword argument 'colour'"),
    ):
        altered = json.loads(json.dumps(record))
        altered["run"]["config"] |= change
        (tmp_path / "run.json").write_text(json.dumps(altered))
        with pytest.raises(ValueError, match=message):
            prudent.load(tmp_path)


def test_training_episodes_reach_the_sinks(tmp_path):
    tensorboard = pytest.importorskip("tensorboardX")
    assert tensorboard
    train(tmp_path, log=["tensorboard"])
    written = b"".join(path.read_bytes() for path in (tmp_path / "tensorboard").iterdir())
    for name in (b"training_episode/cost", b"training_episode/return", b"evaluation/cost"):
        assert name in written


def test_importing_the_library_imports_neither_jax_nor_gymnasium():
    code = (
        "import sys, prudent\n"
        "prudent.load_exported\n"
        "assert not {'jax', 'gymnasium', 'mujoco'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_negative_budget_must_be_meant(tmp_path):
    with pytest.raises(ValueError, match="say so with negative_costs=True"):
        train(tmp_path, budget=-1.0)
    train(tmp_path, budget=-1.0, negative_costs=True)
    assert json.loads((tmp_path / "run.json").read_text())["run"]["budget"] == -1.0


def test_what_the_environments_of_a_task_share_is_not_guessed_from_names():
    from prudent.tasks.finding import find_task

    own = find_task("drone-velocity", foreign.make, budget=1.0, horizon=10)
    entry = ALGORITHMS["cal"]
    assert list(entry.presets(own)) == ["default"]
    assert entry.presets(own)["default"] == {
        "dual_states": "recent",
        "calibration": "episodes",
        "cost_bounds": "task",
    }
    ours = replace(own, name="car-park")
    assert ours.family == "other"
