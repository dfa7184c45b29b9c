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


class Graph:
    """Nodes and constants in the making."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: Any) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def add(self, operation: str, *inputs: str, output: str | None = None) -> str:
        from onnx import helper

        output = output or f"{operation.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, list(inputs), [output]))
        return output

    def clipped(self, x: str, name: str, largest: float) -> str:
        low, high = (
            self.constant(f"{name}/{end}", v) for end, v in (("low", -largest), ("high", largest))
        )
        return self.add("Clip", x, low, high)


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
    from onnx import TensorProto, checker, helper

    inputs, outputs = len(arrays["layers/0/weight"]), len(arrays["action/scale"])
    graph = Graph()
    x = network(graph, arrays, description["activation"])
    unit_action = head(graph, x, description["head"])
    low, high = action_bounds(arrays, description["spaces"])
    x = graph.add("Mul", unit_action, graph.constant("action/scale", arrays["action/scale"]))
    x = graph.add("Add", x, graph.constant("action/centre", arrays["action/centre"]))
    x = graph.add("Max", x, graph.constant("action/low", low))
    graph.add("Min", x, graph.constant("action/high", high), output="action")
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "policy",
            [helper.make_tensor_value_info("observation", TensorProto.FLOAT, ["batch", inputs])],
            [helper.make_tensor_value_info("action", TensorProto.FLOAT, ["batch", outputs])],
            graph.constants,
        ),
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


def network(graph: Graph, arrays: Mapping[str, np.ndarray], activation: str) -> str:
    """From observations to what the head makes an action of."""
    x = "observation"
    if "observation/mean" in arrays:
        mean, deviation = (
            graph.constant(name, arrays[name])
            for name in ("observation/mean", "observation/deviation")
        )
        x = graph.add("Div", graph.add("Sub", x, mean), deviation)
        x = graph.clipped(x, "observation", float(arrays["observation/largest"]))
    count = sum(name.endswith("/weight") for name in arrays)
    size = len(arrays["action/scale"])
    for index in range(count):
        weight, bias = arrays[f"layers/{index}/weight"], arrays[f"layers/{index}/bias"]
        if index == count - 1:  # further outputs say how to explore
            weight, bias = weight[:, :size], bias[:size]
        names = [
            graph.constant(f"layers/{index}/{name}", array)
            for name, array in (("weight", weight), ("bias", bias))
        ]
        x = graph.add("Gemm", x, *names)
        if index < count - 1:
            x = activated(graph, x, activation)
    return x


def activated(graph: Graph, x: str, activation: str) -> str:
    if activation == "silu":
        return graph.add("Mul", x, graph.add("Sigmoid", x))
    return graph.add({"relu": "Relu", "tanh": "Tanh"}[activation], x)


def head(graph: Graph, x: str, name: str) -> str:
    """An action in [-1, 1]."""
    if name == "clip":
        return graph.clipped(x, "head", 1.0)
    if name == "sigmoid":  # 2 sigmoid(x) - 1
        x = graph.add("Mul", graph.clipped(x, "head", 5.0), graph.constant("head/half", 0.5))
    return graph.add("Tanh", x)


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
