"""The spaces of a policy's environment: checks of observations, and actions in the space's form."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np


class Spaces(NamedTuple):
    """An environment's observations and actions, as its spaces have them."""

    observation_shape: tuple[int, ...]
    action_shape: tuple[int, ...]
    action_dtype: str
    action_bounds: tuple[np.ndarray, np.ndarray] | None  # [act] each, which rounding must not leave

    def flat(self, observation: Any) -> np.ndarray:
        """One observation or several, stacked, as [..., obs] in float32; each of them in its own
        shape or flat already.
        """
        try:
            array = np.asarray(observation)
        except ValueError:  # parts of different sizes
            array = np.array(None)
        if array.dtype.kind not in "fiub":
            raise ValueError(
                f"an observation is an array of numbers of shape {self.observation_shape}, not a "
                f"{type(observation).__name__}; gymnasium.spaces.flatten makes one of several parts"
            )
        size, rank = math.prod(self.observation_shape), len(self.observation_shape)
        leading = array.ndim - rank
        if leading < 0 or array.shape[leading:] != self.observation_shape:
            leading = array.ndim - 1
            if array.shape[leading:] != (size,):
                raise ValueError(
                    f"the observation has shape {array.shape}, the policy was trained on "
                    f"{self.observation_shape} (or several of them, stacked)"
                )
        with np.errstate(over="ignore"):
            flat = array.astype(np.float32).reshape(*array.shape[:leading], size)
        if not np.isfinite(flat).all():
            where = np.argwhere(~np.isfinite(flat.reshape(array.shape)))[0].tolist()
            value = array[tuple(where)]
            index = where[0] if len(where) == 1 else tuple(where)
            raise ValueError(
                f"the observation holds {value} at index {index}; "
                "finite numbers in the range of float32 are needed"
            )
        return flat

    def shaped(self, action: np.ndarray) -> np.ndarray:
        """[..., act] in the environment's units, as its action space has it."""
        if self.action_bounds is not None:
            low, high = self.action_bounds
            action = np.minimum(np.maximum(action, low), high)
        return action.reshape(*action.shape[:-1], *self.action_shape).astype(self.action_dtype)


def read_spaces(
    fields: Mapping[str, Any] | None, observation_size: int, action_size: int
) -> Spaces:
    """From JSON, as `tasks.adapter.describe_spaces` has it. Records of earlier versions have none:
    flat vectors, and actions in the type that fits every space.
    """
    if fields is None:
        return Spaces((observation_size,), (action_size,), "float32", None)
    return Spaces(
        tuple(fields["observation_shape"]),
        tuple(fields["action_shape"]),
        fields["action_dtype"],
        (np.array(fields["action_low"]), np.array(fields["action_high"])),
    )
