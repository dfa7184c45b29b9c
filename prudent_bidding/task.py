"""Bidding for advertisers, a day at a time; the simulator is `prudent_bidding`."""

import math

import gymnasium

from prudent.settings.run import Constraint
from prudent.tasks.task import Task

# By name: Gymnasium imports the simulator when an environment is made, not before.
ENVIRONMENT = "prudent_bidding.environment:Prudent/BiddingDay-v0"
MOST_RECORDS = 1536  # of an advertiser's day


def make_bidding(render_mode: str | None = None) -> gymnasium.Env:
    return gymnasium.make(ENVIRONMENT, disable_env_checker=True, render_mode=render_mode)


BIDDING = Task(
    name="bidding-day",
    make=make_bidding,
    horizon=MOST_RECORDS,
    constraint=Constraint(0.0, discounted=False),
    summary="spend an advertiser's budget and meet its target ROI (costs can be negative)",
    cost_range=(-math.inf, 1.0),  # no more than the budget can be paid, sales have no bound
)
