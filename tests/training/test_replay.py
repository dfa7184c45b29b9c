import numpy as np
import pytest

from prudent.pieces.types import batch_from_rows
from prudent.tasks.adapter import Outcome
from prudent.training.replay import Discounts, Replay, distinct


def outcome(value: float) -> Outcome:
    return Outcome(np.full(2, value), value, value / 2, False, False, 1.0, 0.0, {})


def filled(count, capacity=5):
    replay = Replay(capacity, 2, 1)
    for i in range(count):
        replay.add(np.full(2, i), np.array([i / 10]), outcome(float(i)))
    return replay


def test_rows_read_back_as_transitions():
    replay = filled(3)
    found = batch_from_rows(replay.rows[2], 2, 1)
    np.testing.assert_array_equal(found.observation, [2, 2])
    np.testing.assert_allclose(found.action, [0.2])
    assert (found.reward, found.cost) == (2.0, 1.0)
    assert (found.reward_continues, found.cost_continues) == (1.0, 0.0)
    np.testing.assert_array_equal(found.next_observation, [2, 2])


def test_the_oldest_row_goes_first():
    replay = filled(7)
    assert (replay.size, replay.first) == (5, 2)
    np.testing.assert_array_equal(np.sort(replay.rows[:, 0]), [2, 3, 4, 5, 6])
    np.testing.assert_array_equal(replay.read(3, 7)[:, 0], [3, 4, 5, 6])


def test_rows_written_back_stand_where_they_stood():
    replay, copy = filled(7), Replay(5, 2, 1)
    copy.write(2, replay.read(2, 7))
    np.testing.assert_array_equal(copy.rows, replay.rows)


@pytest.mark.parametrize(("size", "batch"), [(1000, 12), (30, 12), (12, 12)])
def test_a_batch_never_repeats_a_row(size, batch):
    indices = distinct(np.random.default_rng(0), size, 200, batch)
    assert indices.shape == (200, batch)
    assert all(len(set(row)) == batch for row in indices.tolist())
    assert indices.min() >= 0
    assert indices.max() < size


@pytest.mark.parametrize("size", [20, 200])
def test_every_row_is_as_likely(size):
    counts = np.bincount(
        distinct(np.random.default_rng(0), size, 20_000, 4).ravel(), minlength=size
    )
    expected = 20_000 * 4 / size
    assert np.abs(counts - expected).max() < 6 * np.sqrt(expected)


def step_outcome(value, then, reward_continues=1.0):
    return Outcome(np.full(2, then), value, 10.0 * value, False, False, reward_continues, 1.0, {})


def test_targets_of_several_steps_by_hand():
    # One episode 0 -> 1 -> 2 -> 3 whose second reward is the last to count, then another begins.
    replay = Replay(6, 2, 1)
    replay.added = 4  # so that the episode wraps around the end of the memory
    for value, now, then, continues in (
        (1.0, 0.0, 1.0, 1.0),
        (2.0, 1.0, 2.0, 0.0),
        (4.0, 2.0, 3.0, 1.0),
        (8.0, 7.0, 8.0, 1.0),
    ):
        replay.add(np.full(2, now), np.zeros(1), step_outcome(value, then, continues))
    replay.added = 10 + 4  # the memory is full: the newest row stands at place 1
    replay.rows[2] = replay.rows[0]  # an older row that would seem to go on after the newest
    replay.rows[2, :2] = 8.0

    found = replay.look_ahead(np.array([4, 5, 0, 1]), 3, Discounts(0.5, 0.1))
    found = batch_from_rows(found, 2, 1)
    np.testing.assert_allclose(found.reward, [1 + 0.5 * 2, 2.0, 4.0, 8.0])
    np.testing.assert_allclose(found.reward_continues, [0.0, 0.0, 1.0, 1.0])
    np.testing.assert_allclose(found.cost, [10 + 0.1 * 20 + 0.01 * 40, 20 + 4, 40, 80], rtol=1e-6)
    np.testing.assert_allclose(found.cost_continues, [0.01, 0.1, 1.0, 1.0])
    np.testing.assert_array_equal(found.next_observation[:, 0], [3, 3, 3, 8])
    np.testing.assert_array_equal(found.observation[:, 0], [0, 1, 2, 7])
