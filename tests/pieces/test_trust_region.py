"""Second-order steps against explicit matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from prudent.pieces.networks import STYLES
from prudent.pieces.policies import divergence, gaussian
from prudent.pieces.trust_region import (
    conjugate_gradient,
    fisher_product,
    line_search,
    natural_step,
)
from prudent.pieces.types import Spec

SPEC = Spec(3, 2, 1.0, (1.0, 1.0), (0.0, 0.0))


@pytest.fixture
def policy():
    return gaussian(SPEC, (4,), STYLES["tanh-uniform"], initial_log_std=-0.3)


def test_fisher_products_against_the_explicit_matrix(policy, float64):
    params = policy.init(jax.random.key(0))
    here, unravel = ravel_pytree(params)
    observation = jax.random.normal(jax.random.key(1), (7, 3))

    def moved(theta):
        new = policy.normal(unravel(theta), observation)
        return jnp.mean(divergence(policy.normal(params, observation), new))

    # F = E[J_meanᵀ Σ^-1 J_mean] + 2 I on the log standard deviations.
    jacobian = jax.jacobian(lambda theta: policy.mode(unravel(theta), observation))(here)
    matrix = np.einsum("bai,baj->ij", jacobian, jacobian) / 7 / np.exp(-0.3) ** 2
    is_spread, _ = ravel_pytree(
        {"mean": jax.tree.map(jnp.zeros_like, params["mean"]), "log_std": jnp.ones(2)}
    )
    matrix = matrix + np.diag(2.0 * np.asarray(is_spread)) + 0.1 * np.eye(here.size)
    product = fisher_product(moved, here, damping=0.1)
    for seed in range(3):
        vector = jax.random.normal(jax.random.key(seed), here.shape)
        np.testing.assert_allclose(product(vector), matrix @ vector, atol=1e-10)


MATRIX = jnp.array([[2.0, 0.5], [0.5, 1.0]])


def test_natural_step_on_a_quadratic(float64):
    gradient = jnp.array([300.0, -100.0])
    step = natural_step(lambda v: MATRIX @ v, gradient, max_divergence=0.01)
    direction = np.linalg.solve(MATRIX, gradient)
    length = np.sqrt(2 * 0.01 / (direction @ MATRIX @ direction))
    np.testing.assert_allclose(step, length * direction, rtol=1e-5)
    assert float(0.5 * step @ MATRIX @ step) == pytest.approx(0.01)


def test_conjugate_gradient_solves_and_survives_zero(float64):
    found = conjugate_gradient(lambda v: MATRIX @ v, jnp.array([1.0, 2.0]))
    np.testing.assert_allclose(found, np.linalg.solve(MATRIX, [1.0, 2.0]), atol=1e-5)
    np.testing.assert_array_equal(conjugate_gradient(lambda v: MATRIX @ v, jnp.zeros(2)), 0.0)


def test_line_search_backs_off_and_gives_up():
    here, step = jnp.array([1.0]), jnp.array([1.0])
    found = line_search(lambda x: x[0] <= 1.6, here, step)
    np.testing.assert_allclose(found, [1.512])  # 0.8^3
    np.testing.assert_array_equal(line_search(lambda x: x[0] < 1.0, here, step), here)
