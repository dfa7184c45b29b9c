"""A policy in one small file, which acts without JAX and can be read without this library.

A file that ends in `.onnx` is an ONNX model (see `prudent.policies.onnx_model`), any other is in
safetensors format. Its arrays are the network's layers in order (`layers/0/weight` [in, out],
`layers/0/bias` [out], ...), `action/scale` and `action/centre`, `action/log_std` where exploring
adds noise that no observation changes, and, where training brought observations to scale,
`observation/mean`, `observation/deviation` and the bound to which
they are then clipped, `observation/largest`. Its metadata has one entry, `policy`, in JSON: the
`activation` between layers, the `head`, which makes an action in [-1, 1] of the first outputs, how
the policy `explores` (see `EXPLORATIONS`; older files do not say), the `spaces` of the environment
(see `prudent.policies.spaces`), where the policy comes from, and how its cost was counted.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from prudent.files import canonical_json, checksum, status_of, to_json, write_atomically
from prudent.policies.spaces import Spaces, read_spaces

# As arrays: NumPy then converts nothing, which for one observation is a good part of the time.
_ZERO, _HALF, _ONE, _FIVE = (np.array(number, np.float32) for number in (0.0, 0.5, 1.0, 5.0))


def _silu(x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Of x, x times its logistic, which is (1 + tanh(x/2)) / 2."""
    half = x * _HALF
    slope = np.tanh(half)
    slope *= half
    return np.add(slope, half, out=out)


def _between(x: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Clipped to [-largest, largest], in place."""
    np.minimum(x, largest, out=x)
    return np.maximum(x, -largest, out=x)


ACTIVATIONS: dict[str, Callable[..., np.ndarray]] = {  # x, out=None
    "relu": lambda x, out=None: np.maximum(x, _ZERO, out=out),
    "silu": _silu,
    "tanh": np.tanh,
}
HEADS: dict[str, Callable[[np.ndarray], np.ndarray]] = {  # which may write over what they are given
    "clip": lambda x: _between(x, _ONE),
    "tanh": lambda x: np.tanh(x, out=x),
    "sigmoid": lambda x: np.tanh(_between(x, _FIVE) * _HALF),  # 2 sigmoid(x) - 1
}
# How noise makes an exploring action, which is clipped to [-1, 1], of the last layer's outputs.
EXPLORATIONS = {
    "constant": "outputs + exp(log_std) noise",
    "squashed": "head(outputs + exp(further outputs) noise)",
    "diagonal": "head(outputs) + exp(further outputs) noise",
    "full": "head(outputs) + noise times the factor of a covariance that the further outputs are",
}
UNSAID = "unsaid"

FORMAT = 2  # 1: the checksum left out what is said about the numbers


class DamagedPolicy(ValueError):
    """A file that holds no policy, or not all of it."""


# Observations [..., obs] in float32, which may be written over, to actions [..., act].
Forward = Callable[[np.ndarray], np.ndarray]


def plain_forward(arrays: Mapping[str, np.ndarray], activation: str, head: str) -> Forward:
    """The network that the arrays of an exported file are, from observations to [-1, 1]."""
    # The last layer's further outputs say how to explore.
    outputs, finish = plain_outputs(arrays, activation, len(arrays["action/scale"])), HEADS[head]
    return lambda x: finish(outputs(x))


def plain_outputs(
    arrays: Mapping[str, np.ndarray], activation: str, first: int | None = None
) -> Forward:
    """The network up to the outputs of its last layer, all of them or the `first`."""
    count = sum(name.endswith("/weight") for name in arrays)
    layers = [(arrays[f"layers/{i}/weight"], arrays[f"layers/{i}/bias"]) for i in range(count)]
    weight, bias = layers[-1]
    layers[-1] = weight[:, :first], bias[:first]
    *hidden, (last_weight, last_bias) = [(_quick_order(w), b) for w, b in layers]
    scaling = [arrays[name] for name in sorted(arrays) if name.startswith("observation/")]
    activate = ACTIVATIONS[activation]

    def forward(x: np.ndarray) -> np.ndarray:
        if scaling:
            deviation, largest, mean = scaling
            x = _between((x - mean) / deviation, largest)
        for weight, bias in hidden:
            x = x.dot(weight)
            x += bias
            activate(x, out=x)
        x = x.dot(last_weight)
        x += last_bias
        return x

    return forward


def _quick_order(weight: np.ndarray) -> np.ndarray:
    """In the layout with which BLAS is quickest to multiply one row by it."""
    many_inputs = weight.shape[0] >= weight.shape[1]
    return np.asfortranarray(weight) if many_inputs else np.ascontiguousarray(weight)


SAFELY_FLOAT32 = 1e30  # numbers whose squares sum to less are finite, in float32 as well


def make_actor(forward: Forward, spaces: Spaces, inside: bool) -> Callable[[Any], np.ndarray]:
    """From an observation, or several, as the space has them, to the action(s). `inside` says that
    what `forward` returns never leaves the bounds.
    """
    shape, flat_action = spaces.observation_shape, len(spaces.action_shape) == 1
    dtype = np.dtype(spaces.action_dtype)

    def act(observation: Any) -> np.ndarray:
        # One observation of the usual kind needs none of the questions that `flat` asks.
        plain = observation.__class__ is np.ndarray and observation.dtype.char in "fd"
        if plain and observation.shape == shape:
            flat = observation.reshape(-1)
            if flat.dot(flat) < SAFELY_FLOAT32:  # so none is NaN
                action = forward(flat.astype(np.float32))
                if inside and flat_action:
                    return action.astype(dtype, copy=False)
                return spaces.shaped(action)
        return spaces.shaped(forward(spaces.flat(observation)))

    return act


def rescaled(forward: Forward, scale: np.ndarray, centre: np.ndarray) -> Forward:
    """From [-1, 1] to the environment's units."""
    return lambda x: scale * forward(x) + centre


def unit_actor(
    forward: Forward, scale: np.ndarray, centre: np.ndarray, spaces: Spaces
) -> Callable[[Any], np.ndarray]:
    """Of a network whose actions lie in [-1, 1]; nothing is done to them where the environment's
    do as well.
    """
    if (scale == 1.0).all() and (centre == 0.0).all():
        return make_actor(forward, spaces, inside=True)
    return make_actor(rescaled(forward, scale, centre), spaces, inside=False)


def plain_actor(
    arrays: Mapping[str, np.ndarray], activation: str, head: str, spaces: Spaces
) -> Callable[[Any], np.ndarray]:
    forward = plain_forward(arrays, activation, head)
    return unit_actor(forward, arrays["action/scale"], arrays["action/centre"], spaces)


class Exploration(NamedTuple):
    """What sampled actions are made of."""

    outputs: Forward  # of the last layer: the mode's, and where the algorithm has them the spread's
    log_std: np.ndarray | None  # [act], of noise that no observation changes
    scale: np.ndarray
    centre: np.ndarray


class ExportedPolicy:
    """Call it with an observation (or several, stacked) to get the greedy action(s), as the
    environment takes them. `about` says where it comes from, `checksum` is that of all which
    decides how it acts; `exploration` has what sampled actions are made of, but for ONNX files.
    """

    def __init__(
        self,
        act: Callable[[Any], np.ndarray],
        about: dict[str, str],
        spaces: Spaces,
        checksum: str,
        exploration: "Exploration | None" = None,
    ) -> None:
        self._act, self.about, self.spaces, self.checksum = act, about, spaces, checksum
        self.exploration = exploration

    def __call__(self, observation: Any) -> np.ndarray:
        return self._act(observation)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[np.ndarray, Any]:
        """As Stable-Baselines3 calls a policy. The state is not used and handed back."""
        if not deterministic:
            raise ValueError(
                "an exported policy acts greedily; ask for deterministic=True, or load the run"
            )
        return self(observation), state


class Content(NamedTuple):
    """All that an exported file says of a policy."""

    arrays: dict[str, np.ndarray]
    about: dict[str, str]
    spaces: Mapping[str, Any] | None

    def metadata(self) -> dict[str, Any]:
        """All but the arrays, for JSON."""
        # One entry: safetensors keeps no order among several, and equal policies should be equal
        # files.
        content = {**self.about, "spaces": self.spaces, "format": FORMAT}
        return {**content, "checksum": checksum_of(self.arrays, content)}


def write_exported(
    path: Path,
    arrays: dict[str, np.ndarray],
    about: dict[str, str],
    spaces: Mapping[str, Any] | None,
) -> None:
    entry = to_json(Content(arrays, about, spaces).metadata())
    write_atomically(path, save(arrays, metadata={"policy": entry}))


def checksum_of(arrays: dict[str, np.ndarray], content: Mapping[str, Any]) -> str:
    """Of all that decides how the policy acts: its numbers, and what is said about them."""
    return checksum(canonical_json(content) + save(arrays))


def policy_of(content: Content) -> ExportedPolicy:
    arrays, about, fields = content
    size = len(arrays["layers/0/weight"])
    spaces = read_spaces(fields, size, len(arrays["action/scale"]))
    act = plain_actor(arrays, about["activation"], about["head"], spaces)
    exploration = Exploration(
        plain_outputs(arrays, about["activation"]),
        arrays.get("action/log_std"),
        arrays["action/scale"],
        arrays["action/centre"],
    )
    return ExportedPolicy(act, about, spaces, content.metadata()["checksum"], exploration)


def load_exported(path: str | Path) -> ExportedPolicy:
    """A policy that `prudent export` wrote; one in ONNX format runs in onnxruntime."""
    try:
        status_of(Path(path).resolve())  # a pipe would never end
        if Path(path).suffix == ".onnx":
            return _load_onnx(Path(path))
        with safe_open(path, framework="numpy") as file:
            entry = (file.metadata() or {}).get("policy")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except SafetensorError as error:
        raise DamagedPolicy(f"{path} was cut short or is no safetensors file ({error})") from None
    except OSError as error:
        raise DamagedPolicy(f"{path} cannot be read ({error})") from None
    if entry is None:
        raise DamagedPolicy(f"{path} holds no policy; make one with `prudent export RUN {path}`")
    with _saying_what_is_wrong(path):
        about: dict[str, Any] = json.loads(entry)
        written = about.pop("checksum")
        if about.get("format") != FORMAT:
            raise DamagedPolicy(f"{path} is of another version; export the policy again")
        if checksum_of(arrays, about) != written:
            raise DamagedPolicy(f"{path} was altered since it was written; export the policy again")
        spaces, _ = about.pop("spaces"), about.pop("format")
        return policy_of(Content(arrays, about, spaces))


def _load_onnx(path: Path) -> ExportedPolicy:
    """Its numbers stay in the model: what is checked is the file as a whole."""
    from prudent.policies.onnx_model import NotAModel, read_model

    try:
        model = read_model(path)
    except NotAModel as error:
        raise DamagedPolicy(f"{path} {error}") from None
    with _saying_what_is_wrong(path):
        about: dict[str, Any] = json.loads(model.entry)
        written, fields = about.pop("checksum"), about.pop("spaces")
        if about.pop("format") != FORMAT:
            raise DamagedPolicy(f"{path} is of another version; export the policy again")
        spaces = read_spaces(fields, model.observation_size, model.action_size)
        act = make_actor(model.forward, spaces, inside=True)
        return ExportedPolicy(act, about, spaces, written)


@contextmanager
def _saying_what_is_wrong(path: str | Path) -> Iterator[None]:
    try:
        yield
    except DamagedPolicy:
        raise
    except (KeyError, TypeError, AttributeError, RecursionError, ValueError) as error:
        raise DamagedPolicy(f"{path} does not say what its policy is ({error})") from None
