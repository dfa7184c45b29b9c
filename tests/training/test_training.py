"""The loop: what it stores, what it writes, and that it repeats itself exactly."""

import json
from dataclasses import replace

import gymnasium
import jax
import numpy as np
import pytest
from probes import ACTIVE, DELAYED, Delayed
from support import (
    CONFIG,
    SCHEDULE,
    build,
    lines,
    open_quietly,
    small_run,
    timeless,
    train_quietly,
)

import prudent
from prudent.runs.checkpoint import DamagedCheckpoint
from prudent.settings.constraint import Constraint
from prudent.tasks.adapter import open_environment
from prudent.tasks.task import Task
from prudent.training.guards import NonFinite
from prudent.training.learner import compile_for_rows, make_spec
from prudent.training.off_policy import take_step
from prudent.training.progress import probably_infeasible
from prudent.training.session import close_session


class Counting(gymnasium.Env):
    """Never ends by itself; a goal at every third step, which ends the reward's future only."""

    observation_space = gymnasium.spaces.Box(-1, 1e6, (1,), np.float64)
    action_space = gymnasium.spaces.Box(0.0, 10.0, (1,), np.float64)
    poison: dict[int, str] = {}  # noqa: RUF012

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return np.zeros(1), {}

    def step(self, action):
        self._time += 1
        goal = self._time % 3 == 0
        info = {"cost": 0.5, "reward_continues": float(not goal), "cost_continues": 1.0}
        values = {"observation": float(self._time), "reward": 1.0, "cost": 0.5}
        if self._time in self.poison:
            values[self.poison[self._time]] = np.inf
        info["cost"] = values["cost"]
        return np.full(1, values["observation"]), values["reward"], False, False, info


def counting(horizon=10):
    def make(render_mode=None):
        return Counting()

    return Task("counting", make, horizon, Constraint(1.0, discounted=False), "")


def stored(task, tmp_path, steps, **schedule):
    """The replay after some steps without learning."""
    run = small_run(task, warmup_steps=steps, **schedule)
    session = open_quietly(run, task, tmp_path)
    for _ in range(steps):
        take_step(session)
    close_session(session)
    replay = session.collector.replay
    return replay.rows[: replay.added]


@pytest.mark.parametrize("terminal", [False, True])
def test_masks_from_the_environment_to_the_replay(terminal, tmp_path):
    rows = stored(counting(), tmp_path, 12, timeout_is_terminal=terminal)
    reward_continues, cost_continues = rows[:, -3], rows[:, -2]
    goals = [0.0 if t % 3 == 0 else 1.0 for t in (*range(1, 11), 1, 2)]
    expected_cost = [1.0] * 12
    if terminal:  # the tenth step meets the time limit
        goals[9] = expected_cost[9] = 0.0
    np.testing.assert_array_equal(reward_continues, goals)
    np.testing.assert_array_equal(cost_continues, expected_cost)


def test_termination_ends_both_futures(tmp_path):
    rows = stored(DELAYED, tmp_path, 4)
    np.testing.assert_array_equal(rows[:, -4], [1, 0, 1, 0])
    np.testing.assert_array_equal(rows[:, -3], [1, 0, 1, 0])


def test_actions_reach_the_environment_in_its_units(tmp_path):
    environment = open_environment(counting())
    np.testing.assert_allclose(environment.to_environment(np.array([-1.0])), [0.0])
    np.testing.assert_allclose(environment.to_environment(np.array([0.5])), [7.5])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    run = small_run(counting())
    last = train_quietly(run, counting(), folder)
    return folder, run, last


def test_one_seed_gives_one_result_and_another_seed_another(finished, tmp_path):
    folder, run, _ = finished
    train_quietly(run, counting(), tmp_path / "again")
    for name in ("progress.jsonl", "episodes.jsonl"):
        assert lines(folder / name) == lines(tmp_path / "again" / name)
    train_quietly(replace(run, seed=1), counting(), tmp_path / "other")
    assert lines(folder / "progress.jsonl") != lines(tmp_path / "other" / "progress.jsonl")


def test_progress_is_complete(finished):
    folder, _, last = finished
    progress = [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]
    assert [line["step"] for line in progress] == [0, 20, 40, 60]
    assert "training" in progress[0]
    assert not progress[0]["training"]  # nothing was learned yet, so there is nothing to report
    expected = {
        "reward_critic_error", "cost_critic_error", "cost_estimate", "violation", "cost_weight",
        "multiplier", "temperature", "entropy", "ensemble_spread",
    }  # fmt: skip
    assert set(progress[1]["training"]) == expected
    assert progress[-1] == last
    evaluation = progress[-1]["evaluation"]
    assert evaluation["return"] == 10.0
    assert evaluation["cost"] == 5.0
    assert evaluation["length"] == 10.0
    assert evaluation["within_budget"] == 0.0
    assert timeless({"a_seconds": 1, "b_per_second": 2, "c": 3}) == {"c": 3}


def test_every_training_episode_is_recorded(finished):
    folder, _, _ = finished
    episodes = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    assert [e["step"] for e in episodes] == list(range(-30, 61, 10))
    assert [e["phase"] for e in episodes] == ["warmup"] * 4 + ["training"] * 6
    assert {e["return"] for e in episodes} == {10.0}
    assert {e["cost"] for e in episodes} == {5.0}


def test_snapshots_and_checkpoints_are_kept(finished):
    folder, _, _ = finished
    assert len(list((folder / "snapshots").glob("*.safetensors"))) == 2
    names = sorted(p.name for p in (folder / "checkpoints").glob("*.json"))
    assert names == ["step-000000090.json", "step-000000100.json"]


def test_discounted_cost_is_measured_as_the_budget_is(tmp_path):
    task = replace(counting(), constraint=Constraint(1.0, discounted=True))
    last = train_quietly(small_run(task, steps=20), task, tmp_path)
    assert last["evaluation"]["cost"] == pytest.approx(0.5 * (1 - 0.99**10) / 0.01)


@pytest.mark.parametrize("quantity", ["observation", "reward", "cost"])
def test_a_number_that_is_not_finite_stops_the_run(quantity, tmp_path, monkeypatch):
    # Time 9 is first reached in training's episodes after evaluation 20 was written.
    task = counting()
    run = small_run(task)
    session_step = 75

    real = Counting.step
    count = {"steps": 0}

    def step(self, action):
        result = list(real(self, action))
        if not evaluating["now"]:
            count["steps"] += 1
            if count["steps"] == session_step:
                if quantity == "observation":
                    result[0] = np.full(1, np.nan)
                elif quantity == "reward":
                    result[1] = np.inf
                else:
                    result[4]["cost"] = np.nan
        return tuple(result)

    evaluating = {"now": False}
    import prudent.training.progress as loop

    real_evaluate = loop.evaluate

    def evaluate(session):
        evaluating["now"] = True
        try:
            return real_evaluate(session)
        finally:
            evaluating["now"] = False

    monkeypatch.setattr(Counting, "step", step)
    monkeypatch.setattr(loop, "evaluate", evaluate)
    with pytest.raises(NonFinite) as error:
        train_quietly(run, task, tmp_path)
    assert f"step 34: the environment's {quantity} is not finite" in str(error.value)
    assert "Last good checkpoint: checkpoint at step 30" in str(error.value)
    assert len(lines(tmp_path / "progress.jsonl")) == 2


def test_a_learner_that_is_not_finite_stops_the_run(tmp_path):
    task = ACTIVE
    run = small_run(task, config=replace(CONFIG, learning_rate=1e30), steps=200)
    with pytest.raises(NonFinite, match=r"step \d+: the learner's .* is not finite"):
        train_quietly(run, task, tmp_path)


def test_the_update_is_compiled_once():
    task = counting()
    environment = open_environment(task)
    spec = make_spec(environment, 1.0)
    traces = []
    algorithm = build("cal", CONFIG, spec)

    def counted(state, data, key):
        traces.append(1)
        return algorithm.update(state, data, key)

    counting_traces = algorithm._replace(update=counted)
    learner = compile_for_rows(counting_traces, spec, SCHEDULE.batch_size, 0)
    known = len(traces)  # the metrics' names were found by one trace
    state = learner.init()
    rows = np.ones((2, 8, 7), np.float32)
    for step in range(3):
        state, _ = learner.update(state, {"rows": rows, "first": np.int32(0)}, step)
    assert len(traces) == known + 1


def test_no_random_key_is_used_twice():
    with jax.debug_key_reuse(True):
        spec = make_spec(open_environment(counting()), 1.0)
        algorithm = build("cal", replace(CONFIG, random_targets=2), spec)
        learner = compile_for_rows(algorithm, spec, SCHEDULE.batch_size, 0)
        rows = np.ones((2, 8, 7), np.float32)
        _, metrics = learner.update(learner.init(), {"rows": rows, "first": np.int32(0)}, 0)
    assert np.isfinite(metrics).all()


def test_infeasibility_needs_all_of_its_signs():
    def history(multipliers, violation=1.0, excess=1.0):
        return [{"multiplier": m, "violation": violation, "excess": excess} for m in multipliers]

    assert probably_infeasible(history(range(1, 11)))
    assert not probably_infeasible(history(range(1, 10)))
    assert not probably_infeasible(history([*range(1, 10), 5]))
    assert not probably_infeasible(history(range(1, 11), violation=-1.0))
    assert not probably_infeasible(history(range(1, 11), excess=-1.0))


SMALL = {
    "hidden": (8, 8), "steps": 20, "warmup_steps": 20, "updates_per_step": 1, "batch_size": 8,
    "replay_capacity": 100, "evaluate_every": 10, "evaluation_episodes": 2, "checkpoint_every": 10,
}  # fmt: skip


def test_the_limit_of_ones_own_environment_is_meant_of_its_episodes(tmp_path, capsys):
    short = {"env": Counting, "horizon": 10, **SMALL, "steps": 60, "calibration_episodes": 1}
    prudent.train("sac-lag", budget=3.0, out=tmp_path / "three", **short)
    assert "discounted by 0.99), calibrated by episodes\n" in capsys.readouterr().out
    prudent.train("sac-lag", budget=0.0, out=tmp_path / "none", **short)
    assert "discounted by 0.99); calibration has no effect on 0\n" in capsys.readouterr().out
    moved = {}
    for name in ("three", "none"):
        run = json.loads((tmp_path / name / "run.json").read_text())["run"]
        assert run["config"]["dual_states"] == "recent"
        assert run["config"]["calibration"] == "episodes"
        assert (run["config"]["cost_bounds"], run["least_cost"]) == ("task", 0.0)
        progress = (tmp_path / name / "progress.jsonl").read_text().splitlines()
        moved[name] = json.loads(progress[-1])["training"]["effective_budget"]
    assert moved["three"] != pytest.approx(2.86854, abs=1e-3)
    assert moved["none"] == 0.0


def test_a_budget_that_limits_nothing_is_told(tmp_path, capsys):
    short = {"env": Counting, "horizon": 10, "cost_range": (0.0, 1.0), **SMALL}
    for budget in (9.0, 500.0):
        prudent.train("cal", out=tmp_path / f"{budget:g}", budget=budget, **short)
        told = "no episode can cost more than 10, so it limits nothing" in capsys.readouterr().out
        assert told == (budget > 10.0)


def test_negative_costs_have_to_be_said(tmp_path):
    """Of an environment of one's own, whose estimates are otherwise kept at 0 or above."""

    def refund(observation, action, reward, terminated, truncated, info):
        return -0.5

    short = {"env": Counting, "horizon": 10, "cost": refund, "budget": 3.0, **SMALL}
    with pytest.raises(ValueError, match=r"a step cost -0\.5, but .* at least 0; say what"):
        prudent.train("cal", out=tmp_path / "unsaid", **short)
    prudent.train("cal", out=tmp_path / "said", negative_costs=True, **short)
    said = json.loads((tmp_path / "said" / "run.json").read_text())["run"]
    assert "least_cost" not in said


def test_an_environment_of_ones_own_from_python(tmp_path, capsys):
    result = prudent.train(
        "cal", env=Counting, budget=3.0, horizon=10, out=tmp_path / "run", **SMALL
    )
    assert "budget 3 (sum per episode, 10 steps), which the critic sees as 2.86854" in (
        capsys.readouterr().out
    )
    assert result.evaluation["cost"] == 5.0
    policy = prudent.load(result.folder)
    action = policy(np.zeros(1))
    assert action.shape == (1,)
    assert 0.0 <= action[0] <= 10.0
    assert policy(np.zeros((4, 1))).shape == (4, 1)
    found = prudent.evaluate(result.folder, episodes=3, env=Counting)
    assert found["evaluation"]["returns"] == [10.0] * 3
    assert found["evaluation"]["cost_interval"] == (5.0, 5.0)
    snapshot = prudent.load(result.folder, step=20)
    np.testing.assert_array_equal(snapshot(np.zeros(1)), action)
    with pytest.raises(ValueError, match=r"no snapshot at step 7; there is: \[20\]"):
        prudent.load(result.folder, step=7)


class SixTuple(Delayed):
    """The cost as the third of six, as Safety-Gymnasium has it."""

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, info.pop("cost"), terminated, truncated, info


def test_a_six_tuple_environment(tmp_path):
    environment = open_environment(replace(DELAYED, make=SixTuple))
    environment.reset(0)
    assert environment.step(np.array([0.5])).cost == 0.0
    assert environment.step(np.array([0.5])).cost == 1.5


def test_warmup_by_a_policy(tmp_path):
    seen = []

    def safe(observation):
        seen.append(observation)
        return np.array([2.5])

    result = prudent.train(
        "cal", env=Counting, budget=3.0, horizon=10, out=tmp_path, warmup=safe, quiet=True, **SMALL
    )
    assert len(seen) == 20
    assert result.evaluation["length"] == 10
    for path in tmp_path.glob("checkpoints/*"):
        path.unlink()
    with pytest.raises(DamagedCheckpoint, match="there are records but no checkpoint"):
        prudent.resume(tmp_path, env=Counting, quiet=True)
    (tmp_path / "progress.jsonl").unlink()
    with pytest.raises(ValueError, match=r"stopped during its warm-up \(policy\)"):
        prudent.resume(tmp_path, env=Counting, quiet=True)
    with pytest.raises(ValueError, match="began with warm-up policy, not log-"):
        prudent.resume(tmp_path, env=Counting, warmup=log(), quiet=True)


def log(rows=30, **changes):
    columns = {
        "observation": np.zeros((rows, 1)),
        "action": np.full((rows, 1), 5.0),
        "reward": np.ones(rows),
        "cost": np.ones(rows),
        "next_observation": np.zeros((rows, 1)),
        "terminated": np.zeros(rows),
    }
    return {**columns, **changes}


def test_warmup_by_logged_transitions(tmp_path):
    np.savez(tmp_path / "log.npz", **log())
    result = prudent.train(
        "cal", env=Counting, budget=3.0, horizon=10, out=tmp_path / "run",
        warmup=tmp_path / "log.npz", quiet=True, **SMALL,
    )  # fmt: skip
    settings = json.loads((result.folder / "run.json").read_text())["run"]
    assert settings["schedule"]["warmup_steps"] == 0
    assert settings["warmup"].startswith("log-")
    steps = [json.loads(s)["step"] for s in lines(result.folder / "progress.jsonl")]
    assert steps == [0, 10, 20]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (log(rows=3), "3 logged transitions; between 8"),
        (log(action=np.full((30, 1), 11.0)), "some actions lie outside"),
        (log(cost=np.full(30, np.nan)), "cost holds a NaN"),
        (log(observation=np.zeros((30, 2))), r"observation has shape \(30, 2\)"),
        ({"reward": np.zeros(30)}, "the log has no observation, action, cost"),
        (3, "a policy .* is needed, not int"),
    ],
)
def test_a_warmup_that_does_not_fit_is_refused(source, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        prudent.train(
            "cal",
            env=Counting,
            budget=3.0,
            horizon=10,
            out=tmp_path / "run",
            warmup=source,
            **SMALL,
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["hopper-velocity", "point-button1", "car-button1-random"])
def test_going_on_in_the_middle_of_an_episode_changes_nothing(name, tmp_path):
    task = prudent.TASKS[name]
    run = small_run(task, steps=40, warmup_steps=25, evaluate_every=40, evaluation_episodes=1)
    train_quietly(run, task, tmp_path)
    before = {f: lines(tmp_path / f) for f in ("progress.jsonl", "episodes.jsonl")}
    for path in (tmp_path / "checkpoints").glob("step-000000065*"):
        path.unlink()
    train_quietly(run, task, tmp_path)
    assert {f: lines(tmp_path / f) for f in before} == before


def test_a_deterministic_reset_is_evaluated_once_greedily_and_by_sampled_actions(tmp_path):
    task = replace(counting(), deterministic_reset=True)
    last = train_quietly(small_run(task, steps=20, evaluation_episodes=3), task, tmp_path)
    assert len(last["evaluation"]["returns"]) == 1
    assert len(last["sampled_evaluation"]["returns"]) == 3
