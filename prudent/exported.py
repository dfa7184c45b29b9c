"""A policy in one small file, which acts without JAX and can be read without this library.

The file is in safetensors format. Its arrays are the network's layers in order (`layers/0/weight`
[in, out], `layers/0/bias` [out], ...), `action/scale` and `action/centre`, and, where training
brought observations to scale, `observation/mean`, `observation/deviation` and the bound to which
they are then clipped, `observation/largest`. Its metadata has one entry, `policy`, in JSON: the
`activation` between layers, the `head`, which makes an action in [-1, 1] of the first outputs, and
where the policy comes from.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from prudent.files import checksum, to_json, write_atomically

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


class DamagedPolicy(ValueError):
    """A file that holds no policy, or not all of it."""


class ExportedPolicy:
    """Call it with an observation (or several, stacked) to get the greedy action(s), in the
    environment's units. `about` says where it comes from.
    """

    def __init__(self, arrays: dict[str, np.ndarray], about: dict[str, str]) -> None:
        self.about = about
        self._activation, self._head = ACTIVATIONS[about["activation"]], HEADS[about["head"]]
        count = sum(name.endswith("/weight") for name in arrays)
        self._layers = [
            (arrays[f"layers/{i}/weight"], arrays[f"layers/{i}/bias"]) for i in range(count)
        ]
        self._scale, self._centre = arrays["action/scale"], arrays["action/centre"]
        self._scaling = [
            arrays[name] for name in sorted(arrays) if name.startswith("observation/")
        ]  # deviation, largest, mean; or nothing

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        x = np.asarray(observation, np.float32)
        if self._scaling:
            deviation, largest, mean = self._scaling
            x = np.clip((x - mean) / deviation, -largest, largest)
        *hidden, (weight, bias) = self._layers
        for inner_weight, inner_bias in hidden:
            x = self._activation(x @ inner_weight + inner_bias)
        outputs = x @ weight + bias
        unit_action = self._head(outputs[..., : len(self._scale)])
        return self._scale * unit_action + self._centre


def write_exported(path: Path, arrays: dict[str, np.ndarray], about: dict[str, str]) -> None:
    # One entry: the format keeps no order among several, and equal policies should be equal files.
    entry = to_json({**about, "checksum": checksum(save(arrays))})
    write_atomically(path, save(arrays, metadata={"policy": entry}))


def load_exported(path: str | Path) -> ExportedPolicy:
    """A policy that `prudent export` wrote."""
    try:
        with safe_open(path, framework="numpy") as file:
            entry = (file.metadata() or {}).get("policy")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except SafetensorError as error:
        raise DamagedPolicy(f"{path} was cut short or is no safetensors file ({error})") from None
    if entry is None:
        raise DamagedPolicy(f"{path} holds no policy; make one with `prudent export RUN {path}`")
    about: dict[str, str] = json.loads(entry)
    if checksum(save(arrays)) != about.pop("checksum"):
        raise DamagedPolicy(f"{path} was altered since it was written; export the policy again")
    return ExportedPolicy(arrays, about)
