"""An algorithm as it learns from logged rows, and its policy as a file.

Observations are brought to the scale of the first week, which stays for good.
"""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from prudent.algorithms import find_algorithm
from prudent.algorithms.resolve import settings, with_values
from prudent.files import checksum
from prudent.pieces.types import (
    Algorithm,
    CostEstimate,
    Metrics,
    ObservationScale,
    PolicyNetwork,
    Spec,
)
from prudent.policies.export import export_policy
from prudent.policies.exported import EXPLORATIONS
from prudent.policies.policy import Policy, Recorded
from prudent.settings.checks import fitting
from prudent.settings.run import Run
from prudent.tasks.finding import unknown_task
from prudent_bidding.dataset import Scale
from prudent_bidding.plan import LearnerSettings
from prudent_bidding.schema import K_HIGH, K_LOW, OBSERVATION_SIZE

HORIZON = 1536  # the most records of a day


class Built(NamedTuple):
    run: Run
    spec: Spec
    algorithm: Algorithm  # for observations as they are logged


def build(plan: LearnerSettings, name: str, scale: Scale) -> Built:
    entry = find_algorithm(plan.algorithm_of(name))
    task = unknown_task(f"bidding-{plan.preset}")
    chosen = settings(entry, task)
    chosen = with_values(chosen, fitting(plan.values(name), entry.config))
    bound = plan.bound()
    run = Run(
        algorithm=name,
        task=task.name,
        preset=plan.preset,
        seed=plan.seed,
        config=chosen.config,
        schedule=chosen.schedule,
        budget=bound,
        discounted=False,
        horizon=HORIZON,
    )
    half, centre = (K_HIGH - K_LOW) / 2, (K_HIGH + K_LOW) / 2
    spec = Spec(OBSERVATION_SIZE, 1, bound, (half,), (centre,))
    # Critics see actions on a scale too, [-1, 1]: beside scaled observations k itself, always near
    # 1, acts like a second bias, and targets at actions that are not the log's run off.
    algorithm = entry.build(chosen.config, spec._replace(action_scale=(1.0,), action_centre=(0.0,)))
    return Built(run, spec, scaled(algorithm, scale))


def check_explores(plan: LearnerSettings, name: str) -> None:
    nothing = np.zeros(OBSERVATION_SIZE, np.float32)
    algorithm = build(plan, name, Scale(nothing, nothing + 1, 1.0)).algorithm
    if algorithm.network(algorithm.init(jax.random.key(0))).explores not in EXPLORATIONS:
        raise ValueError(
            f"{name} does not say how its policy explores ({', '.join(EXPLORATIONS)}; docs/"
            "extending.md), so that it cannot be sampled; choose --deployed greedy"
        )


def scaled(algorithm: Algorithm, scale: Scale) -> Algorithm:
    """The algorithm for raw observations, which it sees on a scale that never moves."""
    mean, deviation = jnp.asarray(scale.mean), jnp.asarray(scale.deviation)

    def seen(observation: jax.Array) -> jax.Array:
        shift = jnp.broadcast_to(mean, observation.shape)
        spread = jnp.broadcast_to(deviation, observation.shape)
        return jnp.clip((observation - shift) / spread, -scale.largest, scale.largest)

    def update(state: Any, data: Any, key: jax.Array) -> tuple[Any, Metrics]:
        data = data._replace(
            observation=seen(data.observation), next_observation=seen(data.next_observation)
        )
        return algorithm.update(state, data, key)

    def network(state: Any) -> PolicyNetwork:
        found = ObservationScale(mean, deviation, scale.largest)
        return algorithm.network(state)._replace(scaling=found)

    estimate = algorithm.cost_estimate

    def cost_estimate(state: Any, observation: jax.Array, action: jax.Array) -> CostEstimate:
        assert estimate is not None
        return estimate(state, seen(observation), action)

    return algorithm._replace(
        act=lambda state, o, key: algorithm.act(state, seen(o), key),
        act_greedily=lambda state, o: algorithm.act_greedily(state, seen(o)),
        update=update,
        network=network,
        cost_estimate=cost_estimate if estimate else None,
    )


def export(built: Built, state: Any, updates: int, path: Path) -> str:
    """Write the policy; returns its checksum."""
    spaces = {
        "observation_shape": [OBSERVATION_SIZE],
        "action_shape": [1],
        "action_dtype": "float32",
        "action_low": [K_LOW],
        "action_high": [K_HIGH],
    }
    policy = Policy(built.algorithm, state, Recorded(built.spec, spaces), updates)
    export_policy(policy, built.run, path)
    return checksum(path.read_bytes())
