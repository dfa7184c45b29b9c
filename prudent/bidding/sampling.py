"""How quickly minibatches are drawn from a logged week, beside what memory allows at that time."""

from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import numpy as np

from prudent.bidding.dataset import HistoricalDataset

UPDATES, BATCH = 16, 256  # drawn in one call


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
    rows = history.weeks[0].rows

    def gather() -> None:
        index = generator.integers(len(rows) - 1, size=UPDATES * BATCH)
        rows[index]
        rows[index + 1]

    def draw() -> None:
        history.draw(UPDATES, BATCH, generator, strategy)

    return Rate(per_second(draw, seconds), per_second(gather, seconds))


def per_second(work: Callable[[], None], seconds: float) -> float:
    """Transitions of the quickest tenth of calls: others share the machine."""
    work()
    times: list[float] = []
    until = perf_counter() + seconds
    while perf_counter() < until or len(times) < 10:
        began = perf_counter()
        work()
        times.append(perf_counter() - began)
    return UPDATES * BATCH / float(np.quantile(times, 0.1))
