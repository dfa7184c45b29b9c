"""A few updates of an algorithm on random batches, laid out for a transcription to follow."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from prudent.pieces.types import Batch, Spec

SPEC = Spec(
    observation_size=5,
    action_size=2,
    cost_budget=1.5,
    action_scale=(0.4, 2.0),
    action_centre=(0.0, 0.5),
)
ROWS = 7
WARM = 2  # updates before those that are followed


def batch_of(generator: np.random.Generator) -> Batch:
    normal = lambda *shape: generator.normal(size=shape)  # noqa: E731
    return Batch(
        observation=normal(ROWS, 5),
        action=np.tanh(normal(ROWS, 2)),
        reward=normal(ROWS),
        cost=np.abs(normal(ROWS)),
        reward_continues=generator.integers(0, 2, ROWS).astype(float),
        cost_continues=generator.integers(0, 2, ROWS).astype(float),
        next_observation=normal(ROWS, 5),
    )


class Steps(NamedTuple):
    before: Any
    after: Any
    batches: list[dict[str, np.ndarray]]
    key: jax.Array
    metrics: dict[str, jax.Array]
    given: dict[str, Any]  # the extras of the second call

    def keys(self, count: int):
        """Each step's keys, split as the algorithm splits them."""
        return [jax.random.split(key, count) for key in jax.random.split(self.key, 2)]

    @staticmethod
    def noise(key, *shape) -> np.ndarray:
        return np.asarray(jax.random.normal(key, shape or (ROWS, 2)))


def nothing_else(generator: np.random.Generator) -> dict[str, Any]:
    return {}


def stack(batches):
    return jax.tree.map(lambda *a: np.stack(a), *batches)


def several_steps(factory, config, spec=SPEC, first=0, also=nothing_else) -> Steps:
    """Two updates, so that moments, targets and multipliers are not at their origin, then two by
    the same compiled function. `also` draws the extras of two batches.
    """
    algorithm = factory(replace(config, hidden=(8, 6)), spec)
    generator = np.random.default_rng(1)
    before = jax.jit(algorithm.init)(jax.random.key(0))
    update = jax.jit(algorithm.update)
    warm = stack([batch_of(generator) for _ in range(WARM)])
    data = warm._replace(index=np.arange(WARM), extras=also(generator))
    # A second time where episodes are told of: the first ones have nothing to be compared with.
    for number in (5, 6) if "episodes" in data.extras else (5,):
        before, _ = update(before, data, jax.random.key(number))
    batches, key = [batch_of(generator) for _ in range(2)], jax.random.key(7)
    given = also(generator)
    block = stack(batches)._replace(index=first + np.arange(2), extras=given)
    after, metrics = update(before, block, key)
    return Steps(before, after, [batch._asdict() for batch in batches], key, metrics, given)


def one_limit(state):
    """The state of the only multiplier, [1, ...] -> [...]."""
    return jax.tree.map(lambda leaf: leaf[0], state)


def members(tree, size):
    arrays = jax.tree.map(np.asarray, tree)
    return [jax.tree.map(lambda a, i=i: a[i], arrays) for i in range(size)]


def moments(name, trained, convert):
    """Parameters and both of Adam's moments, as the transcription names them."""
    adam = trained.optimiser[0]
    trees = (trained[0], adam.mu, adam.nu)
    return dict(zip((name, f"{name}_first", f"{name}_second"), map(convert, trees), strict=True))


def network_state(state, sizes):
    """The policy and the ensembles of a library's state in the transcription's form."""
    result = moments("policy", state.policy, lambda tree: jax.tree.map(np.asarray, tree))
    for name, size in sizes.items():
        critic = getattr(state, name)
        result |= moments(name, critic.online, lambda tree, size=size: members(tree, size))
        result[f"{name[:-1]}_targets"] = members(critic.target, size)
    return {**result, "count": int(state.updates)}


def assert_same_state(found, expected, atol=1e-9):
    for part, value in found.items():
        jax.tree.map(
            lambda a, b, part=part: np.testing.assert_allclose(
                a, b, rtol=0, atol=atol, err_msg=part
            ),
            value,
            expected[part],
        )


def assert_same_metrics(found, of_steps, atol=1e-9):
    """Every metric there is, the mean over these steps of what the transcription found."""
    assert set(found) == set(of_steps[0])
    for name, value in found.items():
        expected = np.mean([metrics[name] for metrics in of_steps])
        # A share of rows is counted in float32.
        np.testing.assert_allclose(value, expected, rtol=1e-7, atol=atol, err_msg=name)
