"""Policies' densities and divergences against their closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prudent.pieces.networks import STYLES
from prudent.pieces.policies import (
    Moments,
    divergence,
    gaussian,
    log_density,
    mean_divergence,
    spread_divergence,
)
from prudent.pieces.types import Spec

SPEC = Spec(3, 2, 1.0, (1.0, 1.0), (0.0, 0.0))


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


def gaussians(seed, rows=4, size=3):
    generator = np.random.default_rng(seed)
    factor = np.tril(generator.normal(size=(rows, size, size)))
    factor[:, range(size), range(size)] = 0.3 + generator.uniform(size=(rows, size))
    return Moments(jnp.asarray(generator.normal(size=(rows, size))), jnp.asarray(factor))


def covariance(moments, row):
    factor = np.asarray(moments.factor[row])
    return factor @ factor.T


def test_density_and_divergences_by_their_closed_forms(float64):
    old, new = gaussians(0), gaussians(1)
    actions = np.random.default_rng(2).normal(size=(5, 4, 3))
    densities, by_mean, by_spread = np.zeros((5, 4)), [], []
    for row in range(4):
        sigma, sigma_old = covariance(new, row), covariance(old, row)
        inverse = np.linalg.inv(sigma)
        for n in range(5):
            d = actions[n, row] - np.asarray(new.mean[row])
            constant = 3 * np.log(2 * np.pi) + np.log(np.linalg.det(sigma))
            densities[n, row] = -0.5 * (d @ inverse @ d + constant)
        shift = np.asarray(new.mean[row] - old.mean[row])
        by_mean.append(0.5 * shift @ np.linalg.inv(sigma_old) @ shift)
        ratio = np.linalg.det(sigma) / np.linalg.det(sigma_old)
        by_spread.append(0.5 * (np.log(ratio) - 3 + np.trace(inverse @ sigma_old)))
    np.testing.assert_allclose(log_density(new, jnp.asarray(actions)), densities, rtol=1e-9)
    assert float(mean_divergence(old, new)) == pytest.approx(np.mean(by_mean))
    assert float(spread_divergence(old, new)) == pytest.approx(np.mean(by_spread))
    assert float(mean_divergence(old, old)) == 0.0
    assert float(spread_divergence(old, old)) == pytest.approx(0.0, abs=1e-12)
