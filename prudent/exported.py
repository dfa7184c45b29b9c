"""A policy in one small file, which acts without JAX and can be read without this library.

The file is in safetensors format. Its arrays are the network's layers in order (`layers/0/weight`
[in, out], `layers/0/bias` [out], ...), `action/scale` and `action/centre`, `action/log_std` where
exploring adds noise that no observation changes, and, where training brought observations to
scale, `observation/mean`, `observation/deviation` and the bound to which
they are then clipped, `observation/largest`. Its metadata has one entry, `policy`, in JSON: the
`activation` between layers, the `head`, which makes an action in [-1, 1] of the first outputs, the
`spaces` of the environment (see `Spaces`), and where the policy comes from.
"""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from prudent.files import canonical_json, checksum, to_json, write_atomically

ACTIVATIONS: dict[str, Callable[..., np.ndarray]] = {  # x, out=None
    "relu": lambda x, out=None: np.maximum(x, 0.0, out=out),
    "silu": lambda x, out=None: np.multiply(x, 0.5 + 0.5 * np.tanh(0.5 * x), out=out),
    "tanh": np.tanh,
}
HEADS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "clip": lambda x: np.clip(x, -1.0, 1.0),
    "tanh": np.tanh,
    "sigmoid": lambda x: np.tanh(np.clip(x, -5.0, 5.0) / 2.0),  # 2 sigmoid(x) - 1
}


FORMAT = 2  # 1: the checksum left out what is said about the numbers


class DamagedPolicy(ValueError):
    """A file that holds no policy, or not all of it."""


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


class ExportedPolicy:
    """Call it with an observation (or several, stacked) to get the greedy action(s), as the
    environment takes them. `about` says where it comes from.
    """

    def __init__(
        self,
        arrays: dict[str, np.ndarray],
        about: dict[str, str],
        spaces: Mapping[str, Any] | None = None,
    ) -> None:
        self.about = about
        self._activation, self._head = ACTIVATIONS[about["activation"]], HEADS[about["head"]]
        count = sum(name.endswith("/weight") for name in arrays)
        self._layers = [
            (arrays[f"layers/{i}/weight"], arrays[f"layers/{i}/bias"]) for i in range(count)
        ]
        self._scale, self._centre = arrays["action/scale"], arrays["action/centre"]
        self.log_std = arrays.get("action/log_std")  # of noise that no observation changes
        self._scaling = [
            arrays[name] for name in sorted(arrays) if name.startswith("observation/")
        ]  # deviation, largest, mean; or nothing
        self.spaces = read_spaces(spaces, len(self._layers[0][0]), len(self._scale))

    def __call__(self, observation: Any) -> np.ndarray:
        outputs = self.outputs(observation)
        return self.from_unit(self._head(outputs[..., : len(self._scale)]))

    def outputs(self, observation: Any) -> np.ndarray:
        """Of the last layer: what the mode is made of and, for some algorithms, the spread."""
        x = self.spaces.flat(observation)
        if self._scaling:
            deviation, largest, mean = self._scaling
            x = np.clip((x - mean) / deviation, -largest, largest)
        *hidden, (weight, bias) = self._layers
        for inner_weight, inner_bias in hidden:
            x = x @ inner_weight
            x += inner_bias
            x = self._activation(x, out=x)
        return x @ weight + bias

    def from_unit(self, unit_action: np.ndarray) -> np.ndarray:
        """Actions in [-1, 1] as the environment takes them."""
        return self.spaces.shaped(self._scale * unit_action + self._centre)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[np.ndarray, Any]:
        """As Stable-Baselines3 calls a policy. The state is none of ours: it is handed back."""
        if not deterministic:
            raise ValueError(
                "an exported policy acts greedily; ask for deterministic=True, or load the run"
            )
        return self(observation), state


def write_exported(
    path: Path,
    arrays: dict[str, np.ndarray],
    about: dict[str, str],
    spaces: Mapping[str, Any] | None,
) -> None:
    # One entry: the format keeps no order among several, and equal policies should be equal files.
    content = {**about, "spaces": spaces, "format": FORMAT}
    entry = to_json({**content, "checksum": checksum_of(arrays, content)})
    write_atomically(path, save(arrays, metadata={"policy": entry}))


def checksum_of(arrays: dict[str, np.ndarray], content: Mapping[str, Any]) -> str:
    """Of all that decides how the policy acts: its numbers, and what is said about them."""
    return checksum(canonical_json(content) + save(arrays))


def load_exported(path: str | Path) -> ExportedPolicy:
    """A policy that `prudent export` wrote."""
    try:
        with safe_open(path, framework="numpy") as file:
            entry = (file.metadata() or {}).get("policy")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except SafetensorError as error:
        raise DamagedPolicy(f"{path} was cut short or is no safetensors file ({error})") from None
    except OSError as error:
        raise DamagedPolicy(f"{path} cannot be read ({error})") from None
    if entry is None:
        raise DamagedPolicy(f"{path} holds no policy; make one with `prudent export RUN {path}`")
    try:
        about: dict[str, Any] = json.loads(entry)
        written = about.pop("checksum")
        if about.get("format") != FORMAT:
            raise DamagedPolicy(f"{path} is of another version; export the policy again")
        if checksum_of(arrays, about) != written:
            raise DamagedPolicy(f"{path} was altered since it was written; export the policy again")
    except (KeyError, TypeError, AttributeError, RecursionError, json.JSONDecodeError) as error:
        raise DamagedPolicy(f"{path} does not say what its policy is ({error})") from None
    spaces, _ = about.pop("spaces"), about.pop("format")
    return ExportedPolicy(arrays, about, spaces)
