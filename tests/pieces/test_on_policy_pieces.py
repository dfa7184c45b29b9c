"""The mathematics of the on-policy learners, each piece against an answer known beforehand."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

from prudent.pieces.advantages import centred, generalised_advantages, standardised
from prudent.pieces.critics import value_function
from prudent.pieces.networks import STYLES, mlp
from prudent.pieces.policies import divergence, gaussian
from prudent.pieces.surrogates import (
    barrier,
    clipped_ratio,
    penalised,
    plain_ratio,
    projection_coefficient,
)
from prudent.pieces.trust_region import (
    conjugate_gradient,
    fisher_product,
    line_search,
    natural_step,
)
from prudent.pieces.types import Spec

SPEC = Spec(3, 2, 1.0, (1.0, 1.0), (0.0, 0.0))


def column(*numbers):
    return jnp.array(numbers, float)[:, None]


def advantages(continues, ends):
    """Signals 1, 2, 3; V(s) = 10, 20, 30; V(s') = 20, 30, 40; γ = 0.5, τ = 0.5."""
    found = generalised_advantages(
        column(1, 2, 3), column(10, 20, 30), column(20, 30, 40), continues, ends, (0.5, 0.5)
    )
    return found[:, 0].tolist()


def test_advantages_bootstrap_at_the_epochs_cut():
    # δ = 1 + 10 - 10, 2 + 15 - 20, 3 + 20 - 30; each takes a quarter of the next.
    assert advantages(column(1, 1, 1), column(0, 0, 1)) == [1 - 4.75 / 4, -3 - 7 / 4, -7]


def test_advantages_after_termination():
    # The second step ends the world: δ = 2 - 20, and the third is another episode's.
    assert advantages(column(1, 0, 1), column(0, 1, 1)) == [1 - 18 / 4, -18, -7]


def test_advantages_after_truncation():
    # The second step is cut: its δ still looks ahead, but the third step does not reach it.
    assert advantages(column(1, 1, 1), column(0, 1, 1)) == [1 - 3 / 4, -3, -7]


def test_advantages_where_only_one_signal_ends():
    # A goal ends the reward's future although the episode goes on.
    assert advantages(column(1, 0, 1), column(0, 0, 1)) == [1 - 18 / 4, -18, -7]


def test_environments_do_not_mix():
    pair = jnp.array([[1.0, 5.0], [2.0, 6.0]])
    zeros, ones = jnp.zeros_like(pair), jnp.ones_like(pair)
    ends = jnp.array([[0.0, 1.0], [1.0, 1.0]])
    found = generalised_advantages(pair, zeros, zeros, ones, ends, (1.0, 1.0))
    np.testing.assert_allclose(found, [[3.0, 5.0], [2.0, 6.0]])


def test_standardised_and_centred():
    np.testing.assert_allclose(centred(jnp.array([1.0, 3.0])), [-1.0, 1.0])
    np.testing.assert_allclose(standardised(jnp.array([1.0, 5.0])), [-1.0, 1.0], rtol=1e-6)


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


@pytest.fixture
def policy():
    return gaussian(SPEC, (4,), STYLES["tanh-uniform"], initial_log_std=-0.3)


def test_density_and_entropy_of_the_gaussian(policy, float64):
    params = policy.init(jax.random.key(0))
    observation = jax.random.normal(jax.random.key(1), (5, 3))
    mean = policy.mode(params, observation)
    std = np.exp(-0.3)
    peak = -2 * np.log(std * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(policy.log_density(params, observation, mean), np.full(5, peak))
    away = policy.log_density(params, observation, mean + std)
    np.testing.assert_allclose(away, np.full(5, peak - 1.0))
    assert float(policy.entropy(params)) == pytest.approx(-peak + 1.0)


def test_divergence_against_the_closed_form(policy, float64):
    first, second = policy.init(jax.random.key(0)), policy.init(jax.random.key(1))
    second["log_std"] = jnp.array([0.2, -0.5])
    observation = 0.1 * jax.random.normal(jax.random.key(2), (6, 3))
    means = [np.asarray(policy.mode(p, observation)) for p in (first, second)]
    sigma, other = np.exp(-0.3), np.exp(np.array([0.2, -0.5]))
    expected = (
        np.log(other / sigma) + (sigma**2 + (means[0] - means[1]) ** 2) / (2 * other**2) - 0.5
    ).sum(axis=1)
    here, there = (policy.normal(p, observation) for p in (first, second))
    np.testing.assert_allclose(divergence(here, there), expected)
    np.testing.assert_allclose(divergence(here, here), 0.0, atol=1e-12)


def test_actions_stay_inside_the_bounds(policy):
    params = policy.init(jax.random.key(0))
    params["log_std"] = jnp.array([3.0, 3.0])
    found = policy.sample(params, jnp.zeros((50, 3)), jax.random.key(1))
    assert float(jnp.abs(found).max()) == 1.0


def test_initial_weights_are_uniform_within_the_inverse_root_of_the_inputs():
    params = mlp((100, 400, 50), STYLES["tanh-uniform"]).init(jax.random.key(0))
    for layer, bound in zip(params, (0.1, 0.05), strict=True):
        for numbers in layer.values():
            assert 0.9 * bound < float(jnp.abs(numbers).max()) <= bound
        assert float(jnp.std(layer["weight"])) == pytest.approx(bound / np.sqrt(3), rel=0.02)
    small = mlp((100, 400, 50), STYLES["tanh-uniform-small"]).init(jax.random.key(0))
    np.testing.assert_allclose(small[1]["weight"], 0.1 * params[1]["weight"], rtol=1e-6)
    np.testing.assert_array_equal(small[1]["bias"], 0.0)


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
