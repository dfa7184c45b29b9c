"""Experience on the host: rows of float32, the oldest overwritten first."""

import numpy as np

from prudent.tasks.door import Outcome
from prudent.types import row_width


class Replay:
    """Transitions packed as rows in the order `types.transition_from_row` reads.

    Rows have an absolute index, 0 for the first ever added; row i stands at i % capacity.
    """

    def __init__(self, capacity: int, observation_size: int, action_size: int) -> None:
        width = row_width(observation_size, action_size)
        self.rows = np.zeros((capacity, width), np.float32)  # pages are claimed when first written
        self.added = 0
        self._observation_size, self._action_size = observation_size, action_size

    @property
    def capacity(self) -> int:
        return len(self.rows)

    @property
    def size(self) -> int:
        return min(self.added, self.capacity)

    @property
    def first(self) -> int:
        """Absolute index of the oldest row still held."""
        return self.added - self.size

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

    def sample(self, generator: np.random.Generator, updates: int, batch: int) -> np.ndarray:
        """[updates, batch, width], uniform and without repetition inside a batch."""
        return self.rows[distinct(generator, self.size, updates, batch)]


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
