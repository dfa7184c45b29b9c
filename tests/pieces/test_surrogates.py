"""What is maximised in place of the return: by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from prudent.pieces.surrogates import (
    barrier,
    clipped_ratio,
    penalised,
    plain_ratio,
    projection_coefficient,
)


def test_surrogates():
    ratio, advantage = jnp.array([1.5, 0.5, 1.5, 0.5]), jnp.array([1.0, 1.0, -1.0, -1.0])
    np.testing.assert_allclose(plain_ratio(ratio, advantage), [1.5, 0.5, -1.5, -0.5])
    np.testing.assert_allclose(clipped_ratio(ratio, advantage, 0.2), [1.2, 0.5, -1.5, -0.8])
    assert float(penalised(jnp.array(5.0), jnp.array(2.0), jnp.array(3.0))) == -0.25


@pytest.mark.parametrize(
    ("violation", "penalty"),
    [(-1.0, 0.01), (-0.1, 0.1), (-0.02, 0.5), (-0.005, 2.0), (-0.003, 2.5), (0.0, 2.5), (3.0, 2.5)],
)
def test_barrier_and_its_cap(violation, penalty):
    found = barrier(jnp.array(violation), strength=0.01, cap=2.5)
    assert float(found) == pytest.approx(penalty, rel=1e-5)


def test_projection_coefficient():
    assert projection_coefficient(0.99, 0.95) == pytest.approx(5.95)
