"""Writing a run's policy as `prudent.exported` reads it."""

from pathlib import Path

import numpy as np

from prudent.configs import Run
from prudent.exported import ExportedPolicy, write_exported
from prudent.training.policy import Policy

TRIALS, TOLERANCE = 256, 1e-4


def export_policy(policy: Policy, run: Run, path: Path) -> ExportedPolicy:
    """Write the policy, after making sure that what is written acts as the policy does."""
    network = policy.network()
    arrays = {"action/scale": policy.scale, "action/centre": policy.centre}
    if network.scaling is not None:
        arrays |= {f"observation/{name}": x for name, x in network.scaling._asdict().items()}
    if network.log_std is not None:
        arrays["action/log_std"] = network.log_std
    form = {"activation": network.activation, "head": network.head}
    for index, layer in enumerate(network.layers):
        arrays |= {f"layers/{index}/{name}": array for name, array in layer.items()}
    about = {
        "algorithm": run.algorithm,
        "task": run.task,
        "preset": run.preset,
        "seed": str(run.seed),
        "step": str(policy.step),
        "budget": f"{run.budget:g} ({run.constraint.unit})",
    }
    plain = {name: np.asarray(array, np.float32) for name, array in arrays.items()}
    spaces = policy.recorded.spaces
    exported = ExportedPolicy(plain, {**form, **about}, spaces)
    check_agreement(policy, exported, len(network.layers[0]["weight"]))
    write_exported(path, plain, exported.about, spaces)
    return exported


def check_agreement(policy: Policy, exported: ExportedPolicy, observation_size: int) -> None:
    noise = np.random.default_rng(0).normal(size=(TRIALS, observation_size))
    observations = noise * 10.0 ** np.linspace(-2, 2, TRIALS)[:, None]  # small ones and large ones
    difference = np.abs(policy(observations) - exported(observations))
    difference = difference.reshape(TRIALS, -1) / policy.scale
    if not difference.max() <= TOLERANCE:
        raise RuntimeError(f"the exported policy acts differently, by up to {difference.max():.2g}")
