"""Initial weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prudent.pieces.networks import STYLES, mlp
from prudent.pieces.types import Spec

SPEC = Spec(3, 2, 1.0, (1.0, 1.0), (0.0, 0.0))


def test_initial_weights_are_uniform_within_the_inverse_root_of_the_inputs():
    params = mlp((100, 400, 50), STYLES["tanh-uniform"]).init(jax.random.key(0))
    for layer, bound in zip(params, (0.1, 0.05), strict=True):
        for numbers in layer.values():
            assert 0.9 * bound < float(jnp.abs(numbers).max()) <= bound
        assert float(jnp.std(layer["weight"])) == pytest.approx(bound / np.sqrt(3), rel=0.02)
    small = mlp((100, 400, 50), STYLES["tanh-uniform-small"]).init(jax.random.key(0))
    np.testing.assert_allclose(small[1]["weight"], 0.1 * params[1]["weight"], rtol=1e-6)
    np.testing.assert_array_equal(small[1]["bias"], 0.0)
