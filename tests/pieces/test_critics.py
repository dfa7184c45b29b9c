"""State values by least squares, and what ensembles of action values are asked for."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from prudent.pieces.critics import value_function
from prudent.pieces.networks import STYLES
from prudent.pieces.types import Spec

SPEC = Spec(3, 2, 1.0, (1.0, 1.0), (0.0, 0.0))


def test_the_value_function_is_fitted_by_weighted_least_squares(float64):
    value = value_function(
        SPEC, (8,), STYLES["tanh-uniform"], optimiser=optax.sgd(0.1), weight_decay=0.0
    )
    state = value.init(jax.random.key(0))
    observation = jnp.ones((3, 3))
    targets, weights = jnp.array([5.0, 3.0, 100.0]), jnp.array([1.0, 1.0, 0.0])
    for _ in range(300):
        state, error = value.fit(state, targets, observation, weights)
    np.testing.assert_allclose(value.values(state, observation), 4.0, atol=1e-3)
    assert float(error) == pytest.approx(1.0, abs=1e-3)


def test_weight_decay_counts_every_parameter(float64):
    value = value_function(
        SPEC, (4,), STYLES["tanh-uniform"], optimiser=optax.sgd(1.0), weight_decay=0.25
    )
    state = value.init(jax.random.key(0))
    observation = jnp.ones((2, 3))
    exact = value.values(state, observation)  # no error, so only the decay moves anything
    moved, _ = value.fit(state, exact, observation, jnp.ones(2))
    for before, after in zip(
        jax.tree.leaves(state.params), jax.tree.leaves(moved.params), strict=True
    ):
        np.testing.assert_allclose(after, 0.5 * before)
