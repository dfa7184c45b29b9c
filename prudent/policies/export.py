"""Writing a run's policy as `prudent.policies.exported` reads it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from prudent.files import write_atomically
from prudent.policies.exported import (
    ACTIVATIONS,
    HEADS,
    UNSAID,
    Content,
    DamagedPolicy,
    ExportedPolicy,
    load_exported,
    policy_of,
    write_exported,
)
from prudent.policies.policy import Policy, is_plain
from prudent.settings.run import Run

FORMATS = (".safetensors", ".onnx")
TRIALS, TOLERANCE = 1000, 1e-5
Forward = Callable[[np.ndarray], np.ndarray]


def check_format(path: Path) -> None:
    if path.name in FORMATS or (path.suffix and path.suffix not in FORMATS):
        raise ValueError(
            f"{path}: a policy is written as a file that ends in {' or '.join(FORMATS)}"
        )
    if path.suffix == ".onnx":
        from prudent.policies.onnx_model import check_packages

        check_packages()


def check_target(path: Path) -> None:
    """Refuse to overwrite any file that is not an earlier policy."""
    check_format(path)
    for folder in path.absolute().resolve().parents:
        if (folder / "run.json").exists():
            raise ValueError(f"{path} is inside the run {folder}; write the policy elsewhere")
    if not path.suffix and path.exists():
        try:
            load_exported(path)
        except DamagedPolicy as error:
            raise ValueError(
                f"{path} is there already and no exported policy; choose another name ({error})"
            ) from None


def content_of(policy: Policy, run: Run) -> Content:
    """All that an exported file says of a run's policy."""
    network = policy.network()
    about = {
        "activation": network.activation,
        "head": network.head,
        "explores": network.explores or UNSAID,
        "algorithm": run.algorithm,
        "task": run.task,
        "preset": run.preset,
        "seed": str(run.seed),
        "step": str(policy.step),
        "budget": f"{run.budget:.15g} ({run.constraint.unit})",
        "discounted": str(run.discounted),
        "cost_discount": repr(run.config.cost_discount),
        "horizon": str(run.horizon),
        "cost": run.cost_source,
    }
    step_range = run.step_range()
    if step_range is not None:
        about["cost_range"] = " ".join(map(repr, step_range))
    return Content(policy.plain_arrays(), about, policy.recorded.spaces)


def checksum_of_policy(policy: Policy, run: Run) -> str:
    """As the files carry it that are exported from this run."""
    return str(content_of(policy, run).metadata()["checksum"])


def export_policy(policy: Policy, run: Run, path: Path) -> ExportedPolicy:
    """Write the policy, after making sure that what is written acts as the policy does."""
    check_format(path)
    network = policy.network()
    if not is_plain(network):
        raise ValueError(
            f"{run.algorithm}: activation {network.activation!r} and head {network.head!r} cannot "
            f"be exported; known are {', '.join(ACTIVATIONS)} and {', '.join(HEADS)}"
        )
    content = content_of(policy, run)
    exported = policy_of(content)
    check_agreement(policy, exported)
    if path.suffix == ".onnx":
        export_model(policy, content, path)
    else:
        write_exported(path, *content)
    return exported


def export_model(policy: Policy, content: Content, path: Path) -> None:
    from prudent.policies.onnx_model import build_model, open_model

    model = build_model(content.arrays, content.metadata())
    check_agreement(policy, open_model(model).forward)
    write_atomically(path, model)


def check_agreement(policy: Policy, exported: Forward) -> None:
    """With what JAX computes, on observations of all sizes; actions as parts of their range.

    What float32 rounds away grows with the numbers that are added up, so beyond 1 the tolerance is
    in proportion to the observation; and actions far from 0 have few digits left for their range.
    """
    arrays = policy.plain_arrays()
    noise = np.random.default_rng(0).normal(size=(TRIALS, len(arrays["layers/0/weight"])))
    sizes = 10.0 ** np.linspace(-2, 2, TRIALS)  # small ones and large ones
    observations = noise * sizes[:, None]
    if "observation/mean" in arrays:  # in their own units
        observations = arrays["observation/mean"] + observations * arrays["observation/deviation"]
        sizes = np.minimum(sizes, 1.0)  # since they are clipped
    observations = observations.astype(np.float32)
    expected = policy.unit_action(observations)
    actual = (np.asarray(exported(observations)).reshape(TRIALS, -1) - policy.centre) / policy.scale
    difference = np.abs(expected - actual) / np.maximum(sizes, 1.0)[:, None]
    largest = (np.abs(policy.centre) + policy.scale).astype(np.float32)
    if not (difference <= TOLERANCE + np.spacing(largest) / policy.scale).all():
        raise RuntimeError(f"the exported policy acts differently, by up to {difference.max():.2g}")
