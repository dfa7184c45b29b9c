"""One action: what it takes to act by a policy, for each way to load one."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from threadpoolctl import threadpool_limits

from prudent.algorithms.resolve import make_run
from prudent.bench.hopper import TASK, hopper_settings
from prudent.bench.timing import best_in_turns, best_seconds
from prudent.policies.export import FORMATS, export_policy
from prudent.policies.exported import load_exported
from prudent.policies.policy import Policy, Recorded
from prudent.tasks.adapter import describe_spaces, open_environment
from prudent.training.learner import build_for, make_spec


def measure_policies(algorithm: str) -> dict[str, Any]:
    """Seconds of one action on one observation, beside those of the matrix products in it."""
    run = make_run(algorithm, TASK, "bench", 0, hopper_settings(algorithm))
    environment = open_environment(TASK)
    spec = make_spec(environment, run.critic_budget())
    spaces, observation = describe_spaces(environment), environment.reset(0)
    environment.close()
    built = build_for(run, spec)
    # As `prudent.load` has it; what the weights are makes no difference.
    policy = Policy(built, built.init(jax.random.key(0)), Recorded(spec, spaces), step=0)
    ways: dict[str, Callable[[Any], np.ndarray]] = {"load": policy}
    with tempfile.TemporaryDirectory() as folder:
        for suffix in FORMATS:
            path = Path(folder) / f"policy{suffix}"
            export_policy(policy, run, path)
            ways[f"load_exported {suffix}"] = load_exported(path)
    weights = [np.asarray(layer["weight"]) for layer in policy.network().layers]
    weights[-1] = weights[-1][:, : spec.action_size]

    def acting(act: Callable[[Any], np.ndarray]) -> Callable[[], object]:
        return lambda: act(observation)

    with threadpool_limits(1):
        products = products_of_one(weights)
        alone, *seconds = best_in_turns([products, *map(acting, ways.values())], finer=20)
    return {
        "sizes": [len(weights[0]), *(weight.shape[1] for weight in weights)],
        "products_seconds": alone,
        "policies": [
            {"loaded_by": name, "seconds": found, "products_ratio": alone / found}
            for name, found in zip(ways, seconds, strict=True)
        ],
    }


def products_of_one(weights: Sequence[np.ndarray]) -> Callable[[], object]:
    """Nothing but these products, of one row and in the layouts that are quickest."""
    pairs = [quickest_order(weight) for weight in weights]

    def multiply() -> None:
        for x, weight in pairs:
            x.dot(weight)

    return multiply


def quickest_order(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An input, and the weight in the layout that takes least to multiply it by."""
    x = np.ones(len(weight), np.float32)

    def seconds(ordered: np.ndarray) -> float:
        return best_seconds(lambda: x.dot(ordered), 200)

    return x, min((np.ascontiguousarray(weight), np.asfortranarray(weight)), key=seconds)
