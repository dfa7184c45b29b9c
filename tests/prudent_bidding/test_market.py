"""Who wins and at what price, in every kind of market."""

from dataclasses import replace

import numpy as np
import pytest
from test_kernel import SMOKE, day_of, settled

from prudent_bidding import market
from prudent_bidding.world import stream


def test_the_second_price_is_the_mean_of_prices_below_the_bid():
    """Against the integral of p dF over F(bid)."""
    world = replace(SMOKE, price="second")
    outcome = settled(world, 1.0)
    paid = outcome.pay.sum() / outcome.win.sum()
    level = (np.arange(200_000) + 0.5) / 200_000 * 0.5  # F(bid) is a half here
    price = np.exp(-3.0) * (level / (1 - level)) ** (1 / world.steepness)
    assert paid == pytest.approx(price.mean(), rel=0.005)
    single = settled(replace(world, requests_per_record=1), 1.0)
    assert single.pay.sum() / single.win.sum() == pytest.approx(price.mean(), rel=0.02)
    assert np.all(single.pay <= np.float32(np.exp(-3.0)) * 1.00001)


def test_bids_below_the_reserve_win_nothing_and_prices_reach_it():
    world = replace(SMOKE, reserve=0.04)
    assert not settled(world, 0.5).win.any()  # a bid of 0.025
    outcome = settled(replace(world, price="second"), 1.0)
    won = outcome.win > 0
    assert np.all(outcome.pay[won] / outcome.win[won] >= 0.04 * 0.9999)


def test_explicit_rivals_sort_by_bid_and_pay_the_next():
    world = replace(SMOKE, market="explicit", price="second", rivals=3, slots=2, reserve=0.01)
    bids = np.log(np.array([0.5, 0.3, 0.2, 0.005]))
    category = np.array([1, 1, 1, 2])
    cleared = market.clear(world, bids, np.zeros(4), category, stream(2, 3))
    assert cleared.win_probability == pytest.approx([1.0, 0.8, 0.0, 0.0])
    assert cleared.price[:2] == pytest.approx([0.3, 0.2])
    first = market.clear(replace(world, price="first"), bids, np.zeros(4), category, stream(2, 3))
    assert first.price == pytest.approx([0.5, 0.3, 0.2, 0.005])


def test_groups_are_of_one_category_and_of_bounded_size():
    category = stream(2, 4).integers(0, 5, 1003)
    group = market.random_groups(category, 8, stream(2, 5))
    for number in np.unique(group):
        members = category[group == number]
        assert len(members) <= 8
        assert len(set(members)) == 1
    assert len(np.unique(group)) <= 1003 // 8 + 5


def test_an_explicit_market_sells_each_slot_once():
    """200 advertisers in 25 groups of eight: three slots each, shown 1, 0.8 and 0.6 of the time."""
    one_kind = {"categories": 1, "volume_sd": 0.0, "log_budget_mean": 20.0, "volume": 20.0}
    _, done = day_of(replace(SMOKE, market="explicit", reserve=0.0, **one_kind), "constant:1.0")
    share = done.ledger["win"].sum() / done.ledger["rows"].sum() / 128
    assert share == pytest.approx(2.4 / 8, abs=0.002)
