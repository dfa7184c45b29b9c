"""Which policy acts for which advertiser on which day."""

from typing import Literal

import numpy as np

from prudent_bidding.population import Week, make_week
from prudent_bidding.schema import DAYS
from prudent_bidding.world import ASSIGNMENT, stream

Assignment = Literal["switchback", "weekly", "isolated"]
DECILES = 10


def assign(kind: Assignment, week: Week, arms: int) -> np.ndarray:
    """u8[DAYS, A]. `isolated` has a world for each arm, where that arm is all there is.

    `switchback`: within a stratum (category by decile of volume) advertisers take the rows of a
    random cyclic Latin square, so each passes through all arms over the days (through DAYS of them
    where there are more), and every day every arm has its share of every stratum. `weekly`: an
    advertiser keeps an arm for a week and moves on to the next in the next week.
    """
    if arms > np.iinfo(np.uint8).max:
        raise ValueError(f"{arms} arms; at most {np.iinfo(np.uint8).max} can be told apart")
    count = week.world.advertisers
    if kind == "isolated" or arms == 1:
        return np.zeros((DAYS, count), np.uint8)
    if kind == "weekly":
        # Slots have their places in the first week for good, so that arms rotate and not the dice;
        # a newcomer goes on with the slot that it takes.
        first = make_week(week.world, week.seed, 0)
        place = places_in_strata(first, stream(ASSIGNMENT, week.seed, 0))
        return np.tile(((place + week.week) % arms).astype(np.uint8), (DAYS, 1))
    generator = stream(ASSIGNMENT, week.seed, week.week)
    place = places_in_strata(week, generator)
    square = latin_square(arms, generator)
    days = np.arange(DAYS)[:, None] % arms
    return square[place[None] % arms, days].astype(np.uint8)


def volume_deciles(volume: np.ndarray) -> np.ndarray:
    rank = np.argsort(np.argsort(volume, kind="stable"), kind="stable")
    return rank * DECILES // len(volume)


def places_in_strata(week: Week, generator: np.random.Generator) -> np.ndarray:
    """Each advertiser's place in a random order of its stratum, counted on across strata so that
    small strata do not all begin with the same arm.
    """
    deciles = volume_deciles(week.advertisers.volume)
    stratum = week.advertisers.category * DECILES + deciles
    order = np.lexsort((generator.random(len(stratum)), stratum))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place


def latin_square(arms: int, generator: np.random.Generator) -> np.ndarray:
    """[arms, arms], cyclic up to the order of its rows, columns and symbols."""
    rows, columns, symbols = (generator.permutation(arms) for _ in range(3))
    return symbols[(rows[:, None] + columns[None]) % arms]
