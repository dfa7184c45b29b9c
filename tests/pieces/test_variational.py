"""The dual of CVPO's selection: its slopes, and its solution against SciPy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_cvpo import plain_dual, solved_dual

from prudent.pieces.variational import (
    SMALLEST,
    DualVariables,
    Limits,
    Weighed,
    dual_slopes,
    dual_value,
    log_selection,
    solve_dual,
)


def problem(seed, budget=0.8, samples=16, rows=20):
    generator = np.random.default_rng(seed)
    values = Weighed(
        jnp.asarray(3.0 * generator.normal(size=(samples, rows))),
        jnp.asarray(generator.normal(size=(samples, rows)) ** 2),
    )
    return values, Limits(0.1, budget, 1e5)


def at(eta, multiplier):
    return DualVariables(jnp.asarray(eta), jnp.asarray(multiplier))


def test_the_dual_is_as_printed(float64):
    values, limits = problem(0)
    for point in ((0.5, 0.2), (1e-6, 3.0), (40.0, 0.0)):
        expected = plain_dual(point, values, limits)
        assert float(dual_value(at(*point), values, limits)) == pytest.approx(expected, rel=1e-9)


def test_the_dual_is_convex(float64):
    values, limits = problem(1)
    generator = np.random.default_rng(0)
    height = jax.jit(lambda dual: dual_value(dual, values, limits))
    for _ in range(50):
        ends = np.exp(generator.uniform(-3, 3, (2, 2)))
        share = generator.uniform()
        between = share * ends[0] + (1 - share) * ends[1]
        chord = share * height(at(*ends[0])) + (1 - share) * height(at(*ends[1]))
        assert height(at(*between)) <= chord + 1e-9


def test_slopes_and_curvature_are_those_of_the_dual(float64):
    values, limits = problem(2)
    height = lambda point: dual_value(DualVariables(point[0], point[1]), values, limits)  # noqa: E731
    for point in ((0.5, 0.2), (3.0, 1.0)):
        x = jnp.asarray(point)
        found = dual_slopes(at(*point), values, limits)
        np.testing.assert_allclose(found.gradient, jax.grad(height)(x), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.curvature, jax.hessian(height)(x), rtol=1e-8, atol=1e-12)
        assert np.linalg.eigvalsh(found.curvature).min() >= 0


CASES = {"active": (3, 0.8), "slack": (3, 5.0), "tight": (4, 0.6)}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("start", [(0.1, 0.1), (1e-6, 0.0), (100.0, 50.0)])
def test_newton_agrees_with_scipy(name, start, float64):
    seed, budget = CASES[name]
    values, limits = problem(seed, budget)
    solved = jax.jit(lambda dual: solve_dual(dual, values, limits, 10))(at(*start))
    reference = solved_dual(Weighed(*map(np.asarray, values)), limits)
    np.testing.assert_allclose(np.array(solved), reference, rtol=1e-11, atol=1e-11)

    # At the optimum the selection keeps its divergence, and the budget where cost has a price.
    weights = jnp.exp(log_selection(solved, values))
    np.testing.assert_allclose(weights.sum(0), 1.0, rtol=1e-9)
    cost = float(jnp.mean(jnp.sum(weights * values.cost, axis=0)))
    slope = float(dual_slopes(solved, values, limits).gradient[1])
    assert slope == pytest.approx(budget - cost, abs=1e-9)
    if float(solved.multiplier) > 0:
        assert cost == pytest.approx(budget, abs=1e-4)
    else:
        assert cost < budget


def test_where_no_selection_keeps_the_budget_it_is_the_cheapest_within_the_divergence():
    """In float32: the price of cost rests at its bound, and the temperature is solved beside it."""
    values, limits = problem(3, budget=-1.0)
    values = Weighed(values.reward.astype(jnp.float32), 0.1 * values.cost.astype(jnp.float32))
    solved = at(0.1, 0.1)
    for _ in range(2):
        solved = solve_dual(solved, values, limits, 10)
    assert float(solved.multiplier) == limits.largest
    assert SMALLEST < float(solved.selection_temperature) < limits.largest
    assert float(dual_slopes(solved, values, limits).gradient[0]) == pytest.approx(0.0, abs=1e-3)


def test_ten_iterations_from_the_last_batch_are_enough():
    """In float32, as in training: a slightly different batch is solved from the last solution."""
    values, limits = problem(5)
    values = jax.tree.map(lambda x: x.astype(jnp.float32), values)
    solved = solve_dual(at(0.1, 0.1), values, limits, 10)
    near = jax.tree.map(lambda x: 1.02 * x, values)
    for _ in range(2):
        solved = solve_dual(solved, near, limits, 10)
    assert np.abs(np.asarray(dual_slopes(solved, near, limits).gradient)).max() < 1e-2
