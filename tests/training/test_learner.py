"""A compiled learner: which key goes where, and in which order metrics come."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prudent.pieces.types import Algorithm, Spec, row_width
from prudent.training.learner import compile_for_rows

SPEC = Spec(2, 1, 1.0, (1.0,), (0.0,))


def numbers(key):
    """What tells keys apart, exactly representable."""
    return jax.random.randint(key, (2,), 0, 2**20).astype(jnp.float32)


def update(state, batch, key):
    first, second = numbers(key)
    metrics = {
        "zebra": first, "apple": second, "mean": jnp.mean(batch.reward),
        "first": jnp.asarray(batch.index[0], jnp.float32), "cost": jnp.mean(batch.cost),
    }  # fmt: skip
    return state + 1.0, metrics


ALGORITHM = Algorithm(
    init=lambda key: numbers(key)[0],
    act=lambda state, seen, key: numbers(key)[:1],
    act_greedily=lambda state, seen: seen[..., :1],
    update=update,
    network=lambda state: None,
)


@pytest.fixture(scope="module")
def learners():
    return [compile_for_rows(ALGORITHM, SPEC, 3, seed) for seed in (0, 1)]


ROWS = np.arange(2 * 3 * row_width(2, 1), dtype=np.float32).reshape(2, 3, -1)


def test_metrics_in_the_order_of_their_names(learners):
    learner = learners[0]
    assert learner.metric_names == ("apple", "cost", "first", "mean", "zebra")
    state, values = learner.update(learner.init(), {"rows": ROWS, "first": np.int32(5)}, 0)
    named = dict(zip(learner.metric_names, np.asarray(values), strict=True))
    assert named["first"] == 5.0
    assert named["mean"] == ROWS[..., 3].mean()
    assert named["cost"] == ROWS[..., 4].mean()
    assert float(state) == float(learner.init()) + 1.0


def test_every_moment_and_every_step_has_a_key_of_its_own(learners):
    seen = np.zeros(2, np.float32)

    def drawn(learner):
        found = [float(learner.init())]
        found += [float(learner.act(0.0, seen, t)[0]) for t in range(3)]
        found += [float(learner.sample(0.0, seen, t)[0]) for t in range(3)]
        for moment in (0, 1, -1):
            values = np.asarray(
                learner.update(jnp.zeros(()), {"rows": ROWS, "first": np.int32(0)}, moment)[1]
            )
            found.append(float(values[4]))
        return found

    first, second = map(drawn, learners)
    assert len(set(first + second)) == len(first + second)
    again = drawn(compile_for_rows(ALGORITHM, SPEC, 3, 0))
    assert again == first
