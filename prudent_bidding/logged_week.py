"""One week of a data set as a learner reads it: packed rows, days, and what observations need.

Only columns that an advertising platform has are read: `shards.read_table` refuses a file of the
oracle by what its metadata says it is, whatever it is called.
"""

from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from prudent_bidding.cache import PACKED, before_in_day, build_cache, places_of
from prudent_bidding.day import next_known
from prudent_bidding.manifest import (
    known_at_start,
    read_advertisers,
    read_ledger,
    read_manifest,
    shards_of,
)
from prudent_bidding.observation import Account, Advertiser, Moment, observe
from prudent_bidding.schema import AD, CATEGORY, DAYS

PARTS_OF_DAY = 8  # in which a day is gone through, to hold little of it at once


class Segments(NamedTuple):
    """Days of advertisers, each a run of rows."""

    start: np.ndarray
    length: np.ndarray
    place: np.ndarray  # of the advertiser in its week
    arm: np.ndarray
    pay: np.ndarray  # of the day
    gmv: np.ndarray

    def rows_of(self, chosen: np.ndarray) -> np.ndarray:
        """The rows of these days, one day behind the other."""
        start, length = self.start[chosen], self.length[chosen]
        index = np.repeat(start - (np.cumsum(length) - length), length)
        return index + np.arange(len(index))


class LoggedWeek:
    """One week of a data set, mapped into memory."""

    def __init__(self, data: Path, week: int, cache: Path) -> None:
        path = build_cache(data, week, cache)
        self.week = week
        self.map_rows(path)
        self.advertisers = read_advertisers(data, week)
        adv, slots = self.advertisers["adv"], self.advertisers["slot"]
        shards = shards_of(data, week)
        ledgers = [read_ledger(data, week, shard) for shard in shards]
        places = [places_of(ledger["adv"], adv) for ledger in ledgers]
        totals = [{n: np.zeros(len(adv)) for n in ("pay", "gmv", "fair_pay")} for _ in range(DAYS)]
        for shard, ledger, place in zip(shards, ledgers, places, strict=True):
            for name, total in totals[shard.day].items():
                total[place] += ledger[name]
        carried = read_manifest(data, week).get("carried_in")
        known = known_at_start(data, week, adv, slots, carried)
        earlier = []  # what `Account` has of earlier days when each begins
        for today in totals:
            earlier.append(np.stack(known[:4], axis=1))
            known = next_known(known, today)
        self.earlier = np.stack(earlier)
        columns = [np.concatenate([ledger[n] for ledger in ledgers]) for n in ("arm", "pay", "gmv")]
        lengths = np.concatenate([ledger["rows"] for ledger in ledgers]).astype(np.int64)
        starts = np.cumsum(lengths) - lengths
        days = (starts, lengths, np.concatenate(places), *columns)
        self.segments = Segments(*(column[lengths > 0] for column in days))
        # What observations need of advertisers, beside each other to be gathered at once.
        names = ("log_roi", "budget", *CATEGORY, *AD)
        self.facts = np.stack([self.advertisers[name] for name in names], axis=1, dtype=float)

    def map_rows(self, path: Path) -> None:
        """Rows, and beside each the one that follows it: a draw touches memory once for both."""
        content = np.asarray(np.memmap(path, PACKED, "r"))  # indexing a memmap itself is slow
        self.rows = content[:-1]
        pair, step = np.dtype((np.void, 2 * PACKED.itemsize)), PACKED.itemsize
        self._pairs: np.ndarray = np.ndarray(len(self.rows), pair, content, strides=(step,))

    @cached_property
    def from_here_on(self) -> np.ndarray:
        """f32[rows], GMV over fair pay of the advertiser's wins from each row to the week's end."""
        found = np.ones(len(self.rows), np.float32)
        later = np.zeros((2, len(self.facts)))  # of whole days, by advertiser
        order = np.arange(len(self.segments.start))
        # The last day first: `later` then holds those that follow the day in hand.
        day = self.rows["day_and_done"][self.segments.start] & 7
        for today in np.unique(day)[::-1]:
            for segments in np.array_split(order[day == today], PARTS_OF_DAY):
                length, place = self.segments.length[segments], self.segments.place[segments]
                index = self.segments.rows_of(segments)
                rows = self.rows[["gmv", "pay", "k"]][index]
                gmv = rows["gmv"].astype(float)
                fair = rows["pay"] / rows["k"].astype(float)
                left = []  # GMV and fair pay to come
                for part, values in enumerate((gmv, fair)):
                    whole = np.add.reduceat(values, np.cumsum(length) - length)
                    to_come = np.repeat(whole + later[part, place], length)
                    left.append(to_come - before_in_day(values, length))
                    later[part, place] += whole
                found[index] = np.divide(left[0], left[1], out=gmv, where=fair > 0.0)
        return found

    def with_successors(self, index: np.ndarray) -> np.ndarray:
        """[2, N] rows. What follows the last row of a day is of another day, or empty."""
        return self._pairs[index].view(PACKED).reshape(-1, 2).T

    def observations(self, rows: np.ndarray) -> np.ndarray:
        """f32[N, OBSERVATION_SIZE], as they were acted on."""
        place, day = rows["place"], rows["day_and_done"] & 7
        log_pctr, log_pcvr, log_pgmv = rows["log_p"].T
        moment = Moment(day, rows["hour"], log_pctr, log_pcvr, log_pgmv, rows["user"])
        day_pay, day_gmv = rows["day_pay"].astype(np.float64), rows["day_gmv"].astype(np.float64)
        account = Account(day_pay, day_gmv, *self.earlier[day, place].T)
        facts = self.facts[place]
        cut = 2 + len(CATEGORY)
        log_roi = facts[:, 0].astype(np.float32)
        advertiser = Advertiser(log_roi, facts[:, 1], facts[:, 2:cut], facts[:, cut:])
        return observe(advertiser, moment, account)
