"""The two training loops around learners of a few lines: when things happen, and with which seeds.

What a loop should do is said here a second time, from the episodes that the seeds will bring.
"""

import json
import os
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest
from support import lines, open_quietly, prepared, small_run, train_quietly
from varied import (
    BIAS,
    GREEDY,
    HORIZON,
    LOG_STD,
    SAMPLED,
    Calls,
    Course,
    Varied,
    off_policy_learner,
    on_policy_learner,
    seed_of,
    varied,
)

from prudent.algorithms import ALGORITHMS
from prudent.algorithms.resolve import Settings, make_run
from prudent.settings.schedules import OnPolicySchedule
from prudent.tasks.episodes import EVALUATION_SEED
from prudent.training import epoch_collector, off_policy
from prudent.training import run as run_module
from prudent.training.epoch_collector import collect, open_on_policy
from prudent.training.evaluation import evaluate_and_record
from prudent.training.session import NonFinite

STEPS, WARMUP = 60, 13  # the warm-up ends in the middle of an episode


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    """The learners of these tests, and what they were asked. No environment is probed."""
    found = Calls()
    monkeypatch.setattr(Varied, "lives", [])
    monkeypatch.setattr(run_module, "probe", lambda environment: None)
    monkeypatch.setattr(run_module, "compile_for_rows", lambda *_: off_policy_learner(found))
    monkeypatch.setattr(epoch_collector, "compiled", lambda *_: on_policy_learner(found))
    return found


def run_of(task, seed=0, **schedule):
    usual = {"steps": STEPS, "warmup_steps": WARMUP, "updates_cap": None, "replay_capacity": 500}
    return small_run(task, "sac", seed, **{**usual, **schedule})


def on_policy_run(task, seed=0, **schedule):
    usual = {
        "steps": 100, "epoch_steps": 30, "evaluate_every": 40, "snapshot_every": 50,
        "checkpoint_every": 45, "evaluation_episodes": 3,
    }  # fmt: skip
    chosen = Settings(
        ALGORITHMS["ppo-lag"].config(hidden=(3,)), OnPolicySchedule(**{**usual, **schedule})
    )
    return make_run("ppo-lag", task, "default", seed, chosen)


def courses(seed, steps):
    """The episodes of that many steps, and for each the step after its last."""
    found, at = [], 0
    while at < steps:
        course = Course(seed_of(seed, len(found)))
        at += course.steps
        found.append((course, at))
    return found


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


# Seeds


@pytest.mark.parametrize("seed", [0, 3])
def test_every_training_episode_starts_from_its_own_seed(seed, tmp_path):
    train_quietly(run_of(varied(), seed), varied(), tmp_path)
    known = courses(seed, WARMUP + STEPS)
    begun = len(known) + (known[-1][1] == WARMUP + STEPS)  # the next begins where one ends
    training = max(Varied.lives, key=lambda life: len(life.seeds))
    assert training.seeds[:begun] == [seed_of(seed, index) for index in range(begun)]
    assert len(set(training.seeds)) == len(training.seeds)


def test_on_policy_episodes_go_on_counting(tmp_path):
    run = on_policy_run(varied(), seed=2, environments=2, epoch_steps=40, steps=80)
    session = open_on_policy(prepared(run, varied(), tmp_path))
    with session.closing:
        collect(session)
        collect(session)
    begun = session.collector.episodes_begun
    seeds = sorted(
        s for e in session.collector.environments.environments for s in e.unwrapped.life.seeds
    )
    assert seeds == sorted(seed_of(2, index) for index in range(begun))


def test_evaluations_start_where_training_never_does(tmp_path):
    train_quietly(run_of(varied(), evaluation_episodes=3), varied(), tmp_path)
    training, *others = sorted(Varied.lives, key=lambda life: -len(life.seeds))
    expected = [seed_of(EVALUATION_SEED, index) for index in range(3)]
    evaluating = [life for life in others if life.seeds]
    assert [set(life.seeds) for life in evaluating] == [{seed} for seed in expected]
    assert not set(training.seeds) & set(expected)
    # Each of the four evaluations plays an episode to its end and not beyond.
    for life, seed in zip(evaluating, expected, strict=True):
        assert [len(actions) for actions in life.actions] == [Course(seed).steps] * 4
        assert {a for actions in life.actions for a in actions} == {2 * GREEDY + 1}


# What is recorded


@pytest.mark.parametrize("discounted", [False, True])
def test_records_of_episodes_by_their_courses(discounted, tmp_path):
    task = varied(discounted=discounted)
    run = run_of(task)
    run = replace(run, config=replace(run.config, discount=0.9, cost_discount=0.6))
    train_quietly(run, task, tmp_path)
    episodes = read(tmp_path / "episodes.jsonl")
    known = [(c, at) for c, at in courses(0, WARMUP + STEPS) if at <= WARMUP + STEPS]
    assert [e["step"] for e in episodes] == [at - WARMUP for _, at in known]
    assert [e["length"] for e in episodes] == [c.steps for c, _ in known]
    assert [e["phase"] for e in episodes] == [
        "warmup" if at - c.steps < WARMUP else "training" for c, at in known
    ]
    straddling = [e for e in episodes if e["step"] > 0 and e["step"] < e["length"]]
    assert [e["phase"] for e in straddling] == ["warmup"]  # part of it, then, is untrained
    factor = run.config.cost_discount if discounted else 1.0
    costs = [sum(factor ** (t - 1) * c.cost(t) for t in range(1, c.steps + 1)) for c, _ in known]
    assert [e["cost"] for e in episodes] == pytest.approx(costs)
    training = max(Varied.lives, key=lambda life: len(life.seeds))
    assert [e["return"] for e in episodes] == pytest.approx(
        [sum(actions) for actions in training.actions[: len(episodes)]]
    )


def test_progress_by_hand(calls, tmp_path):
    calls.metrics = lambda count: np.array([float(count), -1.0])
    last = train_quietly(run_of(varied(), evaluate_every=20), varied(), tmp_path)
    progress = read(tmp_path / "progress.jsonl")
    assert [line["step"] for line in progress] == [0, 20, 40, 60]
    assert [line["updates"] for line in progress] == [0, 40, 80, 120]
    begun = [sum(at <= WARMUP + s for _, at in courses(0, WARMUP + STEPS)) for s in (0, 20, 40, 60)]
    assert [line["episodes"] for line in progress] == begun
    # Means since the last evaluation, of calls 1 to 20, 21 to 40 and so on.
    assert progress[0]["training"] == {}
    assert [p["training"]["multiplier"] for p in progress[1:]] == [10.5, 30.5, 50.5]
    assert all(
        p["updates_per_second"] * p["window_seconds"] == pytest.approx(40) for p in progress[1:]
    )
    ends = [Course(seed_of(EVALUATION_SEED, i)) for i in range(2)]
    costs = [sum(c.cost(t) for t in range(1, c.steps + 1)) for c in ends]
    evaluation = last["evaluation"]
    assert evaluation["costs"] == pytest.approx(costs)
    assert evaluation["returns"] == [1.5 * c.steps for c in ends]
    assert evaluation["lengths"] == [c.steps for c in ends]
    assert evaluation["cost"] == pytest.approx(np.mean(costs))
    assert evaluation["within_budget"] == np.mean([cost <= 4.0 for cost in costs])


def test_the_history_holds_what_exceeds_the_budget(calls, tmp_path):
    calls.metrics = lambda count: np.array([float(count), 3.0])
    run = run_of(varied(), steps=120, evaluate_every=10)
    session = open_quietly(run, varied(), tmp_path)
    with session.closing:
        off_policy.run_to_end(session)
    cost = session.last_line["evaluation"]["cost"]
    assert {entry["excess"] for entry in session.history} == {cost - 4.0}
    assert {entry["violation"] for entry in session.history} == {3.0}
    assert len(session.history) == 10
    marked = ["probably_infeasible" in line for line in read(tmp_path / "progress.jsonl")]
    assert marked == [False] * 10 + [True] * 3  # after ten with a multiplier that only grew


def test_sampled_evaluations_are_sampled_anew_at_every_step(calls, tmp_path):
    task = varied(deterministic_reset=True)
    last = train_quietly(run_of(task, steps=20, evaluation_episodes=3), task, tmp_path)
    greedy, sampled = last["evaluation"], last["sampled_evaluation"]
    lengths = [Course(seed_of(EVALUATION_SEED, index)).steps for index in range(3)]
    assert greedy["lengths"] == lengths[:1]
    assert greedy["returns"] == [1.5 * lengths[0]]
    assert sampled["lengths"] == lengths
    drawn = [2 * (SAMPLED + 0.125 * time) + 1 for time in range(HORIZON)]
    assert sampled["returns"] == pytest.approx([sum(drawn[:steps]) for steps in lengths])
    assert calls.sampled == 2 * list(range(max(lengths)))


# What is learned, and when


def test_no_two_calls_share_a_moment_and_blocks_are_counted_through(calls, tmp_path):
    run = run_of(varied(), updates_per_step=9, update_every=3)
    train_quietly(run, varied(), tmp_path)
    assert calls.acted == list(range(WARMUP + STEPS))
    moments = [moment for _, _, moment in calls.updates]
    assert len(set(moments)) == len(moments)
    # 27 updates a block: three calls of 8, three of 1.
    assert calls.updates[:6] == [
        (8, 0, 2), (8, 8, -9), (8, 16, -17), (1, 24, -25), (1, 25, -26), (1, 26, -27)
    ]  # fmt: skip
    assert calls.updates[6][:2] == (8, 0)
    assert calls.updates[6][2] == 5


def expected_updates(schedule, seed=0):
    """After each step, from the courses: blocks of whole episodes, however these end."""
    ends = {at - 1 - WARMUP for _, at in courses(seed, WARMUP + STEPS)}
    made, total, steps, episodes, owed, this_epoch = [], 0, 0, 0, 0.0, 0
    for step in range(STEPS):
        this_epoch = 0 if step % HORIZON == 0 else this_epoch
        steps, episodes = steps + 1, episodes + (step in ends)
        if (episodes if schedule.update_unit == "episodes" else steps) >= schedule.update_every:
            due = schedule.updates_per_step * steps + owed
            whole = int(due + 1e-6)
            steps, episodes, owed = 0, 0, due - whole
            if schedule.updates_cap is None or this_epoch <= schedule.updates_cap * step:
                total, this_epoch = total + whole, this_epoch + whole
        made.append(total)
    return made


@pytest.mark.parametrize(
    "values",
    [
        {"update_unit": "episodes", "update_every": 2, "updates_per_step": 0.7},
        {"update_unit": "episodes", "update_every": 1, "updates_per_step": 2},
        {"updates_per_step": 9, "updates_cap": 0.5},
        {"updates_per_step": 30, "updates_cap": 1.0, "update_every": 2},
    ],
)
def test_updates_follow_the_episodes_and_the_cap_begins_anew_each_epoch(values, tmp_path):
    run = run_of(varied(), **values)
    session = open_quietly(run, varied(), tmp_path)
    made = []
    with session.closing:
        while session.step < STEPS:
            off_policy.take_step(session)
            if session.step > 0:
                made.append(session.updates)
    assert made == expected_updates(run.schedule)
    assert len(set(made)) > 3


@pytest.mark.parametrize("terminal", [False, True])
def test_masks_where_episodes_terminate_are_truncated_or_cut(terminal, tmp_path):
    run = run_of(varied(), timeout_is_terminal=terminal)
    session = open_quietly(run, varied(), tmp_path)
    with session.closing:
        while session.step < STEPS:
            off_policy.take_step(session)
    replay = session.collector.replay
    masks = []
    for course, _ in courses(0, WARMUP + STEPS):
        ended = course.terminated or terminal
        masks += [1.0] * (course.steps - 1) + [0.0 if ended else 1.0]
    masks = masks[: WARMUP + STEPS]
    np.testing.assert_array_equal(replay.rows[: replay.added, 5], masks)
    np.testing.assert_array_equal(replay.rows[: replay.added, 6], masks)


def test_batches_are_rows_of_the_replay_and_all_of_them_come(calls, tmp_path):
    train_quietly(run_of(varied(), updates_per_step=20), varied(), tmp_path)
    drawn = {tuple(row) for packed in calls.rows for batch in packed for row in batch}
    assert len(drawn) == WARMUP + STEPS


def test_targets_of_several_steps_discount_each_signal_by_its_own(calls, tmp_path):
    run = run_of(varied(), target_steps=2, updates_per_step=9)
    run = replace(run, config=replace(run.config, discount=0.9, cost_discount=0.5))
    train_quietly(run, varied(), tmp_path)
    by_start = {Course(seed_of(0, i)).start: Course(seed_of(0, i)) for i in range(STEPS)}
    joined = 0
    for start, time, _, _, cost, reward_mask, cost_mask, _, then in np.concatenate(
        [packed.reshape(-1, 9) for packed in calls.rows]
    ):
        course = next(c for s, c in by_start.items() if s == pytest.approx(start, abs=1e-6))
        ends = course.terminated and then == course.steps
        if then == time + 2:
            joined += 1
            assert cost == pytest.approx(course.cost(time + 1) + 0.5 * course.cost(time + 2))
            assert (reward_mask, cost_mask) == pytest.approx((0.0, 0.0) if ends else (0.9, 0.5))
        else:
            assert cost == pytest.approx(course.cost(time + 1))
            assert (reward_mask, cost_mask) == ((0.0, 0.0) if ends else (1.0, 1.0))
    assert joined > 100


def test_a_policy_warms_up_in_its_own_units_and_no_longer(tmp_path):
    train_quietly(run_of(varied()), varied(), tmp_path, lambda seen: np.array([2.0 + seen[0]]))
    training = max(Varied.lives, key=lambda life: len(life.seeds))
    starts = [Course(seed).start for seed in training.seeds]
    taken = [
        (a, 2.0 + s) for s, actions in zip(starts, training.actions, strict=False) for a in actions
    ]
    assert all(a == pytest.approx(expected, abs=1e-6) for a, expected in taken[:WARMUP])
    assert not any(a == pytest.approx(expected, abs=1e-6) for a, expected in taken[WARMUP:STEPS])


def test_a_run_that_lacks_its_log_does_not_go_on(tmp_path):
    run = replace(run_of(varied(), warmup_steps=0), warmup="log-12345678")
    with pytest.raises(ValueError, match=r"log-12345678.*--warmup"):
        open_quietly(run, varied(), tmp_path)


def test_snapshots_and_evaluations_at_their_multiples_and_at_the_end(tmp_path):
    run = run_of(varied(), snapshot_every=25, evaluate_every=35, checkpoint_every=45)
    train_quietly(run, varied(), tmp_path)
    snapshots = sorted(p.stem for p in (tmp_path / "snapshots").glob("*"))
    assert snapshots == ["step-000000025", "step-000000050", "step-000000060"]
    assert [line["step"] for line in read(tmp_path / "progress.jsonl")] == [0, 35, 60]
    saved = sorted(p.stem for p in (tmp_path / "checkpoints").glob("*.json"))
    assert saved == [f"step-{WARMUP + 45:09}", f"step-{WARMUP + 60:09}"]


def test_a_window_over_the_last_episodes(calls, tmp_path):
    train_quietly(on_policy_run(varied(), cost_window=3), varied(), tmp_path)
    costs = [e["cost"] for e in read(tmp_path / "episodes.jsonl")]
    assert float(calls.rows[-1].violation) == pytest.approx(np.mean(costs[-3:]) - 4.0, rel=1e-5)


def test_updates_are_due_after_the_warm_up_only(calls, tmp_path):
    session = open_quietly(run_of(varied()), varied(), tmp_path)
    with session.closing:
        while session.step < 0:
            off_policy.take_step(session)
        assert session.collector.replay.size > session.collector.schedule.batch_size
        assert not calls.updates
        off_policy.take_step(session)
    assert calls.updates


# Stopping and going on


def interrupted_at(count, monkeypatch, numbers=(signal.SIGINT,)):
    """This process gets the signals during training's step of that number."""
    real, taken = Varied.step, []

    def step(self, action):
        if self.life is max(Varied.lives, key=lambda life: len(life.seeds)):
            taken.append(1)
            if len(taken) == count:
                for number in numbers:
                    os.kill(os.getpid(), number)
        return real(self, action)

    monkeypatch.setattr(Varied, "step", step)


def assert_same_run(folder, whole):
    for name in ("progress.jsonl", "episodes.jsonl"):
        assert lines(folder / name) == lines(whole / name)
    newest = [sorted((f / "checkpoints").glob("*.safetensors"))[-1] for f in (folder, whole)]
    assert newest[0].name == newest[1].name
    assert newest[0].read_bytes() == newest[1].read_bytes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_finishes_the_step_saves_and_goes_on_the_same(number, tmp_path, monkeypatch):
    run = run_of(varied(), checkpoint_every=1000, updates_per_step=0.7)
    train_quietly(run, varied(), tmp_path / "whole")
    before = signal.getsignal(number)
    with monkeypatch.context() as patch:
        patch.setattr(Varied, "lives", [])
        interrupted_at(WARMUP + 33, patch, (number,))
        with pytest.raises(KeyboardInterrupt):
            train_quietly(run, varied(), tmp_path / "cut")
    assert signal.getsignal(number) is before
    saved = sorted(p.stem for p in (tmp_path / "cut" / "checkpoints").glob("*.json"))
    assert saved == [f"step-{WARMUP:09}", f"step-{WARMUP + 33:09}"]
    train_quietly(run, varied(), tmp_path / "cut")
    assert_same_run(tmp_path / "cut", tmp_path / "whole")


def test_a_second_interrupt_stops_at_once(tmp_path, monkeypatch):
    interrupted_at(WARMUP + 33, monkeypatch, (signal.SIGINT, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        train_quietly(run_of(varied(), checkpoint_every=1000), varied(), tmp_path)
    saved = sorted(p.stem for p in (tmp_path / "checkpoints").glob("*.json"))
    assert saved == [f"step-{WARMUP:09}"]


def test_an_interrupted_epoch_is_finished_saved_and_gone_on_from(tmp_path, monkeypatch):
    run = on_policy_run(varied(), checkpoint_every=1000, normalise_reward=True, normalise_cost=True)
    train_quietly(run, varied(), tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(Varied, "lives", [])
        interrupted_at(44, patch)
        with pytest.raises(KeyboardInterrupt):
            train_quietly(run, varied(), tmp_path / "cut")
    saved = sorted(p.stem for p in (tmp_path / "cut" / "checkpoints").glob("*.json"))
    assert saved[0] == f"step-{0:09}"
    assert saved[-1] in (f"step-{30:09}", f"step-{60:09}")
    train_quietly(run, varied(), tmp_path / "cut")
    assert_same_run(tmp_path / "cut", tmp_path / "whole")


def test_a_state_that_is_not_finite_is_not_saved(calls, tmp_path):
    calls.poison_at = 25  # of two updates a step: within step 24
    with pytest.raises(NonFinite, match=r"step 30: the learner's state \(sum\).*at step 20 in"):
        train_quietly(run_of(varied()), varied(), tmp_path)
    saved = sorted(p.stem for p in (tmp_path / "checkpoints").glob("*.json"))
    assert saved == [f"step-{WARMUP + 10:09}", f"step-{WARMUP + 20:09}"]


def test_nor_by_the_other_loop(calls, tmp_path):
    calls.poison_at = 2
    with pytest.raises(NonFinite, match="the learner's state"):
        train_quietly(on_policy_run(varied()), varied(), tmp_path)
    assert [p.stem for p in (tmp_path / "checkpoints").glob("*.json")] == [f"step-{0:09}"]


def test_resumed_from_any_checkpoint_it_ends_the_same(tmp_path):
    run = run_of(varied(), checkpoint_every=11, updates_per_step=0.7, replay_capacity=30)
    last = train_quietly(run, varied(), tmp_path / "whole")
    assert train_quietly(run, varied(), tmp_path / "whole") == last  # there is nothing left
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    for path in (tmp_path / "cut" / "checkpoints").glob(f"step-{WARMUP + STEPS:09}*"):
        path.unlink()
    train_quietly(run, varied(), tmp_path / "cut")
    assert_same_run(tmp_path / "cut", tmp_path / "whole")


# The on-policy loop


def test_what_falls_into_an_epoch_is_done_at_its_end(calls, tmp_path):
    train_quietly(on_policy_run(varied()), varied(), tmp_path)
    assert calls.updates == [(30, 0, 0), (30, 0, 30), (30, 0, 60), (10, 0, 90)]
    progress = read(tmp_path / "progress.jsonl")
    assert [line["step"] for line in progress] == [0, 60, 90, 100]
    assert [line["updates"] for line in progress] == [0, 2, 3, 4]
    assert [p["steps_per_second"] * p["window_seconds"] for p in progress] == pytest.approx(
        [0, 60, 30, 10]
    )
    snapshots = sorted(p.stem for p in (tmp_path / "snapshots").glob("*"))
    assert snapshots == ["step-000000060", "step-000000100"]
    saved = sorted(p.stem for p in (tmp_path / "checkpoints").glob("*.json"))
    assert saved == ["step-000000090", "step-000000100"]  # the last two of four
    remaining = [float(rollout.remaining) for rollout in calls.rows]
    assert remaining == pytest.approx([1.0, 0.7, 0.4, 0.1])


@pytest.mark.parametrize("seed", [0, 5])
def test_actions_are_the_mean_and_noise_of_the_policys_deviation(seed, calls, tmp_path):
    train_quietly(on_policy_run(varied(), seed), varied(), tmp_path)
    for (_, _, began), rollout in zip(calls.updates, calls.rows, strict=True):
        source = np.random.default_rng(np.random.SeedSequence((seed, 0xAC7, began)))
        noise = source.standard_normal(rollout.action.shape, np.float32)
        np.testing.assert_allclose(rollout.action, BIAS + np.exp(LOG_STD) * noise, atol=1e-6)


@pytest.mark.parametrize("terminal", [False, True])
def test_a_rollout_by_its_courses(terminal, calls, tmp_path):
    run = on_policy_run(varied(), timeout_is_terminal=terminal)
    train_quietly(run, varied(), tmp_path)
    index, ends, masks, costs, finished = 0, [], [], [], []
    for length in (30, 30, 30, 10):
        at = 0
        while at < length:
            course = Course(seed_of(0, index))
            index, taken = index + 1, min(course.steps, length - at)
            whole = taken == course.steps
            ends += [0.0] * (taken - 1) + [1.0]
            over = whole and (course.terminated or terminal)
            masks += [1.0] * (taken - 1) + [0.0 if over else 1.0]
            costs += [course.cost(t) for t in range(1, taken + 1)]
            if whole:
                finished.append(sum(costs[-taken:]))
            at += taken
            index += whole and at == length  # one begins at once, and the next epoch drops it
    joined = {
        name: np.concatenate([getattr(rollout, name)[:, 0] for rollout in calls.rows])
        for name in ("ends", "reward_continues", "cost_continues", "cost")
    }
    np.testing.assert_array_equal(joined["ends"], ends)
    np.testing.assert_array_equal(joined["reward_continues"], masks)
    np.testing.assert_array_equal(joined["cost_continues"], masks)
    np.testing.assert_allclose(joined["cost"], costs, rtol=1e-6)
    episodes = read(tmp_path / "episodes.jsonl")
    assert [e["cost"] for e in episodes] == pytest.approx(finished)
    assert {e["phase"] for e in episodes} == {"training"}
    assert float(calls.rows[-1].violation) == pytest.approx(np.mean(finished) - 4.0, rel=1e-5)
    taken = [np.clip(2 * r.action[:, 0, 0] + 1, -1, 3) for r in calls.rows]  # in its units
    rewards = [rollout.reward[:, 0] for rollout in calls.rows]
    np.testing.assert_allclose(np.concatenate(rewards), np.concatenate(taken), atol=1e-5)


@pytest.mark.parametrize("scaled", ["reward", "cost"])
def test_each_signal_is_brought_to_scale_by_its_own_option(scaled, calls, tmp_path):
    run = on_policy_run(varied(), **{f"normalise_{scaled}": True})
    train_quietly(run, varied(), tmp_path)
    other = "cost" if scaled == "reward" else "reward"
    found = {n: np.concatenate([getattr(r, n)[:, 0] for r in calls.rows]) for n in (scaled, other)}
    assert abs(found[scaled][1:].mean()) < 0.3  # about 0 instead of about 3 and 1
    assert found[other].mean() > 0.8


def test_evaluation_within_the_other_loop(tmp_path):
    last = train_quietly(on_policy_run(varied()), varied(), tmp_path)
    lengths = [Course(seed_of(EVALUATION_SEED, index)).steps for index in range(3)]
    assert last["evaluation"]["lengths"] == lengths
    assert last["evaluation"]["returns"] == [1.5 * steps for steps in lengths]


def test_an_evaluation_that_is_not_finite_stops_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(Course, "cost", lambda self, time: np.nan)
    session = open_quietly(run_of(varied()), varied(), tmp_path)
    with session.closing, pytest.raises(NonFinite, match=r"cost \(in an evaluation\)"):
        evaluate_and_record(session)
