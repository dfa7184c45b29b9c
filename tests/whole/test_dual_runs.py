"""Runs with the options of the dual: probes whose replay is stale, resume, refusals, storing."""

import json
from dataclasses import replace
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from probes import INFEASIBLE, SLACK, OneStep, probe
from safetensors.numpy import load_file
from support import lines, place, small_run, train_quietly
from test_probes import first_action, solve

import prudent
from prudent.algorithms.cal import CALConfig
from prudent.report.groups import UNSTORED, described, shown
from prudent.runs.stored import run_from_json
from prudent.settings.checks import unstored
from prudent.settings.run import Run, run_to_json
from prudent.tasks import TASKS
from prudent.tasks.skid import BUDGET, HORIZON, best_return
from prudent.training import off_policy
from prudent.training.off_policy import take_ended, train
from prudent.training.replay import Replay
from prudent.training.replay_collector import Warmup

RECENT = {"dual_states": "recent", "recent_steps": 100}
CALIBRATED = {"calibration": "episodes", "calibration_episodes": 20}
BOUNDED = {"cost_bounds": "task"}
ALL = {**RECENT, **CALIBRATED, **BOUNDED}


class Stale(gymnasium.Env):
    """One action, then the end, as `OneStep`; but the first 200 episodes begin elsewhere, where
    every action costs `more` than it does now.
    """

    def __init__(self, more: float, old_episodes: int = 200) -> None:
        now = OneStep()
        self.observation_space, self.action_space = now.observation_space, now.action_space
        self._now, self._more, self._left = now, more, old_episodes

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._now.reset(seed=seed)
        self._left -= 1
        return np.full(1, float(self._left >= 0)), {}

    def step(self, action):
        _, reward, terminated, truncated, info = self._now.step(action)
        cost = info["cost"] + (self._more if self._left >= 0 else 0.0)
        return np.zeros(1), reward, terminated, truncated, {"cost": cost}


def stale(more: float):
    """Training's environment, the second to be made, is the only one that was ever elsewhere."""
    made: list[Stale] = []

    def make():
        made.append(Stale(more, 200 if len(made) == 1 else 0))
        return made[-1]

    return replace(probe("stale", make, 0.75, 1), cost_range=(-1.0, 4.0))


def late_cost(folder) -> float:
    """Mean of the last 300 training episodes."""
    written = (folder / "episodes.jsonl").read_text().splitlines()[-300:]
    return float(np.mean([json.loads(line)["cost"] for line in written]))


# All 200 old rows stay in the replay, at last among 1700 or 2200. Over them the mean cost is `more`
# higher, so that a multiplier that believes the replay holds 1 + a + more * share at 0.75.
MORE = (1.5, -1.0)


@pytest.mark.slow
@pytest.mark.parametrize("more", MORE)
def test_the_replay_misleads_the_multiplier(more, tmp_path, monkeypatch):
    monkeypatch.setattr("test_probes.SCHEDULES", {"cal": {"replay_capacity": 5000}})
    solve(stale(more), "cal", tmp_path / "run", 1500)
    found = late_cost(tmp_path / "run")
    assert (found < 0.68) if more > 0 else (found > 0.82)


@pytest.mark.slow
@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("options", [RECENT, CALIBRATED, ALL], ids=["recent", "episodes", "all"])
def test_each_option_finds_the_true_budget_whatever_the_replay_holds(
    options, more, tmp_path, monkeypatch
):
    monkeypatch.setattr("test_probes.SCHEDULES", {"cal": {"replay_capacity": 5000}})
    policy, _ = solve(stale(more), "cal", tmp_path / "run", 2000, **options)
    assert late_cost(tmp_path / "run") == pytest.approx(0.75, abs=0.07)
    assert first_action(policy, 1) == pytest.approx(-0.25, abs=0.12)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["cal", "sac-lag"])
def test_options_ignore_a_slack_budget(algorithm, tmp_path):
    task = replace(SLACK, cost_range=(0.0, 2.0))
    policy, last = solve(task, algorithm, tmp_path / "run", 1500, **ALL)
    assert first_action(policy, 1) == pytest.approx(0.5, abs=0.1)
    assert last["training"]["multiplier"] < 0.1


@pytest.mark.slow
def test_options_break_an_infeasible_budget_as_little_as_possible(tmp_path):
    task = replace(INFEASIBLE, cost_range=(1.0, 3.0))
    policy, last = solve(task, "cal", tmp_path / "run", 2500, **ALL)
    assert first_action(policy, 1) < -0.9
    assert last["training"]["multiplier"] > 4.0
    # The critics are right, so the budget stays about where it was.
    assert last["training"]["effective_budget"] == pytest.approx(0.5, abs=0.2)


def test_resume_with_all_options_is_exact(tmp_path):
    """Stopped where an episode ends, of which no update has heard yet."""
    options = {**ALL, "calibration_episodes": 1}
    task = replace(TASKS["skid"], horizon=6)
    run = small_run(task, config=CALConfig(hidden=(8, 8), **{**options, "recent_steps": 20}))
    train_quietly(run, task, tmp_path / "whole")
    stopping = place(run, task, tmp_path / "parts")
    train(replace(stopping, callbacks=(lambda line: line["step"] == 20,)), Warmup())
    train_quietly(run, task, tmp_path / "parts")
    for file in ("progress.jsonl", "episodes.jsonl"):
        assert lines(tmp_path / "whole" / file) == lines(tmp_path / "parts" / file)
    ends = [load_file(tmp_path / name / "checkpoints/step-000000100.safetensors")
            for name in ("whole", "parts")]  # fmt: skip
    assert ends[0].keys() == ends[1].keys()
    assert "state/dual/calibration/shift" in ends[0]
    for name, array in ends[0].items():
        np.testing.assert_array_equal(array, ends[1][name], err_msg=name)
    last = json.loads((tmp_path / "whole/progress.jsonl").read_text().splitlines()[-1])
    assert last["training"]["effective_budget"] != run.critic_budget()


def test_the_mean_cost_of_episodes_is_told_once_and_in_the_critics_unit():
    """Of three steps each, discounted by 0.5: (1 + 0.5 + 0.25) / 3 of their plain sum."""
    task = replace(TASKS["skid"], horizon=3)
    run = small_run(task, config=CALConfig(hidden=(8, 8), cost_discount=0.5, **CALIBRATED))
    collector = SimpleNamespace(ended_episodes=2, ended_cost=9.0)
    learner = SimpleNamespace(requires={"episodes": 1, "episode_cost": 1})
    session = SimpleNamespace(run=run, collector=collector, learner=learner)
    told = take_ended(session, 3)
    assert told["episodes"].tolist() == [2, 0, 0]
    assert told["episode_cost"][:, 0].tolist() == pytest.approx([4.5 * 1.75 / 3, 0.0, 0.0])
    assert not any(np.any(array) for array in take_ended(session, 1).values())


def test_episodes_of_the_warm_up_are_not_told(tmp_path, monkeypatch):
    told = []

    def listen(session, updates):
        told.append(take_ended(session, updates))
        return told[-1]

    monkeypatch.setattr(off_policy, "take_ended", listen)
    task = replace(TASKS["skid"], horizon=6)
    run = small_run(task, config=CALConfig(hidden=(8, 8), **CALIBRATED))
    train_quietly(run, task, tmp_path / "run")
    ended = (tmp_path / "run/episodes.jsonl").read_text().splitlines()
    phases = [json.loads(line)["phase"] for line in ended]
    assert phases.count("warmup") >= 2
    assert sum(int(each["episodes"].sum()) for each in told) == phases.count("training")


def test_recent_rows_are_the_last_ones():
    replay = Replay(capacity=50, observation_size=1, action_size=1)
    replay.write(0, np.arange(50, dtype=np.float32)[:, None] * np.ones((1, 7), np.float32))
    replay.write(50, np.arange(50, 75, dtype=np.float32)[:, None] * np.ones((1, 7), np.float32))
    replay.added = 75
    generator = np.random.default_rng(0)
    drawn = replay.rows[replay.draw_recent(generator, 200, 8, 30), 0]
    assert set(drawn.ravel()) == set(range(45, 75))
    assert all(len(set(batch)) == 8 for batch in drawn)
    few = replay.rows[replay.draw_recent(generator, 5, 8, 1000), 0]  # no more than there are
    assert few.min() >= 25


def orbit_run(**config) -> Run:
    return small_run(TASKS["orbit"], config=CALConfig(hidden=(4, 4), **config))


def test_unused_options_are_not_stored_and_used_ones_are():
    plain = run_to_json(orbit_run())
    assert "dual_states" not in plain["config"]
    assert "least_cost" not in plain
    used = run_to_json(orbit_run(recent_steps=500, **BOUNDED))
    assert used["config"]["recent_steps"] == 500
    assert (used["least_cost"], used["largest_cost"]) == (0.0, 1.0)
    for stored in (plain, used):
        read = run_from_json(json.loads(json.dumps(stored)), 2)
        assert run_to_json(read) == stored
    assert orbit_run().identity() != orbit_run(**BOUNDED).identity()


def test_bounds_of_what_is_to_come():
    run = orbit_run(**BOUNDED)
    least, largest = run.cost_ahead()
    assert least == 0.0
    assert largest == pytest.approx(1.0 / (1.0 - 0.99))  # critics look past a time limit
    ending = replace(run, schedule=replace(run.schedule, timeout_is_terminal=True))
    assert ending.cost_ahead()[1] == pytest.approx(sum(0.99**t for t in range(400)))
    hopper = small_run(TASKS["hopper-velocity"], config=CALConfig(hidden=(4, 4), **BOUNDED))
    assert hopper.cost_ahead() == (0.0, None)  # nobody knows how fast it can be
    negative = replace(run, least_cost=-2.0, largest_cost=-1.0)
    assert negative.cost_ahead() == (pytest.approx(-2.0 * largest), 0.0)
    silent = small_run(SLACK, config=CALConfig(hidden=(4, 4), **BOUNDED))
    assert silent.cost_ahead() == (0.0, None)  # who says nothing charges 0 or more
    either = replace(SLACK, cost_range=(-np.inf, np.inf))
    assert small_run(either, config=CALConfig(hidden=(4, 4), **BOUNDED)).cost_ahead() == (
        None,
        None,
    )
    endless = replace(run, config=replace(run.config, cost_discount=1.0))
    assert endless.cost_ahead() == (0.0, 400.0)


def test_what_cannot_be_meant_is_refused(tmp_path):
    with pytest.raises(ValueError, match="7 recent steps never make a batch of 8"):
        orbit_run(dual_states="recent", recent_steps=7)
    for wrong, message in {
        "cost_range": ((1, 0), r"the range of costs is \(1, 0\); the least and the"),
        "horizon": (2000, "the horizon is 2000, but the environment ends an episode after 400"),
        "initial_multiplier": (0.0, "is 0; with --multiplier log_adam it must be above 0"),
        "budget": (-3.0, r"the budget is -3, but a step costs 0 to 1, so that no episode costs le"),
    }.items():
        with pytest.raises(ValueError, match=message[1]):
            prudent.train(
                "cal", task="orbit", out=tmp_path / "b", negative_costs=wrong == "budget",
                quiet=True, **{wrong: message[0]},
            )  # fmt: skip
    assert not list(tmp_path.iterdir())


def test_a_cost_outside_its_declared_range_stops_the_run(tmp_path):
    task = replace(SLACK, cost_range=(0.0, 0.5))
    run = small_run(task, config=CALConfig(hidden=(4, 4), **BOUNDED))
    with pytest.raises(ValueError, match=r"slack: a step cost 1\.\d+, but .* at most 0\.5;"):
        train_quietly(run, task, tmp_path / "run")


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        ("sac", {}),
        ("cal", {"cost_bounds": "none"}),
        ("ppo", {"steps": 200, "epoch_steps": 200, "evaluate_every": 200}),
    ],
)
def test_a_range_that_was_given_is_held_whatever_uses_it(algorithm, options, tmp_path):
    few = {"steps": 20, "warmup_steps": 10, "evaluate_every": 20}
    with pytest.raises(ValueError, match=r"skid: a step cost .* at most 0\.001; say what they are"):
        prudent.train(
            algorithm, task="skid", cost_range=(0.0, 0.001), out=tmp_path / "run", quiet=True,
            hidden=(4, 4), **(options if algorithm == "ppo" else {**few, **options}),
        )  # fmt: skip


def test_a_log_outside_the_range_is_refused(tmp_path):
    count = 60
    log = {name: np.zeros((count, 3 if "obs" in name else 1)) for name in
           ("observation", "action", "next_observation")}  # fmt: skip
    log |= {name: np.zeros(count) for name in ("reward", "cost", "terminated")}
    size = TASKS["skid"].make().observation_space.shape[0]
    log |= {name: np.zeros((count, size)) for name in ("observation", "next_observation")}
    log["cost"][7] = 1.5
    few = {"steps": 20, "evaluate_every": 20, "hidden": (4, 4), "batch_size": 8}
    options = {"task": "skid", "cost_bounds": "task", "warmup": log, "quiet": True, **few}
    with pytest.raises(ValueError, match=r"warmup: row 7 of the log: skid: a step cost 1\.5, but"):
        prudent.train("cal", out=tmp_path / "run", **options)


@pytest.mark.parametrize("trap", ["skid", "stall"])
def test_the_known_answer_of_the_traps(trap):
    """A steady speed earns what the bound says, less for a throttle that comes too late."""
    env, speed = TASKS[trap].make(), np.sqrt(BUDGET / HORIZON)
    env.reset(seed=0)
    outcomes = [env.step(np.array([speed])) for _ in range(HORIZON)]
    assert outcomes[-1][3]
    earned, spent = sum(o[1] for o in outcomes), sum(o[4]["cost"] for o in outcomes)
    assert spent <= BUDGET * 1.001
    assert 0.98 * best_return(BUDGET) < earned <= best_return(BUDGET) + 1e-9
    for outcome in outcomes:
        assert outcome[1] <= np.sqrt(outcome[4]["cost"]) + 1e-12


@pytest.mark.parametrize(("trap", "throttle", "cost"), [("skid", 1.0, 1.0), ("stall", -1.0, 0.0)])
def test_the_traps_hold_until_the_episode_ends(trap, throttle, cost):
    env = TASKS[trap].make()
    env.reset(seed=0)
    for _ in range(10):
        env.step(np.array([throttle]))
    observation, reward, *_, info = env.step(np.array([0.0]))
    assert (observation[1], reward, info["cost"]) == (1.0, 0.0, cost)
    assert env.reset(seed=1)[0][1] == 0.0


def test_reports_know_what_is_not_stored():
    """A report reads files only, so that it has the defaults once more."""
    config = CALConfig()
    stored = {f"config.{name}" for name in unstored(config)}
    assert set(UNSTORED) == stored
    for name, value in UNSTORED.items():
        assert value == shown(getattr(config, name.removeprefix("config.")))
    known = {"config.hidden": "[4]"}
    assert described(known, "config.dual_states") == "dual_states=replay"
    assert described(known, "config.other") == "other not recorded"
