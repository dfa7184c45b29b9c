"""When updates are made."""

import shutil
from types import SimpleNamespace

import pytest
from probes import DELAYED
from support import lines, open_quietly, small_run, train_quietly

from prudent.runs.folder import run_from_json
from prudent.settings.run import identity_of, run_to_json
from prudent.settings.schedules import OffPolicySchedule
from prudent.training import off_policy
from prudent.training.off_policy import call_sizes, end_block, take_step


@pytest.fixture
def counting(monkeypatch):
    """Sessions of a schedule whose blocks of updates are counted, not made."""

    def learn(session, updates, first):
        session.collector.updates_this_epoch += updates

    monkeypatch.setattr(off_policy, "learn", learn)

    def session(**schedule):
        schedule = OffPolicySchedule(**schedule)
        replay = SimpleNamespace(size=schedule.batch_size)
        counters = dict.fromkeys(
            ("block_steps", "block_episodes", "updates_owed", "updates_this_epoch"), 0
        )
        collector = SimpleNamespace(schedule=schedule, replay=replay, **counters)
        return SimpleNamespace(collector=collector, step=0)

    return session


def updates_by_epoch(session, epochs, horizon=1000):
    made = []
    for epoch in range(epochs):
        session.collector.updates_this_epoch = 0
        for session.step in range(epoch * horizon, (epoch + 1) * horizon):
            session.collector.block_steps += 1
            end_block(session)
        made.append(session.collector.updates_this_epoch / horizon)
    return made


@pytest.mark.parametrize(
    ("ratio", "effective"),
    [
        (10, [5, 10, 10]),
        (20, [5, 10, 15, 20, 20]),
        (40, [5, 10, 15, 20, 25, 30, 35, 40, 40]),
        (1, [1, 1]),
    ],
)
def test_the_cap_ramps_the_ratio_up(ratio, effective, counting):
    session = counting(updates_per_step=ratio, updates_cap=5.0)
    assert updates_by_epoch(session, len(effective)) == pytest.approx(effective, abs=0.1)


def test_total_updates_of_a_paper_run(counting):
    session = counting(updates_per_step=10, updates_cap=5.0)
    assert sum(updates_by_epoch(session, 300)) * 1000 == pytest.approx(2_995_000, abs=100)


def test_no_cap_never_skips(counting):
    session = counting(updates_per_step=20, updates_cap=None)
    assert updates_by_epoch(session, 2) == [20, 20]


def test_the_first_steps_by_hand(counting):
    session = counting(updates_per_step=10, updates_cap=5.0)
    assert blocks(session, [1] * 4) == [10, 0, 10, 0]


def blocks(session, lengths):
    """Updates after each of these numbers of steps, which end as many episodes as a block has."""
    collector, made = session.collector, []
    for session.step, steps in enumerate(lengths):
        before = collector.updates_this_epoch
        collector.block_steps = steps
        collector.block_episodes = collector.schedule.update_every
        end_block(session)
        made.append(collector.updates_this_epoch - before)
    return made


def test_a_fraction_of_an_update_is_carried_over(counting):
    session = counting(updates_per_step=0.5, updates_cap=None)
    assert blocks(session, [3, 4, 5]) == [1, 2, 3]
    session = counting(updates_per_step=0.1, updates_cap=None)
    assert blocks(session, [1] * 20) == [*[0] * 9, 1, *[0] * 9, 1]


def test_twenty_episodes_make_1066_updates(counting):
    session = counting(
        updates_per_step=0.13325, update_every=20, update_unit="episodes", updates_cap=None
    )
    assert blocks(session, [8000] * 50) == [1066] * 50
    sizes = call_sizes(session.collector.schedule, 1066)
    assert sum(sizes) == 1066
    assert set(sizes) <= {64, 8, 1}
    assert len(sizes) == 16 + 5 + 2


@pytest.mark.parametrize("ratio", [1, 10, 40])
def test_the_same_few_updates_each_step_are_one_call(ratio):
    assert call_sizes(OffPolicySchedule(updates_per_step=ratio), ratio) == [ratio]


SCHEDULES = {
    # name: (settings, updates after each of the first 12 steps of two-step episodes)
    "every step": ({"updates_per_step": 2}, [2 * n for n in range(1, 13)]),
    "blocks of steps": (
        {"updates_per_step": 1, "update_every": 5},
        [0, 0, 0, 0, 5, 5, 5, 5, 5, 10, 10, 10],
    ),
    "blocks of episodes": (
        {"updates_per_step": 0.7, "update_every": 2, "update_unit": "episodes"},
        [0, 0, 0, 2, 2, 2, 2, 5, 5, 5, 5, 8],  # 2.8, 5.6, 8.4
    ),
    "no rows for a batch of 8 at first": (
        {"updates_per_step": 1, "warmup_steps": 0},
        [0, 0, 0, 0, 0, 0, 0, 8, 9, 10, 11, 12],
    ),
    "nor for blocks of episodes": (
        {"updates_per_step": 0.5, "update_unit": "episodes", "warmup_steps": 0},
        [0, 0, 0, 0, 0, 0, 0, 4, 4, 5, 5, 6],
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_loop_keeps_the_schedule(name, tmp_path):
    values, expected = SCHEDULES[name]
    run = small_run(DELAYED, updates_cap=None, **values)
    session = open_quietly(run, DELAYED, tmp_path)
    made = []
    with session.closing:
        while session.step < 12:
            take_step(session)
            made.append(session.updates)
    assert not any(made[:-12])  # none during the warm-up
    assert made[-12:] == expected
    assert int(session.state.updates) == expected[-1]


def test_a_replay_smaller_than_a_batch_is_refused(tmp_path):
    with pytest.raises(ValueError, match="a replay of 7 never holds a batch of 8"):
        train_quietly(small_run(DELAYED, replay_capacity=7), DELAYED, tmp_path)


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [
        *((name, "cal") for name in SCHEDULES),
        *(("blocks of episodes", algorithm) for algorithm in ("sac-pid", "wcsac", "cvpo")),
    ],
)
def test_resumed_inside_a_block_as_if_it_had_never_stopped(name, algorithm, tmp_path):
    options = {"steps": 61, "checkpoint_every": 9, "target_steps": 3, "updates_cap": None}
    run = small_run(DELAYED, algorithm, **{**options, **SCHEDULES[name][0]})
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train_quietly(run, DELAYED, whole)
    shutil.copytree(whole, cut)
    end = f"step-{61 + run.schedule.warmup_steps:09}"
    for path in (cut / "checkpoints").glob(f"{end}*"):
        path.unlink()  # what is left was saved 54 steps after the warm-up
    train_quietly(run, DELAYED, cut)
    for records in ("progress.jsonl", "episodes.jsonl"):
        assert lines(cut / records) == lines(whole / records)
    last = f"checkpoints/{end}.safetensors"
    assert (cut / last).read_bytes() == (whole / last).read_bytes()


def test_settings_that_came_later_leave_older_runs_their_names():
    run = small_run(DELAYED)
    fields = run_to_json(run)
    older = {name: v for name, v in fields["schedule"].items() if name != "target_steps"}
    stored = {**fields, "schedule": older}
    assert run_from_json(stored, 2) == run  # what is absent has the default
    assert identity_of(stored) != identity_of(fields)  # and its own name, which run.json states
    assert small_run(DELAYED, target_steps=2).identity() != run.identity()
