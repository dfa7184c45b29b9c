"""A day of a block: its rows, its ledger, what is known on the next."""

from dataclasses import replace

import numpy as np
import pytest
from test_kernel import SMOKE, day_of

from prudent_bidding.day import (
    Plan,
    draw_day,
    make_waves,
    next_known,
    nothing_known,
)
from prudent_bidding.population import make_week
from prudent_bidding.schema import (
    BUDGET_SPENT,
    DAY_ENDED,
    GOES_ON,
    LEDGER,
    ROWS,
    USER,
)
from prudent_bidding.traffic import day_volume
from prudent_bidding.world import stream


def test_budgets_are_spent_and_never_exceeded():
    week, done = day_of(replace(SMOKE, log_budget_mean=-2.0), "constant:1.5")
    assert np.all(done.ledger["pay"] <= week.budget)
    spent = done.ledger["exhausted"] == 1
    assert spent.mean() > 0.8
    assert np.all(done.ledger["pay"][spent] >= 0.999 * week.budget[spent])
    assert np.all(done.ledger["pay"][~spent] < 0.999 * week.budget[~spent])


def test_rows_are_in_order_and_end_once():
    week, done = day_of(SMOKE, "incumbent")
    rows = done.rows
    assert list(rows) == list(ROWS)
    assert {name: str(rows[name].dtype) for name in rows} == dict(ROWS)
    assert {name: str(done.ledger[name].dtype) for name in LEDGER} == dict(LEDGER)
    starts = np.flatnonzero(np.diff(rows["adv"].astype(int), prepend=-1))
    ends = np.append(starts[1:], len(rows["t"])) - 1
    assert np.array_equal(rows["adv"][starts], week.advertisers.adv)
    assert not rows["t"][starts].any()
    assert np.array_equal(np.flatnonzero(rows["done"] != GOES_ON), ends)
    inside = np.setdiff1d(np.arange(len(rows["t"])), starts)
    assert np.all(rows["t"][inside] == rows["t"][inside - 1] + 1)
    assert np.all(rows["hour"][inside] >= rows["hour"][inside - 1])
    planned = day_volume(week.advertisers.volume, 0, SMOKE)
    whole = rows["done"][ends] == DAY_ENDED
    assert np.array_equal(done.ledger["rows"][whole], planned[whole])
    assert np.all(rows["done"][ends][~whole] == BUDGET_SPENT)
    assert rows["k"].min() >= 0.5
    assert rows["k"].max() <= 1.5


def test_the_ledger_is_the_sum_of_the_rows():
    _, done = day_of(SMOKE, "incumbent")
    owner = np.searchsorted(done.ledger["adv"], done.rows["adv"])
    for name in ("win", "conv", "pay", "gmv"):
        total = np.zeros(len(done.ledger["adv"]))
        np.add.at(total, owner, done.rows[name].astype(np.float64))
        assert np.allclose(total, done.ledger[name], rtol=1e-12)
    k = done.rows["k"].astype(np.float64)
    assert done.ledger["k_sum"].sum() == pytest.approx(k.sum())
    fair = (done.rows["pay"] / k).sum()
    assert done.ledger["fair_pay"].sum() == pytest.approx(fair)


def test_what_a_policy_does_moves_no_record():
    """Common random numbers: the records that are reached are the same under every policy."""
    _, low = day_of(SMOKE, "constant:0.6")
    _, high = day_of(SMOKE, "constant:1.4")
    keys = [done.rows["adv"].astype(np.int64) * 2048 + done.rows["t"] for done in (low, high)]
    _, first, second = np.intersect1d(*keys, return_indices=True)
    assert len(first) > 1000
    for name in ("hour", "log_pctr", "log_pcvr", "log_pgmv", *USER):
        assert np.array_equal(low.rows[name][first], high.rows[name][second])


def test_earlier_days_reach_the_controllers():
    """Whoever earned half of what was predicted bids half as much, but for the prior."""
    week = make_week(SMOKE, 0, 0)
    roi = np.exp(week.advertisers.log_roi)
    known = nothing_known(200)._replace(
        carried_fair=1e6 * week.budget, carried_gmv=0.8e6 * week.budget * roi
    )
    _, done = day_of(SMOKE, "feedback:1.0", known=known)
    assert np.allclose(done.rows["k"].astype(float), 0.8, atol=1e-3)
    _, fresh = day_of(SMOKE, "feedback:0.9")
    assert np.allclose(fresh.rows["k"].astype(float), 0.9, atol=1e-3)


def test_what_is_known_is_discounted_by_the_day():
    _, done = day_of(SMOKE, "constant:1.0")
    once = next_known(nothing_known(200), done.ledger)
    twice = next_known(once, done.ledger)
    assert np.allclose(twice.week_pay, 2 * done.ledger["pay"])
    assert np.allclose(twice.carried_gmv, 1.9 * done.ledger["gmv"])
    assert np.allclose(once.carried_fair, done.ledger["pay"])  # at k = 1


def test_drawing_a_day_gives_each_record_its_place():
    week = make_week(SMOKE, 0, 0)
    volume = day_volume(week.advertisers.volume, 0, SMOKE)
    waves = make_waves(volume)
    assert waves.active[0] == 200
    assert waves.active.sum() == volume.sum()
    assert all(waves.active[t] == np.sum(volume > t) for t in range(len(waves.active)))
    known, arms = nothing_known(200), np.zeros(200, np.uint8)
    plan = Plan(0, 0, np.arange(200), arms, known, np.zeros(20))
    drawn = draw_day(week, plan, waves, stream(1, 0))
    assert len(drawn.hour) == volume.sum()
