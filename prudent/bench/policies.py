"""One action: what it takes to act by a policy, for each way to load one."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from prudent.algorithms import build_for
from prudent.algorithms.resolve import make_run
from prudent.bench.hopper import TASK, hopper_settings
from prudent.bench.timing import best_in_turns
from prudent.policies.export import FORMATS, export_policy
from prudent.policies.exported import load_exported
from prudent.policies.policy import Policy, Recorded
from prudent.tasks.adapter import describe_spaces, open_environment
from prudent.training.learner import make_spec


def measure_policies(algorithm: str) -> dict[str, float]:
    """Seconds of one action on one observation, by how the policy was loaded."""
    run = make_run(algorithm, TASK, "bench", 0, hopper_settings(algorithm))
    environment = open_environment(TASK)
    spec = make_spec(environment, run.critic_budget())
    spaces, observation = describe_spaces(environment), environment.reset(0)
    environment.close()
    built = build_for(run, spec)
    # As `prudent.load` has it; what the weights are makes no difference.
    policy = Policy(built, built.init(jax.random.key(0)), Recorded(spec, spaces), step=0)
    loaded: dict[str, Callable[[Any], np.ndarray]] = {"load": policy}
    with tempfile.TemporaryDirectory() as folder:
        for suffix in FORMATS:
            path = Path(folder) / f"policy{suffix}"
            export_policy(policy, run, path)
            loaded[f"load_exported {suffix}"] = load_exported(path)

    def acting(act: Callable[[Any], np.ndarray]) -> Callable[[], object]:
        return lambda: act(observation)

    seconds = best_in_turns(list(map(acting, loaded.values())), finer=20)
    return dict(zip(loaded, seconds, strict=True))
