"""Statistics against numbers worked out by hand, and against SciPy."""

import numpy as np
import pytest
from scipy import stats

from prudent import statistics


def generator():
    return np.random.default_rng(7)


def test_students_interval_of_a_mean():
    values = np.array([1.0, 2.0, 3.0, 6.0])
    expected = stats.t.interval(0.95, 3, loc=3.0, scale=np.sqrt(14 / 3) / 2)
    assert statistics.mean_interval(values) == pytest.approx(expected)
    assert statistics.mean_interval(values[:1]) is None
    wider = stats.t.interval(0.99, 3, loc=3.0, scale=np.sqrt(14 / 3) / 2)
    assert statistics.mean_interval(values, 0.99) == pytest.approx(wider)


def test_mean_and_deviation_over_seeds():
    found = statistics.mean_and_deviation(np.array([[1.0, 10.0], [3.0, 10.0]]))
    assert found.mean.tolist() == [2.0, 10.0]
    assert found.deviation.tolist() == pytest.approx([np.sqrt(2.0), 0.0])
    assert statistics.mean_and_deviation(np.array([[1.0, 10.0]])).deviation is None


def test_the_interquartile_mean_leaves_a_quarter_out_at_each_end():
    # Of eight values two go at each end: (3 + 4 + 5 + 6) / 4.
    assert statistics.interquartile_mean(np.array([900.0, 1, 3, 4, 5, 6, 2, -70])) == 3.5
    # Of six values one: 1.5 rounded down.
    assert statistics.interquartile_mean(np.array([0.0, 1, 2, 3, 4, 100])) == 2.5
    assert statistics.interquartile_mean(np.array([[0.0, 1, 2], [3, 4, 100]])) == 2.5


def test_the_bootstrap_is_scipys_and_answers_to_its_generator():
    values = np.array([1.0, 4.0, 2.0, 8.0, 5.0, 7.0])
    found = statistics.interquartile_summary([values], generator())
    expected = stats.bootstrap(
        (values,),
        lambda x, axis: stats.trim_mean(x, 0.25, axis=axis),
        vectorized=True,
        method="percentile",
        **{statistics.RANDOM: generator()},
    ).confidence_interval
    assert found.value == 4.5
    assert found.interval == pytest.approx((expected.low, expected.high))
    assert found.interval == statistics.interquartile_summary([values], generator()).interval
    assert (found.lowest, found.highest) == (1.0, 8.0)
    assert found.note == "95 % stratified bootstrap, 6 seeds"


def test_strata_are_resampled_by_themselves():
    """Two tasks far apart, hardly any spread within: pooled, the interval would be wide."""
    within = np.array([-0.1, 0.0, 0.1, -0.1, 0.0, 0.1])
    found = statistics.interquartile_summary([within, 100.0 + within], generator())
    low, high = found.interval
    assert found.value == pytest.approx(50.0)
    assert 49.8 < low < 50.0 < high < 50.2


@pytest.mark.parametrize("seeds", [1, 2, 3, 4])
def test_few_seeds_have_no_interval_and_a_reason(seeds):
    found = statistics.interquartile_summary([np.arange(float(seeds))], generator())
    assert found.interval is None
    assert ("one seed" if seeds == 1 else f"{seeds} seeds") in found.note
    assert (found.lowest, found.highest) == (0.0, seeds - 1.0)


def test_one_task_with_few_seeds_is_enough_to_have_no_interval():
    found = statistics.interquartile_summary([np.arange(9.0), np.arange(2.0)], generator())
    assert found.interval is None
    assert "2 seeds" in found.note


def test_equal_values_are_said_to_be_equal():
    found = statistics.interquartile_summary([np.full(6, 3.0)], generator())
    assert (found.value, found.interval) == (3.0, None)
    assert "equal" in found.note


def test_an_interval_covers_the_truth_about_as_often_as_it_says():
    draws = np.random.default_rng(0)
    inside = 0
    for _ in range(200):
        sample = draws.normal(size=30)
        low, high = statistics.bootstrapped(
            [sample], lambda x, axis: np.mean(x, axis=axis), draws, resamples=500
        ).interval
        inside += low <= 0.0 <= high
    assert 0.88 <= inside / 200 <= 0.99


def test_no_values_are_refused():
    with pytest.raises(ValueError, match="at least one value"):
        statistics.interquartile_summary([np.array([])], generator())


def test_the_final_window_is_the_last_tenth_of_the_steps():
    steps = np.arange(0, 1001, 50)
    values = np.stack([np.where(steps > 900, 4.0, -1.0), np.where(steps == 1000, 6.0, 0.0)])
    assert statistics.final_window(steps, values).tolist() == [4.0, 3.0]
    assert statistics.final_window(np.array([0, 1000]), np.array([1.0, 9.0])) == 9.0
    assert statistics.final_window(np.array([0]), np.array([5.0])) == 5.0


def test_area_under_a_curve_with_uneven_steps():
    # Trapezoids 10 * (0 + 2) / 2 and 30 * (2 + 4) / 2, over 40 steps.
    assert statistics.area_under_curve([0, 10, 40], [0.0, 2.0, 4.0]) == pytest.approx(100 / 40)
    assert statistics.area_under_curve([7], [3.0]) == 3.0
    both = statistics.area_under_curve([0, 1], [[1.0, 3.0], [5.0, 5.0]])
    assert both.tolist() == [2.0, 5.0]


def test_probability_of_keeping_the_budget():
    found = statistics.within_budget(np.array([1.0, 2.0, 3.0, 2.0]), budget=2.0)
    assert found.share == 0.75
    expected = stats.binomtest(3, 4).proportion_ci(method="wilson")
    assert found.interval == pytest.approx((expected.low, expected.high))
    # Never broken in ten episodes is not "never": Wilson's bound is 1 / (1 + z^2 / 10).
    certain = statistics.within_budget(np.zeros(10), 1.0)
    z = stats.norm.ppf(0.975)
    assert certain.interval == pytest.approx((1 / (1 + z**2 / 10), 1.0))


def test_what_training_paid():
    found = statistics.violations(np.array([5.0, 11.0, 10.0, 14.5]), budget=10.0)
    assert found == (2, 0.5, 5.5)
    assert statistics.violations(np.array([]), 1.0) == (0, 0.0, 0.0)


def test_oscillation_within_a_sliding_window():
    # Every pair differs by 2: deviation sqrt(2).
    assert statistics.oscillation(np.array([0.0, 2.0, 0.0, 2.0]), 2) == pytest.approx(np.sqrt(2))
    # Windows (0, 0, 3) and (0, 3, 0) and (3, 0, 0): sqrt(3) each.
    values = np.array([[0.0, 0.0, 3.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0]])
    assert statistics.oscillation(values, 3).tolist() == pytest.approx([np.sqrt(3.0), 0.0])
    with pytest.raises(ValueError, match="no window of 6"):
        statistics.oscillation(values, 6)


def test_steps_to_a_return_count_only_within_the_budget():
    steps, returns, costs = [10, 20, 30, 40], [1.0, 9.0, 9.0, 9.0], [0.0, 30.0, 10.0, 5.0]
    assert statistics.steps_to_return(steps, returns, costs, target=8.0, budget=10.0) == 30
    assert statistics.steps_to_return(steps, returns, costs, target=8.0, budget=1.0) is None


def test_probability_of_improvement_is_mann_whitneys():
    first, second = np.array([3.0, 5.0, 5.0, 8.0, 1.0]), np.array([2.0, 5.0, 4.0, 0.0, 6.0])
    found = statistics.probability_of_improvement(first, second, generator())
    assert found.value == pytest.approx(stats.mannwhitneyu(first, second).statistic / 25)
    assert found.interval[0] < found.value < found.interval[1]
    # By hand: of the four pairs, 3 > 2, 3 > 1, 1 < 2 and a tie.
    by_hand = statistics.probability_of_improvement([3.0, 1.0], [2.0, 1.0], generator())
    assert (by_hand.value, by_hand.interval) == (0.625, None)
    # Every seed above every other: the resamples cannot tell how sure that is.
    apart = statistics.probability_of_improvement(np.arange(5.0) + 9, np.arange(5.0), generator())
    assert (apart.value, apart.interval) == (1.0, None)
    assert "every resample" in apart.note
