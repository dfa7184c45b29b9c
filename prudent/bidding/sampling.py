"""How quickly minibatches are drawn from a logged week, beside what memory allows at that time."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np

from prudent.bidding.dataset import PACKED, HistoricalDataset, Segments
from prudent.bidding.engines import make_engine
from prudent.bidding.simulate import make_order, simulate_week
from prudent.bidding.world import preset

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


def measure_sampling(folder: Path, rows: int) -> dict[str, float]:
    """For `prudent bidding bench`: a small world's week, repeated to the size of a full one."""
    order = make_order(folder / "sampled", preset("smoke"), 0, 0, ["incumbent"], oracle_rows=False)
    simulate_week(order, make_engine("local", 1))
    history = enlarged(HistoricalDataset(folder / "sampled", [0]), folder / "rows", rows)
    rate = sampling_rate(history)
    return {
        "rows": len(history),
        "transitions_per_second": rate.transitions,
        "limit_transitions_per_second": rate.limit,
        "limit_ratio": rate.ratio,
        "goal": GOAL,
    }


def enlarged(history: HistoricalDataset, path: Path, rows: int) -> HistoricalDataset:
    """The same with its only week repeated behind itself in a file, to at least so many rows."""
    (week,) = history.weeks
    times = -(-rows // len(week.rows))
    content = week.rows.tobytes()
    with path.open("wb") as file:
        for _ in range(times):
            file.write(content)
        file.write(bytes(PACKED.itemsize))
    shift = np.repeat(np.arange(times) * len(week.rows), len(week.segments.start))
    segments = Segments(*(np.tile(column, times) for column in week.segments))
    week.segments = segments._replace(start=segments.start + shift)
    week.map_rows(path)
    history.chosen = [np.arange(len(shift))]
    return history
