"""How quickly minibatches are drawn from a logged week, beside what memory allows at that time."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np

from prudent_bidding.cache import PACKED, build_cache
from prudent_bidding.dataset import HistoricalDataset
from prudent_bidding.engines import make_engine
from prudent_bidding.logged_week import Segments
from prudent_bidding.simulate import make_order, simulate_week
from prudent_bidding.world import preset

UPDATES, BATCH = 16, 256  # drawn in one call
GOAL = 1_000_000.0  # transitions per second


class Rate(NamedTuple):
    """Transitions per second; the limit is to copy the same packed rows and their successors."""

    transitions: float
    limit: float

    @property
    def ratio(self) -> float:
        return self.transitions / self.limit


def sampling_rate(
    history: HistoricalDataset, strategy: str = "uniform", seconds: float = 2.0
) -> Rate:
    """Of whole minibatches, observations and successors included, in one thread."""
    generator = np.random.default_rng(0)
    week = history.weeks[0]

    def gather() -> None:
        week.with_successors(generator.integers(len(week.rows), size=UPDATES * BATCH))

    def draw() -> None:
        history.draw(UPDATES, BATCH, generator, strategy)

    return Rate(per_second(draw, seconds), per_second(gather, seconds))


def per_second(work: Callable[[], None], seconds: float) -> float:
    """Transitions per second of the processor, by the quickest call: others share the machine."""
    work()
    best = np.inf
    until = perf_counter() + seconds
    while perf_counter() < until or best == np.inf:
        began = process_time()
        work()
        best = min(best, process_time() - began)
    return UPDATES * BATCH / best


def measure_sampling(folder: Path, advertisers: int) -> dict[str, float]:
    """For `prudent bidding bench`: a small world's week, repeated to the size of a full one."""
    data = folder / "sampled"
    order = make_order(data, preset("smoke"), 0, 0, ["incumbent"], oracle_rows=False)
    simulate_week(order, make_engine("local", 1))
    cache = build_cache(data, 0, data / "cache")
    history = HistoricalDataset(data, [0])
    bytes_per_row = cache.stat().st_size / len(history)
    history = enlarged(history, folder / "rows", advertisers)
    rate = sampling_rate(history)
    return {
        "rows": len(history),
        "advertisers": len(history.weeks[0].facts),
        "cache_bytes_per_row": bytes_per_row,
        "transitions_per_second": rate.transitions,
        "limit_transitions_per_second": rate.limit,
        "limit_ratio": rate.ratio,
        "goal": GOAL,
    }


def enlarged(history: HistoricalDataset, path: Path, advertisers: int) -> HistoricalDataset:
    """The same with its only week repeated behind itself in a file, each time with places of its
    own in the tables, for at least so many advertisers. Those of a small world alone would stay in
    the processor's cache, and draws would be quicker than from a full week.
    """
    (week,) = history.weeks
    count, days = len(week.facts), len(week.segments.start)
    times = -(-advertisers // count)
    rows = week.rows.copy()
    with path.open("wb") as file:
        for _ in range(times):
            file.write(rows.tobytes())
            rows["place"] += count
        file.write(bytes(PACKED.itemsize))
    segments = Segments(*(np.tile(column, times) for column in week.segments))
    repeat = np.repeat(np.arange(times), days)
    week.segments = segments._replace(
        start=segments.start + repeat * len(rows), place=segments.place + repeat * count
    )
    week.map_rows(path)
    week.facts, week.earlier = np.tile(week.facts, (times, 1)), np.tile(week.earlier, (1, times, 1))
    week.advertisers = {name: np.tile(column, times) for name, column in week.advertisers.items()}
    history.chosen = [np.arange(len(repeat))]
    return history
