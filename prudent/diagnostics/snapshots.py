"""A run's snapshots: what it acted and estimated with at some steps."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from prudent.algorithms import build_for
from prudent.diagnostics.gap import Estimate, Estimates
from prudent.files import checksum, read_regular
from prudent.policies.policy import read_environment
from prudent.runs.checkpoint import DamagedCheckpoint, named_leaves
from prudent.runs.folder import RunFolder
from prudent.runs.manifest import LARGEST_ARRAYS
from prudent.runs.snapshot import read_snapshot, snapshot_path
from prudent.tasks.episodes import Act

ROWS = 1024  # states that the critics judge in one call


class Snapshot(NamedTuple):
    step: int
    checksum: str  # of the file, shortened; `none` where it cannot be read


class Subject(NamedTuple):
    """A run's algorithm, compiled once for all its snapshots."""

    read: Callable[[int], Any]  # step -> state
    acting: Callable[[Any, int], Act]  # state, seed -> the policy as it explored
    estimating: Callable[[Any], Estimate] | None  # state; None without cost critics


def snapshots_in(folder: Path) -> list[Snapshot]:
    """By step."""
    found = []
    for path in sorted((folder / "snapshots").glob("step-*.safetensors")):
        digits = path.stem.removeprefix("step-")
        if digits.isdecimal() and path == snapshot_path(folder, int(digits)):
            found.append(Snapshot(int(digits), checksum_of(path)))
    return found


def checksum_of(path: Path) -> str:
    try:
        return checksum(read_regular(path, LARGEST_ARRAYS))[:16]
    except OSError:
        return "none"  # whoever reads it is told why


def read_state(folder: RunFolder, template: Any, step: int) -> Any:
    state = read_snapshot(folder, step, template)
    for name, leaf in named_leaves(state).items():
        if not np.isfinite(leaf).all():
            path = snapshot_path(folder.path, step)
            raise DamagedCheckpoint(f"{path}: {name} holds numbers that are not finite")
    return state


def subject_of(folder: Path, stored: RunFolder) -> Subject:
    algorithm = build_for(stored.run, read_environment(stored.content).spec)
    template = jax.eval_shape(algorithm.init, jax.random.key(0))

    @jax.jit
    def sample(state: Any, observations: jax.Array, key: jax.Array, time: jax.Array) -> jax.Array:
        return algorithm.act(state, observations, jax.random.fold_in(key, time))

    def acting(state: Any, seed: int) -> Act:
        key, state = jax.random.key(seed), jax.device_put(state)

        def act(observations: np.ndarray, time: int) -> np.ndarray:
            return np.asarray(sample(state, observations.astype(np.float32), key, time))

        return act

    if algorithm.cost_estimate is None:
        return Subject(partial(read_state, stored, template), acting, None)
    judge = jax.jit(algorithm.cost_estimate)

    def estimating(state: Any) -> Estimate:
        state = jax.device_put(state)
        return partial(in_pieces, lambda *inputs: Estimates(*judge(state, *inputs)))

    return Subject(partial(read_state, stored, template), acting, estimating)


def in_pieces(judge: Estimate, observations: np.ndarray, actions: np.ndarray) -> Estimates:
    """In calls of one size, so that one compilation serves them all."""
    pieces = []
    for first in range(0, len(observations), ROWS):
        rows = [array[first : first + ROWS] for array in (observations, actions)]
        count = len(rows[0])
        padded = (np.pad(array, ((0, ROWS - count), (0, 0))) for array in rows)
        pieces.append([np.asarray(part, float)[:count] for part in judge(*padded)])
    return Estimates(*(np.concatenate(parts) for parts in zip(*pieces, strict=True)))
