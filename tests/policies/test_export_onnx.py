"""A policy as an ONNX model: what it computes, what it says of itself, and what is refused."""

import json
import os
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from command_lines import prudent_command
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from support import small_run

import prudent
from prudent.pieces.types import Algorithm, PolicyNetwork, Spec
from prudent.policies.export import export_policy
from prudent.policies.exported import (
    ACTIVATIONS,
    HEADS,
    DamagedPolicy,
    Spaces,
    load_exported,
    make_actor,
    plain_forward,
)
from prudent.policies.onnx_model import NotAModel, build_model, open_model
from prudent.policies.policy import Policy, Recorded
from prudent.tasks import TASKS

OLD = Path(__file__).parents[1] / "data" / "format1"
DESCRIPTION = {"spaces": None, "task": "t", "algorithm": "a", "checksum": "c"}


def some_arrays(scaled):
    draw = np.random.default_rng(3)
    shapes = [(5, 16), (16, 8), (8, 6)]  # twice as many outputs as there are actions
    arrays = {}
    for index, (inputs, outputs) in enumerate(shapes):
        weight = draw.normal(size=(inputs, outputs)) / np.sqrt(inputs)
        arrays |= {
            f"layers/{index}/weight": weight,
            f"layers/{index}/bias": draw.normal(size=outputs),
        }
    arrays |= {
        "action/scale": np.array([1.0, 0.5, 3.0]),
        "action/centre": np.array([0.0, 1.0, -2.0]),
    }
    if scaled:
        arrays |= {
            "observation/mean": draw.normal(size=5),
            "observation/deviation": draw.uniform(0.5, 2.0, size=5),
            "observation/largest": np.array(2.0),
        }
    return {name: np.asarray(array, np.float32) for name, array in arrays.items()}


def by_hand(arrays, activation, head, x):
    """In double precision, from what the names mean."""
    arrays = {name: array.astype(float) for name, array in arrays.items()}
    if "observation/mean" in arrays:
        scaled = (x - arrays["observation/mean"]) / arrays["observation/deviation"]
        x = np.clip(scaled, -arrays["observation/largest"], arrays["observation/largest"])
    logistic = lambda x: 1.0 / (1.0 + np.exp(-x))  # noqa: E731
    for index in range(2):
        x = x @ arrays[f"layers/{index}/weight"] + arrays[f"layers/{index}/bias"]
        if activation == "relu":
            x = np.where(x > 0.0, x, 0.0)
        else:
            x = np.tanh(x) if activation == "tanh" else x * logistic(x)
    x = (x @ arrays["layers/2/weight"] + arrays["layers/2/bias"])[..., :3]
    if head == "clip":
        unit = np.clip(x, -1.0, 1.0)
    else:
        unit = np.tanh(x) if head == "tanh" else 2.0 * logistic(np.clip(x, -5.0, 5.0)) - 1.0
    return unit, unit * arrays["action/scale"] + arrays["action/centre"]


@pytest.mark.parametrize(
    ("activation", "head", "scaled"), list(product(ACTIVATIONS, HEADS, [False, True]))
)
def test_every_kind_of_network(activation, head, scaled):
    arrays = some_arrays(scaled)
    model = open_model(build_model(arrays, {**DESCRIPTION, "activation": activation, "head": head}))
    observations = 3.0 * np.random.default_rng(0).normal(size=(200, 5)).astype(np.float32)
    unit, action = by_hand(arrays, activation, head, observations)
    np.testing.assert_allclose(model.forward(observations), action, atol=1e-5)
    np.testing.assert_allclose(model.forward(observations[0]), action[0], atol=1e-5)
    assert model.forward(observations.reshape(2, 100, 5)).shape == (2, 100, 3)
    forward = plain_forward(arrays, activation, head)
    np.testing.assert_allclose(forward(observations.copy()), unit, atol=1e-5)
    np.testing.assert_allclose(forward(observations[0].copy()), unit[0], atol=1e-5)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx")
    for suffix in ("safetensors", "onnx"):
        prudent.export(OLD / "ppo-lag", folder / f"policy.{suffix}")
    return folder


def test_both_formats_are_the_same_policy(files):
    plain, model = (load_exported(files / f"policy.{s}") for s in ("safetensors", "onnx"))
    assert plain.about == model.about
    assert plain.checksum == model.checksum
    assert plain.spaces.observation_shape == model.spaces.observation_shape
    for shape in ((2,), (1, 2), (40, 2), (3, 4, 2), (0, 2)):
        observations = np.random.default_rng(1).normal(size=shape)
        np.testing.assert_allclose(model(observations), plain(observations), atol=1e-5)
        assert model(observations).dtype == plain(observations).dtype
    assert model.predict(np.zeros(2))[0].shape == (2,)


def test_what_the_file_says(files, monkeypatch, capsys):
    prudent_command(monkeypatch, "export", OLD / "ppo-lag", files / "again.onnx")
    assert capsys.readouterr().out.startswith(f"{files / 'again.onnx'}: ppo-lag on orbit, step ")
    assert (files / "again.onnx").read_bytes() == (files / "policy.onnx").read_bytes()
    model = onnx.load(files / "policy.onnx")
    onnx.checker.check_model(model)
    facts = {entry.key: entry.value for entry in model.metadata_props}
    assert facts["task"] == "orbit"
    assert (facts["observation_size"], facts["action_size"]) == ("2", "2")
    assert json.loads(facts["action_low"]) == [-1.0, -1.0]
    assert json.loads(facts["action_high"]) == [1.0, 1.0]
    assert facts["checksum"] == load_exported(files / "policy.safetensors").checksum
    assert facts["prudent_version"] == prudent.__version__
    assert len(facts["file_checksum"]) == 64


def test_it_runs_where_there_is_neither_jax_nor_prudent(files, tmp_path):
    observations = np.random.default_rng(2).normal(size=(30, 2)).astype(np.float32)
    np.save(tmp_path / "observations.npy", observations)
    np.save(tmp_path / "actions.npy", prudent.load(OLD / "ppo-lag")(observations))
    code = (
        "import sys, numpy, onnxruntime\n"
        "session = onnxruntime.InferenceSession('policy.onnx')\n"
        "seen, expected = (numpy.load(path) for path in sys.argv[1:])\n"
        "for rows in (slice(30), slice(1)):\n"
        "    found, = session.run(['action'], {'observation': seen[rows]})\n"
        "    assert abs(found - expected[rows]).max() < 1e-5\n"
        "assert not {'jax', 'prudent'} & set(sys.modules)\n"
    )
    given = [str(tmp_path / name) for name in ("observations.npy", "actions.npy")]
    subprocess.run([sys.executable, "-I", "-c", code, *given], check=True, cwd=files)


def test_loading_either_imports_neither_jax_nor_gymnasium(files):
    code = (
        "import sys, numpy\n"
        "from prudent.policies.exported import load_exported\n"
        "for path in sys.argv[1:]:\n"
        "    assert load_exported(path)(numpy.zeros(2)).shape == (2,)\n"
        "assert not {'jax', 'gymnasium', 'mujoco', 'onnx'} & set(sys.modules)\n"
    )
    paths = [str(files / f"policy.{suffix}") for suffix in ("safetensors", "onnx")]
    subprocess.run([sys.executable, "-c", code, *paths], check=True)


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime"])
def test_without_the_extra_it_is_named(missing, files, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ValueError, match=r"prudent\[onnx\]"):
        prudent.export(OLD / "ppo-lag", tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())
    if missing == "onnxruntime":
        with pytest.raises(DamagedPolicy, match=r"prudent\[onnx\]"):
            load_exported(files / "policy.onnx")
    else:
        load_exported(files / "policy.onnx")


def test_a_damaged_file_is_refused(files, tmp_path):
    whole, copy = (files / "policy.onnx").read_bytes(), tmp_path / "copy.onnx"
    foreign = onnx.load_from_string(whole)
    del foreign.metadata_props[:]
    middle = len(whole) // 2
    for content, message in (
        (whole[:-1], "was cut short or holds no policy"),
        (b"", "was cut short or holds no policy"),
        (foreign.SerializeToString(), "was cut short or holds no policy"),
        ((files / "policy.safetensors").read_bytes(), "was cut short or holds no policy"),
        (whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :], "was altered"),
    ):
        copy.write_bytes(content)
        with pytest.raises(DamagedPolicy, match=message) as refused:
            load_exported(copy)
        assert str(refused.value).startswith(f"{copy} ")
        assert "\n" not in str(refused.value)
    with pytest.raises(DamagedPolicy, match="cannot be read"):
        load_exported(tmp_path / "nowhere.onnx")
    copy.rename(tmp_path / "copy.safetensors")
    with pytest.raises(DamagedPolicy, match="no safetensors file"):
        load_exported(tmp_path / "copy.safetensors")


@pytest.mark.parametrize("name", ["policy.v2", "policy.pt", "policy.ONNX", ".onnx"])
def test_other_endings_are_refused_before_anything_is_done(name, tmp_path):
    with pytest.raises(ValueError, match=r"\.safetensors or \.onnx"):
        prudent.export(tmp_path / "no run", tmp_path / name)


@pytest.mark.parametrize("suffix", ["safetensors", "onnx"])
def test_observations_that_are_none_are_refused(suffix, files):
    policy = load_exported(files / f"policy.{suffix}")
    with pytest.raises(ValueError, match=r"\(3,\)"):
        policy(np.zeros(3))
    for number in (np.nan, np.inf, 1e39):
        with pytest.raises(ValueError, match=re.escape(f"{number} at index 1")):
            policy(np.array([0.0, number]))
    np.testing.assert_array_equal(policy([0.5, 1.0]), policy(np.array([0.5, 1.0])))
    large = policy(np.array([1e20, -1e20]))  # finite, though its square is not in float32
    assert np.isfinite(large).all()


def test_the_model_of_a_policy_that_would_act_differently_is_not_written(tmp_path, monkeypatch):
    from prudent.policies import export

    build = build_model

    def wrong(arrays, description):
        return build({**arrays, "layers/0/bias": arrays["layers/0/bias"] + 0.01}, description)

    monkeypatch.setattr("prudent.policies.onnx_model.build_model", wrong)
    with pytest.raises(RuntimeError, match="acts differently"):
        prudent.export(OLD / "ppo-lag", tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())
    assert (export.TRIALS, export.TOLERANCE) == (1000, 1e-5)


def test_a_model_that_onnxruntime_cannot_run(files):
    with pytest.raises(NotAModel, match="is no policy that onnxruntime can run"):
        open_model(with_trailer(b"\x0a"))
    session = onnxruntime.InferenceSession(files / "policy.onnx")
    assert [i.shape for i in session.get_inputs()] == [["batch", 2]]


def with_trailer(body):
    from prudent.files import checksum
    from prudent.policies.onnx_model import MARK

    return body + MARK + checksum(body).encode()


def test_bounds_that_float32_cannot_hold_are_kept():
    arrays = some_arrays(scaled=False)
    spaces = {"action_low": [-1.0, 0.5, -0.1], "action_high": [0.1, 1.5, 1.0]}
    given = {**DESCRIPTION, "activation": "relu", "head": "clip", "spaces": spaces}
    actions = open_model(build_model(arrays, given)).forward(
        1e3 * np.random.default_rng(0).normal(size=(99, 5)).astype(np.float32)
    )
    assert (actions.astype(float) <= np.array(spaces["action_high"])).all()
    assert (actions.astype(float) >= np.array(spaces["action_low"])).all()
    assert actions[:, 0].max() == pytest.approx(0.1)


def test_actions_stop_at_bounds_that_float32_cannot_hold():
    arrays = some_arrays(scaled=False)
    arrays |= {
        "action/scale": np.full(3, 0.1, np.float32),
        "action/centre": np.zeros(3, np.float32),
    }
    arrays["layers/2/weight"] = np.zeros((8, 6), np.float32)
    spaces = {"action_low": [-0.1] * 3, "action_high": [0.1] * 3}
    assert float(np.float32(0.1)) > 0.1
    for sign in (-1.0, 1.0):
        arrays["layers/2/bias"] = np.full(6, sign * 5.0, np.float32)
        for head in HEADS:
            given = {**DESCRIPTION, "activation": "relu", "head": head, "spaces": spaces}
            actions = open_model(build_model(arrays, given)).forward(np.ones((1, 5), np.float32))
            assert np.abs(actions.astype(float)).max() <= 0.1
            assert sign * actions.min() > 0.09


@pytest.mark.parametrize("inside", [True, False])
def test_actions_have_the_shape_of_their_space(inside):
    model = open_model(
        build_model(some_arrays(scaled=True), {**DESCRIPTION, "activation": "tanh", "head": "tanh"})
    )
    spaces = Spaces((5, 1), (3, 1), "float64", None)
    for forward in (model.forward, plain_forward(some_arrays(scaled=True), "tanh", "tanh")):
        act = make_actor(forward, spaces, inside=inside)
        for leading in ((), (1,), (2, 4)):
            found = act(np.ones((*leading, 5, 1)))
            assert (found.shape, found.dtype) == ((*leading, 3, 1), np.float64)


@pytest.mark.parametrize("suffix", ["safetensors", "onnx"])
def test_a_file_of_a_newer_version(suffix, tmp_path):
    path = tmp_path / f"policy.{suffix}"
    with pytest.MonkeyPatch.context() as later:
        later.setattr("prudent.policies.exported.FORMAT", 3)
        prudent.export(OLD / "ppo-lag", path)
    with pytest.raises(DamagedPolicy, match="is of another version; export the policy again"):
        load_exported(path)


@pytest.mark.parametrize("suffix", [".safetensors", ".onnx", ""])
def test_a_pipe_is_no_policy(suffix, tmp_path):
    path = tmp_path / f"policy{suffix}"
    os.mkfifo(path)
    with pytest.raises(DamagedPolicy, match="pipe"):
        load_exported(path)


def test_what_is_no_json_is_told_with_the_file(files, tmp_path):
    plain, link = files / "policy.safetensors", tmp_path / "link.safetensors"
    link.symlink_to(plain)
    assert load_exported(link).checksum == load_exported(plain).checksum
    copy = tmp_path / "copy.safetensors"
    with safe_open(plain, framework="numpy") as file:
        entry = file.metadata()["policy"].replace('"format": 2', '"format": 2, "odd": NaN')
    save_file(load_file(plain), copy, {"policy": entry})
    with pytest.raises(DamagedPolicy, match=r"copy\.safetensors"):
        load_exported(copy)


def loaded(network):
    spec = Spec(2, 1, 1.0, (2.0,), (1.0,))
    greedy = lambda state, observation: 0.5 * np.ones((*observation.shape[:-1], 1))  # noqa: E731
    algorithm = Algorithm(None, None, greedy, None, network)
    return Policy(algorithm, None, Recorded(spec, None), step=0)


def test_a_loaded_policy_acts_as_the_algorithm_says():
    """Also where the algorithm's plain layers say something else, or there are none."""
    other = [{"weight": np.zeros((2, 1)), "bias": np.zeros(1)}]
    for network in (None, lambda state: PolicyNetwork(other, "relu", "tanh")):
        np.testing.assert_allclose(loaded(network)(np.zeros(2)), [2.0])
        np.testing.assert_allclose(loaded(network)(np.zeros((3, 2))), np.full((3, 1), 2.0))


@pytest.mark.parametrize(("low", "high"), [(290.0, 291.0), (-1000.3, -1000.1), (0.0, 1e-3)])
@pytest.mark.parametrize("head", HEADS)
def test_ranges_of_actions_far_from_0(low, high, head, tmp_path):
    arrays = some_arrays(scaled=False)
    layers = [{n: arrays[f"layers/{i}/{n}"] for n in ("weight", "bias")} for i in range(3)]
    forward = plain_forward({**arrays, "action/scale": np.ones(3)}, "relu", head)
    spec = Spec(5, 3, 1.0, ((high - low) / 2,) * 3, ((high + low) / 2,) * 3)
    bounds = {"action_low": [low] * 3, "action_high": [high] * 3}
    shapes = {"observation_shape": [5], "action_shape": [3], "action_dtype": "float32"}
    network = PolicyNetwork(layers, "relu", head)
    algorithm = Algorithm(None, None, None, None, lambda state: network)
    policy = Policy(
        algorithm._replace(act_greedily=lambda state, x: x),
        None,
        Recorded(spec, shapes | bounds),
        0,
    )
    policy.unit_action = lambda x: forward(x.copy())
    run = small_run(TASKS["orbit"])
    for suffix in ("safetensors", "onnx"):
        export_policy(policy, run, tmp_path / f"policy.{suffix}")
    policy.unit_action = lambda x: forward(x.copy()) - 1e-2
    with pytest.raises(RuntimeError, match="acts differently"):
        export_policy(policy, run, tmp_path / "other.onnx")


def test_an_observation_is_not_written_over():
    """Nor is an action that was handed out."""
    spaces = Spaces((5,), (3,), "float32", None)
    act = make_actor(plain_forward(some_arrays(scaled=True), "tanh", "clip"), spaces, inside=True)
    observation = np.ones(5, np.float32)
    first = act(observation)
    kept = first.copy()
    act(2.0 * observation)
    np.testing.assert_array_equal(first, kept)
    np.testing.assert_array_equal(observation, np.ones(5))
