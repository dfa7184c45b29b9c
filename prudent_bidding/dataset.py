"""Logged weeks as a learner reads them: packed once into a memory-mapped cache, sampled from there.

A week's cache is `week-W.rows`, PACKED records in the order of the shards (40 bytes each, day by
day, advertiser by advertiser, so the successor of a row is the next one unless it is the last of
its day), and `week-W.json`, written last, which says what it was packed from. It is made again
where it is missing, was altered, or where the week itself was written anew.

Only columns that an advertising platform has are read: `shards.read_table` refuses a file of the
oracle by what its metadata says it is, whatever it is called.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from prudent.files import checksum, replacing, to_json, write_all, write_atomically, writing
from prudent.settings.checks import Positive, check
from prudent_bidding.forms import FORMS
from prudent_bidding.manifest import (
    DamagedWeek,
    Table,
    check_whole,
    read_advertisers,
    read_ledger,
    read_manifest,
    read_rows,
    shards_of,
)
from prudent_bidding.observation import DECAY, Account, Advertiser, Moment, observe
from prudent_bidding.schema import (
    AD,
    CATEGORY,
    DAYS,
    GOES_ON,
    K_HIGH,
    K_LOW,
    MANIFEST,
    USER,
    WORLD,
    carried_file,
    week_folder,
)
from prudent_bidding.shards import read_table

PACKED = np.dtype(
    [
        ("place", "<u4"),  # of the advertiser in its week's table
        ("pay", "<f4"),
        ("gmv", "<f4"),
        ("day_pay", "<f4"),  # before this row
        ("day_gmv", "<f4"),  # what showed of it by then
        ("hour", "<f2"),
        ("user", "<f2", (len(USER),)),
        ("log_p", "<f2", (3,)),  # pCTR, pCVR, pGMV
        ("k", "<f2"),
        ("arm", "u1"),
        ("day_and_done", "u1"),  # day + 8 * done
    ]
)
FORMAT = 1  # of the cache
HOURS = 24
ROWS_AT_ONCE = 65_536  # where delayed GMV is counted hour by hour
SCALE_ROWS = 200_000  # from which the scale of observations is measured
LARGEST = 5.0  # scaled observations are clipped to this
PARTS_OF_DAY = 8  # in which a day is gone through, to hold little of it at once
BATCHES_AT_ONCE = 4_096  # rows that are turned into observations together: they fit the cache


def segments_of(ledgers: Sequence[Table]) -> np.ndarray:
    return np.concatenate([ledger["rows"] for ledger in ledgers]).astype(np.int64)


def before_in_day(values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """f64, the sum of an advertiser's earlier values of the day; `lengths` of its advertisers."""
    total = np.cumsum(values, dtype=np.float64) - values
    lengths = lengths[lengths > 0]
    starts = np.cumsum(lengths) - lengths
    return total - np.repeat(total[starts], lengths)


def shown_before(rows: Table, lengths: np.ndarray) -> np.ndarray:
    """f64, what shows of an advertiser's GMV of the day when a row arrives."""
    if not rows["seen"].any():
        return before_in_day(rows["gmv"], lengths)
    found = np.empty(len(rows["gmv"]))
    for part in whole_days(lengths[lengths > 0]):
        start, stop = part[0], part[1]
        gmv, seen = rows["gmv"][start:stop], rows["seen"][start:stop]
        shows = np.zeros(stop - start)
        for hour in np.unique(seen[seen < HOURS]).tolist():
            counted = before_in_day(np.where(seen == hour, gmv, 0.0), part[2])
            shows += np.where(rows["hour"][start:stop] >= hour, counted, 0.0)
        found[start:stop] = shows
    return found


def whole_days(lengths: np.ndarray) -> Iterator[tuple[int, int, np.ndarray]]:
    """Parts of about ROWS_AT_ONCE rows that cut no advertiser's day: start, stop, lengths."""
    ends = np.cumsum(lengths)
    first, start = 0, 0
    while first < len(lengths):
        last = max(first + 1, int(np.searchsorted(ends, start + ROWS_AT_ONCE, side="right")))
        stop = int(ends[last - 1])
        yield start, stop, lengths[first:last]
        first, start = last, stop


def places_of(adv: np.ndarray, advertisers: np.ndarray) -> np.ndarray:
    """Where these advertisers stand in the week's table."""
    order = np.argsort(advertisers)
    at = np.minimum(np.searchsorted(advertisers, adv, sorter=order), len(order) - 1)
    places = order[at]
    if not np.array_equal(advertisers[places], adv):
        unknown = adv[advertisers[places] != adv][0]
        raise DamagedWeek(f"advertiser {unknown} is not in the week's advertisers.parquet")
    return places


def pack(rows: Table, ledger: Table, advertisers: np.ndarray) -> np.ndarray:
    """A shard as PACKED records."""
    lengths = ledger["rows"].astype(np.int64)
    if not np.array_equal(np.repeat(ledger["adv"], lengths), rows["adv"]):
        raise DamagedWeek("rows and ledger of a shard are not of the same advertisers")
    packed = np.empty(len(rows["adv"]), PACKED)
    packed["place"] = np.repeat(places_of(ledger["adv"], advertisers), lengths)
    for name in ("pay", "gmv", "hour", "k", "arm"):
        packed[name] = rows[name]
    packed["day_pay"] = before_in_day(rows["pay"], lengths)
    packed["day_gmv"] = shown_before(rows, lengths)
    packed["user"] = np.stack([rows[name] for name in USER], axis=1)
    packed["log_p"] = np.stack([rows[f"log_p{name}"] for name in ("ctr", "cvr", "gmv")], axis=1)
    packed["day_and_done"] = rows["day"] + 8 * rows["done"]
    return packed


def build_cache(data: Path, week: int, cache: Path) -> Path:
    """Pack a week unless that was done already; returns the file of its rows."""
    path, about = cache / f"week-{week}.rows", cache / f"week-{week}.json"
    shards = shards_of(data, week)
    source = checksum((data / week_folder(week) / MANIFEST).read_bytes())
    if is_fresh(path, about, source):
        return path
    with writing(cache):
        cache.mkdir(parents=True, exist_ok=True)
    advertisers = read_advertisers(data, week)["adv"]
    digest, rows = hashlib.sha256(), 0
    with replacing(path) as descriptor:
        for shard in shards:
            packed = pack(read_rows(data, week, shard), read_ledger(data, week, shard), advertisers)
            content = packed.tobytes()
            write_all(descriptor, content)
            digest.update(content)
            rows += len(packed)
        end = bytes(PACKED.itemsize)  # an empty row, so that the last one has a successor too
        write_all(descriptor, end)
        digest.update(end)
        about.unlink(missing_ok=True)
    facts = {"format": FORMAT, "rows": rows, "source": source, "sha256": digest.hexdigest()}
    write_atomically(about, (to_json(facts) + "\n").encode())
    return path


def is_fresh(path: Path, about: Path, source: str) -> bool:
    """Whether the cache is whole and packed from the week as it is now."""
    try:
        facts = json.loads(about.read_bytes())
        size = path.stat().st_size
    except (OSError, ValueError):
        return False
    expected = {"format": FORMAT, "source": source}
    if not isinstance(facts, dict) or any(facts.get(k) != v for k, v in expected.items()):
        return False
    if size != (facts.get("rows", -2) + 1) * PACKED.itemsize:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == facts.get("sha256")


# pay, gmv and target ROI with a day's budget -> cost of a row; one of `constraints.FORMS`
StepCost = Callable[[Any, Any, Any, Any], Any]


# What a row's cost counts as GMV: what its orders brought, which is nothing for most rows and much
# for a few; or what was predicted for its wins, times what the advertiser's orders of this row and
# the week's later ones made of such predictions. The second has the same mean as far as predictions
# err alike, and less noise. Earlier orders must not count: controllers bid by them, and they are in
# the observation, so that a lucky order would make what is bid after it look cheap.
GMVLabel = Literal["realised", "calibrated"]


@dataclass(frozen=True)
class Learning:
    """How rows become rewards and costs. Money is counted in units of which a day's budget has so
    many, the same for every advertiser: what one earns does not drown what another does.
    """

    budget_units: Positive = 10.0
    step_cost: StepCost = FORMS["deficit"].step_cost
    gmv: GMVLabel = "realised"

    def __post_init__(self) -> None:
        check(self)


class LoggedWeek:
    """One week of a data set, mapped into memory."""

    def __init__(self, data: Path, week: int, cache: Path) -> None:
        path = build_cache(data, week, cache)
        self.week = week
        self.map_rows(path)
        self.advertisers = read_advertisers(data, week)
        shards = shards_of(data, week)
        ledgers = [read_ledger(data, week, shard) for shard in shards]
        lengths = segments_of(ledgers)
        count = len(self.advertisers["adv"])
        totals = np.zeros((DAYS, count, 3))  # pay, GMV and fair pay of each day
        places = []
        for shard, ledger in zip(shards, ledgers, strict=True):
            where = places_of(ledger["adv"], self.advertisers["adv"])
            places.append(where)
            day = [ledger[name] for name in ("pay", "gmv", "fair_pay")]
            totals[shard.day, where] += np.stack(day, axis=1)
        self.earlier = known_by_day(totals, carried_into(data, week, self.advertisers))
        kept = lengths > 0
        self.segments = Segments(
            start=(np.cumsum(lengths) - lengths)[kept],
            length=lengths[kept],
            place=np.concatenate(places)[kept],
            **{
                name: np.concatenate([ledger[name] for ledger in ledgers])[kept]
                for name in ("arm", "pay", "gmv")
            },
        )
        # What observations need of advertisers, beside each other to be gathered at once.
        columns = ("log_roi", "budget", *CATEGORY, *AD)
        self.facts = np.stack([self.advertisers[name] for name in columns], axis=1, dtype=float)

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
                start, length, place = (
                    column[segments]
                    for column in (self.segments.start, self.segments.length, self.segments.place)
                )
                index = np.repeat(start - (np.cumsum(length) - length), length)
                index += np.arange(len(index))
                rows = self.rows[["gmv", "pay", "k"]][index]
                gmv = rows["gmv"].astype(float)
                fair = rows["pay"] / rows["k"].astype(float)
                left = [np.empty(0), np.empty(0)]  # GMV and fair pay to come
                for part, values in enumerate((gmv, fair)):
                    whole = np.add.reduceat(values, np.cumsum(length) - length)
                    left[part] = np.repeat(whole + later[part, place], length)
                    left[part] -= before_in_day(values, length)
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
        log_roi, budget = facts[:, 0].astype(np.float32), facts[:, 1]
        cut = 2 + len(CATEGORY)
        return observe(
            Advertiser(log_roi, budget, facts[:, 2:cut], facts[:, cut:]), moment, account
        )


def carried_into(data: Path, week: int, advertisers: Table) -> np.ndarray:
    """[advertisers, 2], GMV and fair pay of the weeks before; 0 for newcomers and first weeks."""
    found = np.zeros((len(advertisers["adv"]), 2))
    expected = read_manifest(data, week).get("carried_in")
    if expected is not None:
        path = data / carried_file(week - 1)
        check_whole(path, expected)
        before = read_table(path, "carried")
        slot = advertisers["slot"]
        same = before["adv"][slot] == advertisers["adv"]
        found = np.stack([before[name][slot] * same for name in ("gmv", "fair_pay")], axis=1)
    return found


def known_by_day(totals: np.ndarray, carried: np.ndarray) -> np.ndarray:
    """[days, advertisers, 4], what `Account` has of earlier days when each begins."""
    this_week = np.zeros_like(totals[0, :, :2])
    found = []
    for today in totals:
        found.append(np.concatenate([this_week, carried], axis=1))
        this_week = this_week + today[:, :2]
        carried = DECAY * carried + today[:, 1:]
    return np.stack(found)


class Segments(NamedTuple):
    """Days of advertisers, each a run of rows."""

    start: np.ndarray
    length: np.ndarray
    place: np.ndarray  # of the advertiser in its week
    arm: np.ndarray
    pay: np.ndarray  # of the day
    gmv: np.ndarray


class Drawn(NamedTuple):
    """Rows of minibatches: what an update takes, as NumPy arrays [updates, batch, ...]."""

    observation: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    cost: np.ndarray
    continues: np.ndarray  # 0 on the last row of a day
    next_observation: np.ndarray
    slot: np.ndarray  # the advertiser's, whole numbers
    category: np.ndarray
    accrued: np.ndarray  # cost of the day before this row


class Pool(NamedTuple):
    """Days to draw from, those of one group beside each other."""

    weight: np.ndarray  # [groups], summed up to 1
    first: np.ndarray  # [groups], rows before the group's
    rows: np.ndarray  # [groups]
    ends: np.ndarray  # [days], rows up to the end of each
    shift: np.ndarray  # [days], from a place in the pool to the row in the week's file
    week: np.ndarray  # [days], index of the week
    in_order: bool  # all rows of one week, as they stand in its file


RECENT = re.compile(r"recent\((?:half_life=)?(.+)\)")
STRATEGIES = "uniform, recent(HALF_LIFE in weeks), advertiser_balanced, stratified"


def half_life_of(strategy: str) -> float | None:
    """In weeks, of a strategy that has one; an error where there is no such strategy."""
    recent = RECENT.fullmatch(strategy)
    if not recent:
        if strategy not in ("uniform", "advertiser_balanced", "stratified"):
            raise ValueError(f"no strategy {strategy!r}; there is: {STRATEGIES}")
        return None
    try:
        half_life = float(recent[1])
    except ValueError:
        half_life = np.nan
    if not 0.0 < half_life < np.inf:
        raise ValueError(f"{strategy}: the half-life must be above 0, in weeks")
    return half_life


class HistoricalDataset:
    """Logged weeks of a data set, to be sampled from, in the order of time.

    `arms` names, for a week, the arms whose rows may be drawn; without a name all are.
    """

    def __init__(
        self,
        data: str | Path,
        weeks: Sequence[int],
        *,
        arms: Mapping[int, Sequence[int]] | None = None,
        cache: str | Path | None = None,
        learning: Learning | None = None,
    ) -> None:
        data = Path(data)
        folder = Path(cache) if cache else data / "cache"
        if not weeks or len(set(weeks)) < len(weeks):
            raise ValueError(f"weeks {list(weeks)}: at least one is needed, and each once")
        others = sorted((arms or {}).keys() - set(weeks))
        if others:
            raise ValueError(f"arms of week {others[0]} are named, which is none of {list(weeks)}")
        self.weeks = [LoggedWeek(data, week, folder) for week in sorted(weeks)]
        self.learning = learning or Learning()
        if self.learning.gmv == "calibrated":
            check_first_price(data)
        # Of each week, the days (indices of its segments) that may be drawn from.
        self.chosen = [self._eligible(week, arms or {}) for week in self.weeks]
        self._pools: dict[str, Pool] = {}
        if not len(self):
            raise ValueError(f"{data}: weeks {list(weeks)} have no row")

    def _eligible(self, week: LoggedWeek, arms: Mapping[int, Sequence[int]]) -> np.ndarray:
        if week.week not in arms:
            return np.arange(len(week.segments.start))
        named = list(arms[week.week])
        lost = sorted(set(named) - set(week.segments.arm.tolist()))
        if lost or not named:
            raise ValueError(f"no row of week {week.week} is of arm {lost[0] if lost else named}")
        return np.flatnonzero(np.isin(week.segments.arm, named))

    def __len__(self) -> int:
        """Rows that may be drawn."""
        return sum(
            int(week.segments.length[chosen].sum())
            for week, chosen in zip(self.weeks, self.chosen, strict=True)
        )

    def draw(
        self, updates: int, batch: int, rng: np.random.Generator, strategy: str = "uniform"
    ) -> Drawn:
        """[updates, batch] rows, drawn with replacement."""
        if min(updates, batch) < 1:
            raise ValueError(f"{updates} updates with {batch} rows each; at least 1 of 1 is needed")
        pool = self._pool(strategy)
        count = updates * batch
        group = np.zeros(count, np.intp)
        if len(pool.weight) > 1:
            edges = np.cumsum(pool.weight)
            group = np.searchsorted(edges, rng.random(count) * edges[-1], side="right")
            group = np.minimum(group, len(edges) - 1)
        at = pool.first[group] + (rng.random(count) * pool.rows[group]).astype(np.int64)
        if pool.in_order:  # all rows of one week: their places are the rows
            return self._gather(group, at, (updates, batch))
        day = np.searchsorted(pool.ends, at, side="right")
        index = at + pool.shift[day]
        return self._gather(pool.week[day], index, (updates, batch))

    def sample(
        self, updates: int, batch: int, rng: np.random.Generator, strategy: str = "uniform"
    ) -> Any:
        """A block of batches for an algorithm's `update`; strategies: uniform over rows, recent
        weeks more often, each advertiser or each stratum (category, volume) as often as any other.
        """
        return as_batch(self.draw(updates, batch, rng, strategy))

    def _gather(self, weeks: np.ndarray, index: np.ndarray, shape: tuple[int, int]) -> Drawn:
        single = len(self.weeks) == 1
        parts = []
        places = []
        for number, week in enumerate(self.weeks):
            chosen = np.arange(len(index)) if single else np.flatnonzero(weeks == number)
            for start in range(0, len(chosen), BATCHES_AT_ONCE):
                part = chosen[start : start + BATCHES_AT_ONCE]
                places.append(part)
                parts.append(self.read(week, index[part]))
        if len(parts) == 1:
            found = parts[0]
        else:
            order = np.concatenate(places)
            found = Drawn(*(scattered(order, c) for c in zip(*parts, strict=True)))
        return Drawn(*(column.reshape(*shape, *column.shape[1:]) for column in found))

    def read(self, week: LoggedWeek, index: np.ndarray) -> Drawn:
        """Rows of one week by their place in its file, [N, ...]."""
        count = len(index)
        both = week.with_successors(index).reshape(-1)
        seen, rows = week.observations(both), both[:count]
        goes_on = rows["day_and_done"] >> 3 == GOES_ON
        place = rows["place"]
        log_roi, budget = week.facts[place, :2].T
        roi = np.exp(log_roi)
        units, cost = self.learning.budget_units, self.learning.step_cost
        to_unit = units / budget
        pay, gmv = rows["pay"] * to_unit, rows["gmv"] * to_unit
        if self.learning.gmv == "calibrated":
            gmv = pay / rows["k"].astype(float) * week.from_here_on[index]
        day_pay, day_gmv = rows["day_pay"] * to_unit, rows["day_gmv"] * to_unit
        # Money is in units already, so a form that divides by the budget divides by one of them.
        action = (rows["k"].astype(np.float32) - (K_HIGH + K_LOW) / 2) / ((K_HIGH - K_LOW) / 2)
        return Drawn(
            observation=seen[:count],
            action=action[:, None],
            reward=pay.astype(np.float32),
            cost=np.asarray(cost(pay, gmv, roi, 1.0), np.float32),
            continues=goes_on.astype(np.float32),
            next_observation=seen[count:],
            slot=week.advertisers["slot"][place].astype(np.int32),
            category=week.advertisers["category"][place].astype(np.int32),
            accrued=np.asarray(cost(day_pay, day_gmv, roi, 1.0), np.float32),
        )

    def _pool(self, strategy: str) -> Pool:
        if strategy not in self._pools:
            self._pools[strategy] = self._make_pool(strategy)
        return self._pools[strategy]

    def _make_pool(self, strategy: str) -> Pool:
        half_life = half_life_of(strategy)
        group, start, length, week = [], [], [], []
        for number, (logged, chosen) in enumerate(zip(self.weeks, self.chosen, strict=True)):
            segments = logged.segments
            group.append(groups_of(strategy, logged, segments.place[chosen], number))
            start.append(segments.start[chosen])
            length.append(segments.length[chosen])
            week.append(np.full(len(chosen), number))
        groups, numbers = np.unique(np.concatenate(group), return_inverse=True)
        order = np.argsort(numbers, kind="stable")
        lengths = np.concatenate(length)[order]
        rows = np.bincount(numbers[order], lengths, len(groups)).astype(np.int64)
        ends = np.cumsum(lengths)
        shift = np.concatenate(start)[order] - (ends - lengths)
        return Pool(
            weight=self._weights(groups, half_life),
            first=np.cumsum(rows) - rows,
            rows=rows,
            ends=ends,
            shift=shift,
            week=np.concatenate(week)[order],
            in_order=len(self.weeks) == 1 and not shift.any(),
        )

    def _weights(self, groups: np.ndarray, half_life: float | None) -> np.ndarray:
        if half_life is None:
            return np.full(len(groups), 1.0 / len(groups))
        weeks = np.array([self.weeks[int(number)].week for number in groups])
        weight = 0.5 ** ((weeks.max() - weeks) / half_life)
        return weight / weight.sum()

    def mean_day_cost(self, slots: int) -> np.ndarray:
        """[slots], what the days that may be drawn cost each advertiser of the newest week, on
        average; NaN for those that have none.
        """
        week, chosen = self.weeks[-1], self.chosen[-1]
        place = week.segments.place[chosen]
        log_roi, budget = week.facts[place, :2].T
        to_unit = self.learning.budget_units / budget
        pay, gmv = week.segments.pay[chosen] * to_unit, week.segments.gmv[chosen] * to_unit
        cost = np.asarray(self.learning.step_cost(pay, gmv, np.exp(log_roi), 1.0))
        slot = week.advertisers["slot"][place]
        days = np.bincount(slot, minlength=slots)
        total = np.bincount(slot, cost, minlength=slots)
        return np.divide(total, days, out=np.full(slots, np.nan), where=days > 0)

    def newcomers(self, slots: int) -> np.ndarray:
        """bool[slots], whether the newest week's advertiser took the place of another since the
        week before, of those that are here.
        """
        before, now = np.zeros((2, slots), np.int64)
        if len(self.weeks) > 1:
            for adv, week in zip((before, now), self.weeks[-2:], strict=True):
                adv[week.advertisers["slot"]] = week.advertisers["adv"]
        return before != now

    def scale(self, rows: int = SCALE_ROWS, seed: int = 0) -> "Scale":
        """Mean and deviation of observations in the first week, which stay for all later ones."""
        week = self.weeks[0]
        generator = np.random.default_rng(seed)
        index = np.sort(generator.integers(len(week.rows), size=min(rows, len(week.rows))))
        seen = week.observations(week.rows[index]).astype(np.float64)
        return Scale(
            seen.mean(axis=0).astype(np.float32),
            np.maximum(seen.std(axis=0), 1e-2).astype(np.float32),
            LARGEST,
        )


def check_first_price(data: Path) -> None:
    """Where a win costs what was bid, pay / k is the fair price that predictions are judged by."""
    path = data / WORLD
    world = json.loads(path.read_bytes()).get("world", {}) if path.exists() else {}
    if world.get("price") != "first":
        raise ValueError(
            f"{data}: calibrated GMV takes pay / k for the fair price, which holds for simulated "
            "first-price markets only; learn from realised GMV (--gmv realised)"
        )


class Scale(NamedTuple):
    """How observations are brought to scale: (x - mean) / deviation, clipped to +-largest."""

    mean: np.ndarray  # [obs]
    deviation: np.ndarray
    largest: float


def groups_of(strategy: str, week: LoggedWeek, places: np.ndarray, number: int) -> np.ndarray:
    """The group of each of an advertiser's days, as whole numbers."""
    table = week.advertisers
    if strategy == "advertiser_balanced":
        return table["adv"][places].astype(np.int64)
    if strategy == "stratified":
        return table["category"][places].astype(np.int64) * 256 + table["volume_decile"][places]
    if strategy.startswith("recent"):
        return np.full(len(places), number, np.int64)
    return np.zeros(len(places), np.int64)


def scattered(order: np.ndarray, parts: Sequence[np.ndarray]) -> np.ndarray:
    """The parts put together, each row at its place."""
    joined = np.concatenate(parts)
    found = np.empty_like(joined)
    found[order] = joined
    return found


def as_batch(drawn: Drawn) -> Any:
    from prudent.pieces.types import Batch

    fields: Any = drawn  # arrays of NumPy, which JAX takes for its own
    return Batch(
        observation=fields.observation,
        action=fields.action,
        reward=fields.reward,
        cost=fields.cost,
        reward_continues=fields.continues,
        cost_continues=fields.continues,
        next_observation=fields.next_observation,
    )
