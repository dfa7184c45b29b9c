"""Observations brought to a common scale, by their mean and deviation over all of training so far.

While collecting, the statistics move with every observation. A policy that acts by itself (in an
evaluation, or loaded from its folder) carries them as they were when it was last updated.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from prudent.pieces.types import (
    Algorithm,
    Metrics,
    ObservationScale,
    PolicyNetwork,
    Rollout,
)

LARGEST, SMALLEST_DEVIATION = 5.0, 0.01
_UPPER, _LOWER, _LEAST = map(np.array, (LARGEST, -LARGEST, SMALLEST_DEVIATION))  # as arrays: quick


class Scaling(NamedTuple):
    mean: Any  # [obs]
    deviation: Any  # [obs]


def _deviation(squares: np.ndarray, count: Any) -> np.ndarray:
    found: np.ndarray = squares / (count - 1)
    np.sqrt(found, out=found)
    return np.maximum(found, _LEAST, out=found)


class RunningScale:
    """Mean and deviation of a stream, merged batch by batch (Chan et al.)."""

    def __init__(self, size: int) -> None:
        self.count = 0
        self.mean, self.squares = np.zeros(size), np.zeros(size)

    def see(self, batch: np.ndarray) -> np.ndarray:
        """Take [N, size] into account, then return it to scale; the very first sample as it is."""
        if len(batch) == 1:
            return self._see_one(batch[0])[None]
        seen, total = len(batch), self.count + len(batch)
        centre = batch.sum(axis=0) / seen
        delta = centre - self.mean
        self.mean += delta * (seen / total)
        delta *= delta
        delta *= self.count * seen / total
        delta += ((batch - centre) ** 2).sum(axis=0)
        self.squares += delta
        self.count = total
        return self._to_scale(batch - self.mean)

    def _see_one(self, sample: np.ndarray) -> np.ndarray:
        """The same for [size] (Welford), where NumPy need not broadcast: twice as quick."""
        self.count += 1
        delta = sample - self.mean
        self.mean += delta / self.count
        centred = sample - self.mean
        delta *= centred
        self.squares += delta
        return sample if self.count == 1 else self._to_scale(centred)

    def see_all(self, batches: np.ndarray) -> np.ndarray:
        """`see` for one [N, size] after the other, [T, N, size], by running sums."""
        length, seen, _ = batches.shape
        # About the mean so far, lest large numbers cancel; before the first one any will do.
        about = self.mean if self.count else batches.mean(axis=(0, 1))
        delta = batches - about
        totals = self.count + seen * np.arange(1, length + 1)[:, None]
        sums = delta.sum(axis=1).cumsum(axis=0)  # [T, size]
        means = sums / totals
        squares = self.squares + (delta**2).sum(axis=1).cumsum(axis=0) - sums * means
        squares = np.maximum(squares, 0.0)  # which rounding may undercut
        scaled = (delta - means[:, None]) / _deviation(squares, np.maximum(totals, 2))[:, None]
        scaled = scaled.clip(-LARGEST, LARGEST)
        if totals[0] == 1:
            scaled[0] = batches[0]
        self.count, self.mean, self.squares = int(totals[-1, 0]), about + means[-1], squares[-1]
        return scaled

    def _to_scale(self, centred: np.ndarray) -> np.ndarray:
        centred /= _deviation(self.squares, self.count)
        if np.vdot(centred, centred) <= LARGEST**2:  # then no number is larger
            return centred
        np.minimum(centred, _UPPER, out=centred)
        return np.maximum(centred, _LOWER, out=centred)

    def scaling(self) -> Scaling:
        if self.count < 2:
            return Scaling(np.zeros_like(self.mean), np.ones_like(self.mean))
        return Scaling(self.mean, _deviation(self.squares, self.count))

    def to_array(self) -> np.ndarray:
        """[3, size], for a checkpoint."""
        return np.stack([np.full_like(self.mean, self.count), self.mean, self.squares])

    def from_array(self, array: np.ndarray) -> None:
        self.count, self.mean, self.squares = int(array[0, 0]), array[1].copy(), array[2].copy()


class ScaledState(NamedTuple):
    """A learner's state and the scale on which it sees."""

    learner: Any
    scaling: Scaling


def with_scale(state: ScaledState, scaling: Scaling) -> ScaledState:
    return state._replace(scaling=Scaling(*(jnp.asarray(a, jnp.float32) for a in scaling)))


def normalising(algorithm: Algorithm, observation_size: int) -> Algorithm:
    """The algorithm for raw observations; rollouts come to scale already."""

    def init(key: jax.Array) -> ScaledState:
        scaling = Scaling(jnp.zeros(observation_size), jnp.ones(observation_size))
        return ScaledState(algorithm.init(key), scaling)

    def seen(state: ScaledState, observation: jax.Array) -> jax.Array:
        mean, deviation = (jnp.broadcast_to(a, observation.shape) for a in state.scaling)
        return jnp.clip((observation - mean) / deviation, -LARGEST, LARGEST)

    def act(state: ScaledState, observation: jax.Array, key: jax.Array) -> jax.Array:
        return algorithm.act(state.learner, seen(state, observation), key)

    def act_greedily(state: ScaledState, observation: jax.Array) -> jax.Array:
        return algorithm.act_greedily(state.learner, seen(state, observation))

    def update(state: ScaledState, rollout: Rollout, key: jax.Array) -> tuple[ScaledState, Metrics]:
        learner, metrics = algorithm.update(state.learner, rollout, key)
        return state._replace(learner=learner), metrics

    def network(state: ScaledState) -> PolicyNetwork:
        scale = ObservationScale(state.scaling.mean, state.scaling.deviation, LARGEST)
        return algorithm.network(state.learner)._replace(scaling=scale)

    return Algorithm(init, act, act_greedily, update, network)
