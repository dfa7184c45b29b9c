"""The bytes that an update must move besides its products, read from what it does to the state.

Trained parameters: gradient and parameter are read, the parameter is written, and the optimiser's
moments are both; for Adam seven numbers per parameter, at every step. Any other array that changes
is taken for a slow copy: it and its source are read, and it is written. Single numbers are free.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import jax
import numpy as np

from prudent.pieces.networks import Trained

SCALARS = ((), (1,))  # the second of the one limit, of which a Dual could have several


def moved_bytes(history: Sequence[Any]) -> dict[str, int]:
    """Per update, given the learner's state before the first, between them and after the last."""
    optimiser = targets = 0.0
    trees = (jax.tree.leaves(state, is_leaf=is_trained) for state in history)
    for part in zip(*trees, strict=True):
        if is_trained(part[0]):
            parameters, moments = array_bytes(part[0].params), array_bytes(part[0].optimiser)
            optimiser += steps_per_update(part) * (3 * parameters + 2 * moments)
        else:
            targets += changed_share(part) * 3 * array_bytes(part[0])
    return {"optimiser": round(optimiser), "targets": round(targets)}


def is_trained(value: Any) -> bool:
    return isinstance(value, Trained)


def array_bytes(tree: Any) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree) if leaf.shape not in SCALARS)


def steps_per_update(history: Sequence[Trained]) -> float:
    """By the optimiser's own count; without one, an update that changes anything is one step."""
    states = [jax.tree.leaves(trained.optimiser) for trained in (history[0], history[-1])]
    for first, last in zip(*states, strict=True):
        if not first.ndim and np.issubdtype(first.dtype, np.integer):
            return int(last - first) / (len(history) - 1)
    return changed_share([trained.params for trained in history])


def changed_share(history: Sequence[Any]) -> float:
    """Of the updates, those after which some number is another."""
    leaves = [jax.tree.leaves(tree) for tree in history]
    changed = [
        any((a != b).any() for a, b in zip(before, after, strict=True))
        for before, after in pairwise(leaves)
    ]
    return sum(changed) / len(changed)
