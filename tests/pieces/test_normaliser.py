"""The running scale of observations against NumPy on the whole stream."""

import numpy as np
import pytest

from prudent.pieces.normaliser import RunningScale

STREAM = np.random.default_rng(0).normal([5.0, -3.0, 0.0], [2.0, 0.5, 1e-9], (200, 3))


@pytest.mark.parametrize("together", [1, 8])
def test_mean_and_deviation_of_a_stream(together):
    scale = RunningScale(3)
    for first in range(0, 200, together):
        batch = STREAM[first : first + together]
        found = scale.see(batch)
        so_far = STREAM[: first + together]
        if len(so_far) > 1:
            deviation = np.maximum(so_far.std(axis=0, ddof=1), 0.01)
            expected = np.clip((batch - so_far.mean(axis=0)) / deviation, -5.0, 5.0)
            np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_allclose(scale.scaling().mean, STREAM.mean(axis=0), atol=1e-12)
    assert scale.scaling().deviation[2] == 0.01


@pytest.mark.parametrize("together", [1, 4])
def test_seen_all_at_once_is_seen_one_after_the_other(together):
    one_by_one, at_once = RunningScale(3), RunningScale(3)
    batches = STREAM.reshape(-1, together, 3)
    for part in np.split(batches, [20, 21]):  # from nothing, a single one, on from before
        expected = np.stack([one_by_one.see(batch) for batch in part])
        np.testing.assert_allclose(at_once.see_all(part), expected, atol=1e-7)
        np.testing.assert_allclose(at_once.to_array(), one_by_one.to_array(), atol=1e-9)


def test_the_first_sample_is_returned_raw():
    np.testing.assert_array_equal(RunningScale(3).see(STREAM[:1]), STREAM[:1])


def test_far_values_are_clipped():
    scale = RunningScale(1)
    scale.see(np.random.default_rng(1).normal(size=(100, 1)))
    assert scale.see(np.array([[1e3]]))[0, 0] == 5.0
    assert scale.see(np.array([[-1e6]]))[0, 0] == -5.0


def test_saved_and_restored_it_goes_on_the_same():
    first, second = RunningScale(3), RunningScale(3)
    first.see(STREAM[:50])
    second.from_array(first.to_array())
    np.testing.assert_array_equal(first.see(STREAM[50:60]), second.see(STREAM[50:60]))
    assert second.count == 60
