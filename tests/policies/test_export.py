"""A policy taken out of its run acts as it did there."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from command_lines import prudent_command
from support import small_run, train_quietly
from test_on_policy import small

import prudent
from prudent.algorithms.cvpo import CVPOConfig
from prudent.policies.exported import DamagedPolicy, load_exported
from prudent.policies.policy import Policy
from prudent.tasks import TASKS

# Action bounds that are not 1, and observations of several sizes.
TASK = replace(TASKS["humanoid-velocity"], horizon=10)


def trained(algorithm, folder, config=None):
    if algorithm == "ppo":
        run = small(TASK, algorithm, steps=40)
    else:
        run = small_run(TASK, algorithm, config=config, steps=20)
    train_quietly(run, TASK, folder)
    return folder


CASES = [
    ("cal", None, "squashed"),
    pytest.param("sac-pid", None, "squashed", marks=pytest.mark.slow),
    pytest.param("wcsac", None, "squashed", marks=pytest.mark.slow),
    ("cvpo", CVPOConfig(hidden=(16, 16), samples=4), "full"),
    pytest.param(
        "cvpo",
        CVPOConfig(hidden=(16, 16), samples=4, covariance="diagonal"),
        "diagonal",
        marks=pytest.mark.slow,
    ),
    ("ppo", None, "constant"),
]


@pytest.mark.parametrize(("algorithm", "config", "explores"), CASES)
def test_the_exported_policy_is_the_policy(algorithm, config, explores, tmp_path):
    folder = trained(algorithm, tmp_path / "run", config)
    prudent.export(folder, tmp_path / "policy.safetensors")
    policy, exported = prudent.load(folder), load_exported(tmp_path / "policy.safetensors")
    observations = 3.0 * np.random.default_rng(5).normal(size=(50, 45))
    np.testing.assert_allclose(exported(observations), policy(observations), atol=1e-5)
    np.testing.assert_allclose(exported(observations[0]), policy(observations[0]), atol=1e-5)
    assert np.abs(exported(1e6 * observations)).max() <= 0.4 + 1e-6
    assert exported.about["algorithm"] == algorithm
    assert exported.about["explores"] == explores
    assert exported.about["step"] == str(policy.step)
    prudent.export(folder, tmp_path / "policy.onnx")
    model = load_exported(tmp_path / "policy.onnx")
    np.testing.assert_allclose(model(observations), policy(observations), atol=1e-5)
    np.testing.assert_allclose(model(observations[0]), policy(observations[0]), atol=1e-5)
    np.testing.assert_allclose(  # without a dispatch to JAX, and with
        policy(observations), 0.4 * policy.unit_action(observations), atol=1e-5
    )
    assert model.about == exported.about


@pytest.fixture(scope="module")
def exported_file(tmp_path_factory):
    folder = trained("ppo", tmp_path_factory.mktemp("export") / "run")
    path = folder.parent / "policy.safetensors"
    prudent.export(folder, path)
    return path


def test_from_the_command_line(exported_file, tmp_path, monkeypatch, capsys):
    path = tmp_path / "again.safetensors"
    prudent_command(monkeypatch, "export", exported_file.parent / "run", path, "--step", 40)
    assert capsys.readouterr().out == f"{path}: ppo on humanoid-velocity, step 40\n"
    assert path.read_bytes() == exported_file.read_bytes()


def test_nobody_s_files_are_written_over(exported_file, tmp_path):
    run = exported_file.parent / "run"
    own = [
        *(run / name for name in ("run.json", "progress.jsonl", "initial.safetensors", "new.onnx")),
        next((run / "snapshots").iterdir()),
    ]
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for path in own:
        with pytest.raises(ValueError, match=r"is inside the run|ends in .safetensors or"):
            prudent.export(run, path)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    notes = tmp_path / "notes"
    notes.write_text("mine")
    with pytest.raises(ValueError, match="notes"):
        prudent.export(run, notes)
    assert notes.read_text() == "mine"
    for _ in range(2):  # a policy may take the place of another
        prudent.export(run, tmp_path / "policy")
    assert (tmp_path / "policy").read_bytes() == exported_file.read_bytes()


def test_it_acts_without_jax(exported_file):
    code = (
        "import sys, numpy, prudent\n"
        "policy = prudent.load_exported(sys.argv[1])\n"
        "assert policy(numpy.zeros(45)).shape == (17,)\n"
        "assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(exported_file)], check=True)


def test_a_damaged_file_is_refused(exported_file, tmp_path):
    whole = exported_file.read_bytes()
    copy = tmp_path / "copy"
    for content, message in (
        (whole[:-4], "was cut short"),
        (b"something else", "was cut short or is no safetensors file"),
        (whole[:-1] + bytes([whole[-1] ^ 1]), "was altered"),
    ):
        copy.write_bytes(content)
        with pytest.raises(DamagedPolicy, match=message):
            load_exported(copy)


def test_other_safetensors_are_no_policy(exported_file, tmp_path):
    checkpoint = next((exported_file.parent / "run" / "snapshots").glob("*.safetensors"))
    with pytest.raises(DamagedPolicy, match="holds no policy"):
        load_exported(checkpoint)


def test_a_policy_that_would_act_differently_is_not_handed_out(exported_file, monkeypatch):
    policy = prudent.load(exported_file.parent / "run")
    scaling = policy.network().scaling._replace(largest=0.1)
    wrong = policy.network()._replace(scaling=scaling)
    monkeypatch.setattr(Policy, "network", lambda policy: wrong)
    path = exported_file.parent / "wrong.safetensors"
    with pytest.raises(RuntimeError, match="acts differently"):
        prudent.export(exported_file.parent / "run", path)
    assert not path.exists()


def test_what_is_said_about_the_numbers_cannot_be_altered_either(exported_file, tmp_path):
    whole, copy = exported_file.read_bytes(), tmp_path / "copy"
    altered = whole.replace(b'\\"activation\\": \\"tanh\\"', b'\\"activation\\": \\"relu\\"')
    assert altered != whole
    assert len(altered) == len(whole)
    copy.write_bytes(altered)
    with pytest.raises(DamagedPolicy, match="was altered"):
        load_exported(copy)
    with pytest.raises(DamagedPolicy, match="cannot be read"):
        load_exported(tmp_path / "nowhere")
