"""Observations, by hand and made again from stored rows."""

from dataclasses import replace

import numpy as np
import pytest
from test_kernel import SMOKE, Spy

from prudent_bidding.day import (
    Plan,
    make_waves,
    nothing_known,
    simulate_day,
)
from prudent_bidding.observation import Account, Advertiser, Moment, observe
from prudent_bidding.population import make_week
from prudent_bidding.schema import (
    OBSERVATION,
    USER,
)
from prudent_bidding.traffic import day_volume


@pytest.mark.parametrize("delay", [0.0, 2.0])
def test_observations_can_be_made_again_from_the_rows(delay):
    """As a reader of the files does it, exactly."""
    world = replace(SMOKE, advertisers=30, block_size=30, volume=20.0, delay_hours=delay)
    week, spy, day = make_week(world, 0, 0), Spy(), 3
    known = nothing_known(30)._replace(
        week_pay=week.budget * 0.5, week_gmv=week.budget * np.exp(week.advertisers.log_roi) * 0.4
    )
    plan = Plan(day, 0, np.arange(30), np.zeros(30, np.uint8), known, np.zeros(20))
    rows = simulate_day(week, plan, [spy]).rows
    expected = observations_of(week, known, rows, day)
    waves = make_waves(day_volume(week.advertisers.volume, day, world))
    ended = {}
    for i, adv in enumerate(rows["adv"]):
        ended.setdefault(adv, []).append(i)
    for t, (seen, deficit) in enumerate(spy.seen):
        alive = [a for a in waves.order[: waves.active[t]] if len(ended[a]) > t]
        assert np.array_equal(seen, expected[[ended[a][t] for a in alive]])
        column = OBSERVATION.index("week_deficit")
        assert np.allclose(deficit, seen[:, column] * 7, rtol=1e-4, atol=1e-5)


def observations_of(week, known, rows, day):
    people = week.advertisers
    found = []
    for adv in people.adv:
        mine = {name: column[rows["adv"] == adv] for name, column in rows.items()}
        count = len(mine["t"])
        came = np.zeros(count)
        for i in range(count):
            shows = mine["seen"][:i] <= mine["hour"][i]
            came[i] = sum(mine["gmv"][:i][shows].astype(np.float64))
        advertiser = Advertiser(
            np.full(count, people.log_roi[adv], np.float32),
            np.full(count, week.budget[adv]),
            np.tile(week.structure.category[people.category[adv]].astype(np.float32), (count, 1)),
            np.tile(people.ad[adv].astype(np.float32), (count, 1)),
        )
        user = np.stack([mine[name] for name in USER], axis=1)
        predictions = (mine[name] for name in ("log_pctr", "log_pcvr", "log_pgmv"))
        moment = Moment(day, mine["hour"], *predictions, user)
        paid = np.concatenate([[0.0], np.cumsum(mine["pay"].astype(np.float64))[:-1]])
        names = ("week_pay", "week_gmv", "carried_gmv", "carried_fair")
        earlier = [np.full(count, getattr(known, name)[adv]) for name in names]
        found.append(observe(advertiser, moment, Account(paid, came, *earlier)))
    return np.concatenate(found)


def test_an_observation_by_hand():
    one = np.ones(1)
    advertiser = Advertiser(np.log(2.0) * one, 100.0 * one, np.array([[5.0, 6.0]]), np.ones((1, 4)))
    moment = Moment(0, 6.0 * one, -4.0 * one, -3.0 * one, 4.5 * one, np.full((1, 4), 7.0))
    account = Account(*(value * one for value in (10.0, 30.0, 40.0, 70.0, 500.0, 150.0)))
    seen = observe(advertiser, moment, account)
    named = dict(zip(OBSERVATION, seen[0].tolist(), strict=True))
    assert named["hour_sin"] == pytest.approx(1.0)
    assert named["time_left"] == 0.75
    assert (named["log_pctr"], named["log_pcvr"], named["log_pgmv"]) == (0.0, 0.0, 0.0)
    assert named["log_fair_bid"] == pytest.approx(-2.5 - np.log(2.0) + 4.0, abs=1e-6)
    assert named["day_spend"] == pytest.approx(0.1)
    assert named["day_roi"] == pytest.approx(1.5)  # 30 / (2 * 10)
    assert named["day_deficit"] == pytest.approx(-0.05)  # (2 * 10 - 30) / 200
    assert named["week_deficit"] == pytest.approx(0.0)  # 2 * 50 - 100
    assert named["week_spend"] == pytest.approx(50 / 700)
    # Half a daily budget of 100 earned as predicted, then 500 where 2 * 150 was predicted.
    assert named["track_record"] == pytest.approx(np.log((500 + 100) / (300 + 100)))
    assert named["log_roi"] == pytest.approx(np.log(2.0) - 1.3)
    assert (named["category_1"], named["ad_3"], named["user_0"]) == (6.0, 1.0, 7.0)
