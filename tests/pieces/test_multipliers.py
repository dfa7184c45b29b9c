"""Dual variables on hand-computed sequences."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from prudent.pieces.dual import (
    fixed,
    log_ascent,
    pid,
    projected_ascent,
    rectify,
    softplus_ascent,
)


def run(multiplier, violations):
    state, found = multiplier.init(), []
    for violation in violations:
        state = multiplier.update(state, jnp.asarray(violation))
        found.append(float(multiplier.value(state)))
    return found


def test_projected_ascent(float64):
    found = run(projected_ascent(0.1, 1.0, optax.sgd), [2.0, -30.0, 5.0])
    np.testing.assert_allclose(found, [1.2, 0.0, 0.5])


def test_projected_ascent_keeps_its_upper_bound(float64):
    assert run(projected_ascent(0.1, 1.0, optax.sgd, upper=1.1), [2.0]) == [1.1]


def test_log_ascent(float64):
    # Plain gradient on log λ: log λ += rate * λ * violation.
    found = run(log_ascent(0.1, 2.0, optax.sgd), [1.0, -1.0])
    first = 2.0 * np.exp(0.1 * 2.0)
    np.testing.assert_allclose(found, [first, first * np.exp(-0.1 * first)])


def test_log_ascent_under_adam_moves_by_its_rate_whatever_the_violation(float64):
    for violation in (0.01, 100.0):
        found = run(log_ascent(3e-4, 0.6931), [violation])
        np.testing.assert_allclose(found, [0.6931 * np.exp(3e-4)], rtol=1e-6)


def test_log_ascent_stays_finite_under_a_budget_that_cannot_be_kept():
    found = run(log_ascent(1.0, 0.6931), [1e3] * 60)
    assert found[-1] == pytest.approx(1e12, rel=1e-4)
    assert np.isfinite(found).all()


def test_softplus_ascent(float64):
    # At softplus(0) = log 2 the slope is 1/2.
    found = run(softplus_ascent(0.1, np.log(2.0), optax.sgd), [4.0])
    np.testing.assert_allclose(found, [np.log1p(np.exp(0.1 * 0.5 * 4.0))])


def test_pid_by_hand(float64):
    # violation      2     3    -1    -9     1
    # integral       2     5     4     0     1
    # rise           2     1     0     0    10
    found = run(pid(0.1, 0.01, 0.001), [2.0, 3.0, -1.0, -9.0, 1.0])
    expected = [0.2 + 0.02 + 0.002, 0.3 + 0.05 + 0.001, 0.04, 0.0, 0.1 + 0.01 + 0.01]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_fixed():
    assert run(fixed(3.0), [5.0, -5.0]) == [3.0, 3.0]


@pytest.mark.parametrize(
    ("multiplier", "violation", "convexity", "weight"),
    [(1.0, 0.5, 10.0, 6.0), (1.0, -0.05, 10.0, 0.5), (1.0, -0.5, 10.0, 0.0), (1.0, -9.0, 0.0, 1.0)],
)
def test_rectify(multiplier, violation, convexity, weight):
    assert float(rectify(multiplier, violation, convexity)) == pytest.approx(weight)
