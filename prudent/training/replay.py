"""Experience on the host: rows of float32, the oldest overwritten first."""

from typing import NamedTuple

import numpy as np

from prudent.pieces.types import row_width
from prudent.runs.checkpoint import DamagedCheckpoint, Found
from prudent.tasks.adapter import Outcome


class Discounts(NamedTuple):
    reward: float
    cost: float


class Replay:
    """Transitions packed as rows in the order `types.batch_from_rows` reads.

    Rows have an absolute index, 0 for the first ever added; row i stands at i % capacity. None
    before `origin` is held: where rows were lost, the others are counted on from there.
    """

    def __init__(self, capacity: int, observation_size: int, action_size: int) -> None:
        width = row_width(observation_size, action_size)
        self.rows = np.zeros((capacity, width), np.float32)  # pages are claimed when first written
        self.capacity = capacity
        self.origin = self.added = 0
        self._observation_size, self._action_size = observation_size, action_size

    @property
    def size(self) -> int:
        return self.added - self.first

    @property
    def first(self) -> int:
        """Absolute index of the oldest row still held."""
        return max(self.origin, self.added - self.capacity)

    def add(self, observation: np.ndarray, action: np.ndarray, outcome: Outcome) -> None:
        row = self.rows[self.added % self.capacity]
        end = self._observation_size
        row[:end] = observation
        row[end : end + self._action_size] = action
        end += self._action_size
        row[end] = outcome.reward
        row[end + 1] = outcome.cost
        row[end + 2] = outcome.reward_continues
        row[end + 3] = outcome.cost_continues
        row[end + 4 :] = outcome.observation
        self.added += 1

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows by absolute index."""
        return self.rows[np.arange(start, stop) % self.capacity]

    def write(self, start: int, rows: np.ndarray) -> None:
        """Put rows back at their absolute index, as `read` gave them."""
        self.rows[np.arange(start, start + len(rows)) % self.capacity] = rows

    def restore(self, found: Found) -> None:
        """Hold the rows that a checkpoint has.

        Where some are lost the others close up, so that no hole is ever drawn from. They are
        counted on from the newest that ever was, so that no segment on disk is mistaken for one of
        theirs.
        """
        first = max(found.first, found.added - self.capacity)
        for segment in found.segments:
            if segment.rows.shape[1:] != self.rows.shape[1:]:
                raise DamagedCheckpoint(
                    f"the replay's rows have {segment.rows.shape[1]} numbers, not the "
                    f"{self.rows.shape[1]} of this run's environment"
                )
        self.origin, self.added = (found.added,) * 2 if found.lost else (first, first)
        for segment in found.segments:
            rows = segment.rows[max(0, first - segment.start) :]
            self.write(self.added, rows)
            self.added += len(rows)

    def draw(self, generator: np.random.Generator, updates: int, batch: int) -> np.ndarray:
        """Places of rows, [updates, batch], uniform and without repetition inside a batch."""
        indices = distinct(generator, self.size, updates, batch)
        if not self.first or self.size == self.capacity:
            return indices
        return (self.first + indices) % self.capacity

    def draw_recent(
        self, generator: np.random.Generator, updates: int, batch: int, steps: int
    ) -> np.ndarray:
        """The same among the rows added last."""
        among = min(steps, self.size)
        indices = distinct(generator, among, updates, batch)
        return (self.added - among + indices) % self.capacity

    def look_ahead(self, places: np.ndarray, steps: int, discounts: Discounts) -> np.ndarray:
        """Rows [..., width] whose reward and cost are sums over up to `steps` rows from there on.

        The next observation is the last one's, and the masks are multiplied with each other and
        with the discounts passed over, so that one-step targets made of these rows are n-step
        targets. A row continues another if it starts where that one ended.
        """
        start = self._observation_size + self._action_size
        reward, cost, reward_continues, cost_continues, then = range(start, start + 5)
        rows = self.rows[places]
        newest = (self.added - 1) % self.capacity
        open_ended = np.ones(places.shape, bool)
        for _ in range(steps - 1):
            following = self.rows[(places + 1) % self.capacity]
            joins = (rows[..., then:] == following[..., : self._observation_size]).all(axis=-1)
            open_ended &= joins & (places != newest)
            longer = rows.copy()
            for column, mask, discount in (
                (reward, reward_continues, discounts.reward),
                (cost, cost_continues, discounts.cost),
            ):
                weight = discount * rows[..., mask]
                longer[..., column] += weight * following[..., column]
                longer[..., mask] = weight * following[..., mask]
            longer[..., then:] = following[..., then:]
            rows = np.where(open_ended[..., None], longer, rows)
            places = (places + 1) % self.capacity
        return rows


def distinct(generator: np.random.Generator, size: int, updates: int, batch: int) -> np.ndarray:
    """[updates, batch] indices below `size`, those of one update all different."""
    if batch * batch > size:  # repetitions are likely: draw each batch with care
        return np.stack(
            [generator.choice(size, batch, replace=False, shuffle=False) for _ in range(updates)]
        )
    indices = generator.integers(size, size=(updates, batch))
    while True:  # draw whole batches anew until none repeats: still uniform over distinct ones
        ordered = np.sort(indices, axis=1)
        repeats = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        if not repeats.any():
            return indices
        indices[repeats] = generator.integers(size, size=(int(repeats.sum()), batch))
