"""A policy as an ONNX model, which onnxruntime runs wherever there is one, without Python or us.

Input `observation` [batch, obs] and output `action` [batch, act], both float32; actions are in the
environment's units and within its bounds. The model's metadata has the policy's description as
`policy`, in the JSON of `prudent.policies.exported`, and by themselves the `task`, `algorithm`,
`observation_size`, `action_size`, `action_low`, `action_high`, the policy's `checksum` and the
`prudent_version` that wrote it. Last comes `file_checksum`, the SHA-256 of all bytes before it.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prudent import __version__
from prudent.files import checksum, to_json

OPSET, IR_VERSION = 17, 8  # of 2022: old enough to be read everywhere
# A last entry of the model's metadata, as protocol buffers encode it: field 14 of the model, 81
# bytes, with the key and the value as its fields 1 and 2. Messages may be appended to each other.
MARK = b"\x72\x51\x0a\x0dfile_checksum\x12\x40"
TRAILER = re.compile(re.escape(MARK) + rb"[0-9a-f]{64}", re.DOTALL)
TRAILER_SIZE = len(MARK) + 64


class NotAModel(ValueError):
    """What follows the file's name in a complaint."""


class Model(NamedTuple):
    entry: str  # its description
    forward: Callable[[np.ndarray], np.ndarray]  # [..., obs] -> [..., act], in float32
    observation_size: int
    action_size: int


# In the text form that `onnx.parser` reads; `layer0`, `layer1`, ... are the outputs of layers.
SCALING = """
    centred = Sub (observation, observation_mean)
    divided = Div (centred, observation_deviation)
    observation_least = Neg (observation_largest)
    scaled = Clip (divided, observation_least, observation_largest)
"""
ACTIVATIONS = {  # of layer `i`
    "relu": "activated{i} = Relu (layer{i})",
    "tanh": "activated{i} = Tanh (layer{i})",
    "silu": "logistic{i} = Sigmoid (layer{i})  activated{i} = Mul (layer{i}, logistic{i})",
}
HEADS = {  # from the last layer `i` to an action in [-1, 1]
    "clip": """
    one = Constant <value = float {{1.0}}> ()
    minus_one = Constant <value = float {{-1.0}}> ()
    unit = Clip (layer{i}, minus_one, one)
""",
    "tanh": "unit = Tanh (layer{i})",
    "sigmoid": """
    five = Constant <value = float {{5.0}}> ()
    minus_five = Constant <value = float {{-5.0}}> ()
    half = Constant <value = float {{0.5}}> ()
    clipped = Clip (layer{i}, minus_five, five)
    halved = Mul (clipped, half)
    unit = Tanh (halved)
""",  # 2 sigmoid(x) - 1
}
ACTION = """
    multiplied = Mul (unit, action_scale)
    moved = Add (multiplied, action_centre)
    raised = Max (moved, action_low)
    action = Min (raised, action_high)
"""


def check_packages() -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"policies in ONNX format need an extra: pip install 'prudent[onnx]' ({error})"
        ) from None


def build_model(arrays: Mapping[str, np.ndarray], description: Mapping[str, Any]) -> bytes:
    """The file's content, of what an exported policy is made of."""
    check_packages()
    from onnx import checker, helper, numpy_helper, parser

    inputs, outputs = len(arrays["layers/0/weight"]), len(arrays["action/scale"])
    low, high = action_bounds(arrays, description["spaces"])
    graph = parser.parse_graph(
        f"policy (float[batch, {inputs}] observation) => (float[batch, {outputs}] action) "
        f"{{{operations(arrays, description['activation'], description['head'])}}}"
    )
    constants = {**constants_of(arrays), "action_low": low, "action_high": high}
    graph.initializer.extend(
        numpy_helper.from_array(np.asarray(array, np.float32), name)
        for name, array in constants.items()
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="prudent",
        producer_version=__version__,
    )
    facts = {
        "policy": to_json(description),
        **{name: description[name] for name in ("task", "algorithm", "checksum")},
        "observation_size": str(inputs),
        "action_size": str(outputs),
        "action_low": to_json(low.tolist()),
        "action_high": to_json(high.tolist()),
        "prudent_version": __version__,
    }
    helper.set_model_props(model, facts)
    checker.check_model(model, full_check=True)
    body = model.SerializeToString(deterministic=True)
    return body + MARK + checksum(body).encode()


def operations(arrays: Mapping[str, np.ndarray], activation: str, head: str) -> str:
    """What the model does, from `observation` to `action`."""
    scaled, last = "observation/mean" in arrays, last_layer(arrays)
    text, x = (SCALING, "scaled") if scaled else ("", "observation")
    for i in range(last + 1):
        text += f"\n    layer{i} = Gemm ({x}, layers_{i}_weight, layers_{i}_bias)\n    "
        text += (ACTIVATIONS[activation] if i < last else HEADS[head]).format(i=i)
        x = f"activated{i}"
    return text + ACTION


def last_layer(arrays: Mapping[str, np.ndarray]) -> int:
    return sum(name.endswith("/weight") for name in arrays) - 1


def constants_of(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The numbers that act greedily, by the names that the operations use."""
    constants = {n.replace("/", "_"): x for n, x in arrays.items() if n != "action/log_std"}
    size, last = len(arrays["action/scale"]), last_layer(arrays)
    for part in ("weight", "bias"):  # further outputs say how to explore
        constants[f"layers_{last}_{part}"] = arrays[f"layers/{last}/{part}"][..., :size]
    return constants


def action_bounds(
    arrays: Mapping[str, np.ndarray], spaces: Mapping[str, Any] | None
) -> tuple[np.ndarray, np.ndarray]:
    """In float32, and never outside those of the environment."""
    if spaces is None:
        scale, centre = arrays["action/scale"], arrays["action/centre"]
        return centre - scale, centre + scale
    exact = [np.array(spaces[name], float) for name in ("action_low", "action_high")]
    low, high = (bound.astype(np.float32) for bound in exact)
    low = np.where(low < exact[0], np.nextafter(low, np.float32(np.inf)), low)
    high = np.where(high > exact[1], np.nextafter(high, np.float32(-np.inf)), high)
    return low, high


def read_model(path: Path) -> Model:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise NotAModel(f"cannot be read ({error.strerror})") from None
    return open_model(content)


def open_model(content: bytes) -> Model:
    """A model ready to run, if it is whole and one of ours."""
    body, trailer = content[:-TRAILER_SIZE], content[-TRAILER_SIZE:]
    if not TRAILER.fullmatch(trailer):
        raise NotAModel("was cut short or holds no policy; make one with `prudent export`")
    if checksum(body).encode() != trailer[len(MARK) :]:
        raise NotAModel("was altered since it was written; export the policy again")
    try:
        import onnxruntime
    except ImportError:
        raise NotAModel("is in ONNX format: pip install 'prudent[onnx]' to run it") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # more are slower for so little
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
        facts = session.get_modelmeta().custom_metadata_map
        entry = facts["policy"]
        sizes = int(facts["observation_size"]), int(facts["action_size"])
    except Exception as error:  # of many kinds, which onnxruntime does not promise
        raise NotAModel(f"is no policy that onnxruntime can run ({error})") from None
    inputs, outputs = sizes

    def forward(x: np.ndarray) -> np.ndarray:
        rows = x.reshape(-1, inputs)
        actions: np.ndarray = session.run(["action"], {"observation": rows})[0]
        return actions.reshape(*x.shape[:-1], outputs)

    return Model(entry, forward, *sizes)
