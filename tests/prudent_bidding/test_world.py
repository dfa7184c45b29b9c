"""The world: its numbers are drawn as they are written down, and stay what they were."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from prudent_bidding import traffic
from prudent_bidding.assignment import assign, volume_deciles
from prudent_bidding.population import category_shares, make_week
from prudent_bidding.world import FROZEN, PRESETS, preset, stream, world_hash

STILL = dict.fromkeys(("bias_drift", "segment_bias_drift", "price_drift", "churn", "resets"), 0.0)
MANY = replace(PRESETS["paper"], advertisers=20_000, block_size=20_000)


@pytest.fixture(scope="module")
def week():
    return make_week(MANY, 0, 0)


def close(values, expected, deviation):
    """Within four standard errors of a mean."""
    assert abs(np.mean(values) - expected) < 4.0 * deviation / np.sqrt(len(values))


def test_presets_are_what_they_were_when_frozen():
    assert {name: world_hash(world) for name, world in PRESETS.items()} == FROZEN


def test_a_world_that_is_changed_has_another_checksum():
    assert world_hash(replace(PRESETS["small"], bias_sd=0.21)) != FROZEN["small"]


def test_unknown_presets_and_seeds_are_refused():
    with pytest.raises(ValueError, match="no world named 'big'; there is: smoke, small"):
        preset("big")
    with pytest.raises(ValueError, match="the seed is -1"):
        stream(0, -1)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"market": "mean-field"}, "market is 'mean-field'; it must be one of exogenous, meanfiel"),
        ({"price": "First"}, "price is 'First'; it must be one of first, second"),
        ({"steepness": -2.2}, "steepness is -2.2; it must be a number above 0"),
        ({"churn": 1.5}, "churn is 1.5; it must be a number at least 0 and at most 1"),
        ({"bias_sd": -1.0}, "bias_sd is -1.0; it must be a number at least 0"),
        ({"bias_mean": np.nan}, "bias_mean is nan; it must be a number that is finite"),
        ({"requests_per_record": 0}, "requests_per_record is 0; it must be a whole number at leas"),
        ({"requests_per_record": 70_000}, "at most 65535"),
        ({"spent_share": 0.0}, "spent_share is 0.0; it must be a number above 0 and at most 1"),
        ({"request_sds": (0.8, 0.7)}, "it must be 3 items"),
        ({"promotion_week": -1}, "it must be a whole number at least 0 or None"),
        ({"least_volume": 9, "most_volume": 8}, "volumes from 9 to 8"),
        ({"log_roi_range": (2.7, 0.2)}, "log ROIs from 2.7 to 0.2"),
    ],
)
def test_worlds_that_cannot_be_are_refused(given, complaint):
    with pytest.raises(ValueError, match=complaint):
        replace(PRESETS["small"], **given)


def test_streams_differ_by_purpose_and_place():
    places = [(purpose, 0, *place) for purpose in (1, 2) for place in product((0, 1), repeat=3)]
    draws = {float(stream(*place).random()) for place in places}
    assert len(draws) == len(places)


def test_targets_biases_and_budget_factors_have_their_moments(week):
    people = week.advertisers
    close(people.bias, MANY.bias_mean, MANY.bias_sd)
    assert people.bias.std() == pytest.approx(MANY.bias_sd, rel=0.03)
    close(np.log(people.budget_factor), MANY.log_budget_mean, MANY.log_budget_sd)
    assert np.log(people.budget_factor).std() == pytest.approx(MANY.log_budget_sd, rel=0.03)
    # The normal law of log ROI is cut at 2.2 and 2.8 standard deviations.
    assert people.log_roi.mean() == pytest.approx(1.3, abs=0.02)
    assert people.log_roi.min() == 0.2
    assert people.log_roi.max() == 2.7


def test_volumes_are_lognormal_within_bounds(week):
    volume = week.advertisers.volume
    assert volume.min() >= 8
    assert volume.max() <= 1536
    median = MANY.volume / np.exp(0.5)
    assert np.median(volume) == pytest.approx(median, rel=0.04)
    inside = (volume > 8) & (volume < 1536)
    assert np.log(volume[inside]).std() == pytest.approx(0.97, abs=0.05)


def test_rates_vary_within_categories_as_much_as_they_should(week):
    people = week.advertisers
    within = people.means - week.structure.means[people.category]
    assert np.allclose(within.mean(0), 0.0, atol=4 * 0.7 / np.sqrt(20_000))
    assert np.allclose(within.std(0), MANY.advertiser_sds, rtol=0.03)


def test_categories_have_their_shares(week):
    shares = np.bincount(week.advertisers.category, minlength=20) / 20_000
    assert shares[0] == pytest.approx(0.076, abs=0.008)
    assert category_shares(20).sum() == pytest.approx(1.0)
    assert category_shares(20)[:6].sum() == pytest.approx(0.344)


def test_structural_biases_have_no_common_part(week):
    shares = category_shares(20)
    assert shares @ week.structure.segment_bias.mean(1) == pytest.approx(0.0, abs=1e-12)
    assert week.structure.segment_bias.std() == pytest.approx(MANY.segment_bias_sd, rel=0.2)


def test_arrivals_follow_the_curve_of_the_day():
    """Least traffic at about 3:30, most before noon, and the hours invert the shares."""
    flat = replace(MANY, categories=1)
    of_day = traffic.draw_traffic(flat, 0)
    share = np.linspace(0.0, 1.0, 100_001)
    hours = traffic.arrival_hours(of_day, np.zeros(len(share), int), share)
    assert hours[0] == 0.0
    assert hours[-1] == 24.0
    assert np.all(np.diff(hours.astype(float)) >= 0.0)
    per_hour = np.histogram(hours.astype(float), 24, (0, 24))[0] / len(share)
    assert 1 <= per_hour.argmin() <= 5
    assert per_hour.max() > 5 * per_hour.min()


def test_weekdays_average_to_one():
    assert traffic.WEEKDAYS.mean() == pytest.approx(1.0)
    volume = np.array([100, 1500])
    assert traffic.day_volume(volume, 1, MANY).tolist() == [122, 1536]


def test_segments_have_the_shares_of_their_category_and_hour(week):
    count = 40_000
    uniform = stream(1, 5).random(count)
    hour = np.full(count, 13.5, np.float16)
    segments = traffic.draw_segments(week.traffic, np.full(count, 3), hour, uniform)
    running = np.append(week.traffic.segment_law[3, 13], 1.0)
    found = np.bincount(segments, minlength=8) / count
    assert np.allclose(found, np.diff(running, prepend=0.0), atol=4 * 0.5 / np.sqrt(count))


def test_users_stand_near_their_segment_on_a_grid(week):
    segment = np.full(20_000, 2)
    users = traffic.draw_users(week.traffic, segment, stream(1, 6)).astype(float)
    assert np.allclose(users.mean(0), week.traffic.segment_user[2], atol=4 / np.sqrt(20_000) + 0.02)
    assert np.allclose(users.std(0), 1.0, atol=0.03)
    assert np.array_equal(users * traffic.USER_GRID, np.rint(users * traffic.USER_GRID))


def test_a_later_week_drifts_by_what_is_written_down():
    before, after = make_week(MANY, 0, 0), make_week(MANY, 0, 1)
    stayed = before.advertisers.adv == after.advertisers.adv
    assert 1.0 - stayed.mean() == pytest.approx(MANY.churn, abs=4 * np.sqrt(0.03 / 20_000))
    moved = (after.advertisers.bias - before.advertisers.bias)[stayed]
    assert moved.std() == pytest.approx(MANY.bias_drift, rel=0.03)
    changed = (after.advertisers.log_roi != before.advertisers.log_roi)[stayed]
    assert changed.mean() == pytest.approx(MANY.resets, abs=0.007)
    newcomers = after.advertisers.adv[~stayed]
    assert newcomers.min() >= MANY.advertisers
    assert len(set(after.advertisers.adv)) == MANY.advertisers
    steps = after.structure.segment_bias - before.structure.segment_bias
    assert steps.std() == pytest.approx(MANY.segment_bias_drift, rel=0.25)


def test_a_stationary_world_stays():
    first, later = (make_week(replace(MANY, **STILL), 0, week) for week in (0, 3))
    for before, after in zip(first.advertisers, later.advertisers, strict=True):
        assert np.array_equal(before, after)
    assert np.array_equal(first.budget, later.budget)


def test_the_stationary_preset_has_no_drift():
    world = PRESETS["stationary"]
    assert {name: getattr(world, name) for name in STILL} == STILL


def test_the_promotion_lifts_conversions_and_prices_for_one_week():
    world = replace(PRESETS["hard"], advertisers=100, block_size=100)
    weeks = [make_week(world, 0, number) for number in (2, 3, 4)]
    assert [week.structure.lift > 0 for week in weeks] == [False, True, False]
    with_out = make_week(replace(world, promotion_week=None), 0, 3)
    assert np.allclose(weeks[1].structure.price - with_out.structure.price, np.log(1.25))


@pytest.fixture(scope="module")
def small_week():
    return make_week(replace(PRESETS["smoke"], advertisers=3000, block_size=3000), 0, 0)


def test_switchback_passes_every_advertiser_through_all_arms(small_week):
    arms = assign("switchback", small_week, 5)
    assert arms.shape == (7, 3000)
    for advertiser in arms.T[:200]:
        assert set(advertiser[:5]) == set(range(5))
    counts = np.stack([np.bincount(day, minlength=5) for day in arms])
    assert np.all(np.abs(counts - 600) <= 1)


def test_switchback_is_balanced_within_strata(small_week):
    arms = assign("switchback", small_week, 5)
    people = small_week.advertisers
    stratum = people.category * 10 + volume_deciles(people.volume)
    for number in np.unique(stratum)[:60]:
        counts = np.bincount(arms[0][stratum == number], minlength=5)
        assert counts.max() - counts.min() <= 1


def test_weekly_arms_stay_for_a_week_and_rotate(small_week):
    """Whoever comes and goes: a slot has its place for good."""
    churning = replace(small_week.world, churn=0.1)
    first, *later = (assign("weekly", make_week(churning, 0, week), 4) for week in range(3))
    assert np.all(first == first[:1])
    for week, arms in enumerate(later, 1):
        assert np.array_equal(arms, (first + week) % 4)


def test_with_more_arms_than_days_switchback_passes_through_as_many_as_days(small_week):
    arms = assign("switchback", small_week, 9)
    assert all(len(set(advertiser)) == 7 for advertiser in arms.T[:200])
    counts = np.stack([np.bincount(day, minlength=9) for day in arms])
    assert np.all(np.abs(counts - 3000 / 9) <= 1)


def test_one_arm_is_all_there_is_when_isolated(small_week):
    assert not assign("isolated", small_week, 3).any()
    with pytest.raises(ValueError, match="300 arms; at most 255"):
        assign("switchback", small_week, 300)
