"""Logged weeks to learn from: which rows are drawn, and how they become rewards and costs."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from prudent.settings.checks import Positive, check
from prudent_bidding.forms import FORMS
from prudent_bidding.logged_week import LoggedWeek
from prudent_bidding.schema import GOES_ON, K_HIGH, K_LOW, WORLD

SCALE_ROWS = 200_000  # from which the scale of observations is measured
LARGEST = 5.0  # scaled observations are clipped to this
BATCHES_AT_ONCE = 4_096  # rows that are turned into observations together: they fit the cache

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
        if strategy not in self._pools:
            self._pools[strategy] = self._make_pool(strategy)
        pool = self._pools[strategy]
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
        columns: list[np.ndarray] = []
        for number, week in enumerate(self.weeks):
            chosen = np.flatnonzero(weeks == number)
            for start in range(0, len(chosen), BATCHES_AT_ONCE):
                part = chosen[start : start + BATCHES_AT_ONCE]
                rows = self.read(week, index[part])
                columns = columns or [np.empty((len(index), *c.shape[1:]), c.dtype) for c in rows]
                for column, values in zip(columns, rows, strict=True):
                    column[part] = values
        return Drawn(*(column.reshape(*shape, *column.shape[1:]) for column in columns))

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
