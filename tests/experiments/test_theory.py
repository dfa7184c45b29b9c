"""What the paper claims, as printed and as it must be: docs/theory.md says which test is which."""

import re
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm, null_space
from scipy.stats import norm

import prudent
from prudent.experiments import theory
from prudent.experiments.figures.theory import draw
from prudent.experiments.theory import (
    BESIDE_THE_OPTIMUM,
    ENERGY_AS_PRINTED,
    EXAMPLE,
    MULTIPLIER_AS_PRINTED,
    OPTIMUM,
    PRINTED,
    REPAIRED,
    Learning,
    Point,
    Problem,
    course,
    critical_convexity,
    damping_matrix,
    energy,
    flow,
    polynomial,
    velocity,
)
from prudent.pieces.critics import conditional_value_at_risk, tail_weight, upper_confidence
from prudent.pieces.dual import rectify

ROOT = Path(prudent.__file__).parents[1]
ALL_FORMS = [REPAIRED, ENERGY_AS_PRINTED, MULTIPLIER_AS_PRINTED, PRINTED]


def rises(values) -> bool:
    return bool((np.diff(values) > 0).any())


# 1. The minimum of noisy estimates.


@pytest.mark.parametrize(("actions", "known"), [(1, 0.0), (2, -0.564), (10, -1.539), (100, -2.508)])
def test_the_expected_minimum_of_unbiased_estimates_is_too_low(actions, known):
    assert theory.expected_minimum(actions) == pytest.approx(known, abs=5e-4)
    assert theory.expected_minimum(2) == pytest.approx(-1 / np.sqrt(np.pi), abs=1e-9)
    draws = theory.simulated_minimum(actions, 1.0, 20_000, np.random.default_rng(0))
    # Four standard errors, of a standard deviation that is at most 1.
    assert draws.mean() == pytest.approx(theory.expected_minimum(actions), abs=4 / np.sqrt(20_000))


def test_the_underestimation_grows_with_the_actions_and_with_the_noise():
    by_actions = [theory.expected_minimum(actions) for actions in range(1, 40)]
    assert (np.diff(by_actions) < 0).all()
    by_noise = [theory.expected_minimum(10, noise) for noise in (0.0, 0.5, 1.0, 2.0)]
    np.testing.assert_allclose(by_noise, by_noise[2] * np.array([0.0, 0.5, 1.0, 2.0]))


def test_unequal_actions_are_underestimated_too():
    """E[min(Q + ε)] ≤ min Q for any Q, by Jensen; far apart, the bound is met."""
    generator = np.random.default_rng(1)
    for gap in (0.0, 0.5, 2.0, 20.0):
        true = np.array([1.0, 1.0 + gap])
        found = (true + generator.normal(size=(40_000, 2))).min(axis=1).mean()
        assert found < 1.0 + 0.02
        # Of two normals whose difference has the variance 2.
        apart = gap / np.sqrt(2)
        expected = 1.0 + gap * norm.cdf(-apart) - np.sqrt(2) * norm.pdf(apart)
        assert found == pytest.approx(expected, abs=0.02)


def test_bootstrapping_accumulates_the_underestimation():
    learning = Learning(actions=10)
    exact = theory.expected_bias(learning, 1000)
    assert exact[1] == pytest.approx(
        0.1 * theory.expected_minimum(10)
    )  # one step: no bootstrap yet
    assert (np.diff(exact) < 0).all()
    assert exact[-1] == pytest.approx(theory.bias_in_the_end(learning), abs=1e-3)
    found = theory.simulated_bias(learning, 1000, 400, np.random.default_rng(0)).mean(axis=1)
    np.testing.assert_allclose(found[[10, 100, 300, 1000]], exact[[10, 100, 300, 1000]], atol=0.1)
    # Far below what a single minimum of the same values would lose.
    assert exact[-1] < 9 * theory.expected_minimum(10, np.sqrt(0.1 / 1.9))


def test_without_a_choice_there_is_nothing_to_underestimate():
    np.testing.assert_allclose(theory.expected_bias(Learning(actions=1), 200), 0.0, atol=1e-12)
    found = theory.simulated_bias(Learning(actions=1), 200, 2000, np.random.default_rng(0))
    assert found[-1].mean() == pytest.approx(0.0, abs=0.1)


# 2. An upper bound on cost shrinks the set of allowed policies.


def allowed(costs, policies, budget):
    """Which of the policies [P, S·A], as shares of time, cost at most the budget."""
    return set(np.flatnonzero(policies @ costs <= budget))


def test_policies_allowed_by_an_upper_bound_are_allowed():
    generator = np.random.default_rng(0)
    policies = generator.dirichlet(np.ones(12), size=500)
    costs = generator.gamma(1.0, size=12)
    above = costs + generator.gamma(0.3, size=12)
    conservative, true = allowed(above, policies, 1.2), allowed(costs, policies, 1.2)
    assert conservative
    assert conservative < true
    below = costs - 0.5  # no upper bound
    assert not allowed(below, policies, 1.2) <= true


def test_an_ensemble_that_agrees_on_too_low_a_cost_bounds_nothing(float64):
    members = jnp.array([[0.4], [0.6]])  # of a true cost of 2
    assert float(upper_confidence(members, 2.0, 1)[0]) < 2.0


# 4 to 8. The augmented Lagrangian.

POINTS = [
    (violation, multiplier, convexity)
    for violation in (-3.0, -0.5, 0.0, 0.2, 2.0)
    for multiplier in (0.0, 0.3, 2.0)
    for convexity in (0.5, 1.0, 10.0)
]


@pytest.mark.parametrize(("violation", "multiplier", "convexity"), POINTS)
def test_the_best_slack_is_the_best_and_gives_the_penalty(violation, multiplier, convexity):
    best = theory.best_slack(violation, multiplier, convexity)
    slack = np.append(np.linspace(0.0, 10.0, 10_001), best)
    gained = -convexity / 2 * (violation + slack) ** 2 - multiplier * (violation + slack)
    assert slack[gained.argmax()] == pytest.approx(best, abs=1e-3)
    assert gained.max() == pytest.approx(theory.penalty(violation, multiplier, convexity))


@pytest.mark.parametrize(("violation", "multiplier", "convexity"), POINTS)
def test_the_price_of_cost_is_the_slope_and_what_the_algorithms_use(
    violation, multiplier, convexity, float64
):
    tiny = 1e-6
    ends = theory.penalty(np.array([violation - tiny, violation + tiny]), multiplier, convexity)
    weight = theory.cost_weight(violation, multiplier, convexity)
    assert -(ends[1] - ends[0]) / (2 * tiny) == pytest.approx(weight, abs=1e-5)
    assert weight == pytest.approx(float(rectify(multiplier, violation, convexity)), abs=1e-12)


def test_both_cases_meet_without_a_jump_or_a_kink():
    multiplier, convexity = 1.5, 4.0
    joint, tiny = -multiplier / convexity, 1e-7
    inside = -multiplier * (joint + tiny) - convexity / 2 * (joint + tiny) ** 2
    constant = multiplier**2 / (2 * convexity)
    assert inside == pytest.approx(constant, abs=1e-12)
    assert theory.cost_weight(joint - tiny, multiplier, convexity) == 0.0
    assert theory.cost_weight(joint + tiny, multiplier, convexity) == pytest.approx(4e-7)


def curved_problem(seed: int) -> Problem:
    """Nothing in it is symmetric, linear or aligned with an axis."""
    generator = np.random.default_rng(seed)

    def symmetric():
        matrix = generator.normal(size=(4, 4))
        return (matrix + matrix.T) / 2

    def smooth(constant):
        return polynomial(symmetric(), generator.normal(size=4), constant, generator.normal(size=4))

    return Problem(smooth(0.0), smooth(0.5))


def lagrangian(problem, x, multiplier, convexity):
    violation = problem.constraint.value(x)
    return problem.objective.value(x) + theory.penalty(violation, multiplier, convexity)


def numerical_gradient(function, x, tiny=1e-5):
    return np.array([(function(x + e) - function(x - e)) / (2 * tiny) for e in tiny * np.eye(4)])


@pytest.mark.parametrize("seed", range(6))
def test_the_gradient_of_the_unified_objective_is_the_rectified_one(seed):
    problem = curved_problem(seed)
    x = 0.5 * np.random.default_rng(seed + 10).normal(size=4)
    for multiplier in (0.0, 0.4, 3.0):
        found = numerical_gradient(lambda x, m=multiplier: lagrangian(problem, x, m, 2.0), x)
        expected = velocity(problem, Point(x, multiplier), 2.0).x
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_surrogate_has_that_gradient_on_the_policys_actions_and_not_on_others():
    """Actions θ s, cost (a - 1)² + a s: the weight is a number that is not differentiated."""
    generator = np.random.default_rng(0)
    states, replayed = generator.normal(size=50), generator.normal(size=50)
    budget, multiplier, convexity, policy, tiny = 0.5, 1.0, 3.0, 0.7, 1e-5

    def violation(actions):
        return np.mean((actions - 1) ** 2 + actions * states) - budget

    def slope(function):
        return (function(policy + tiny) - function(policy - tiny)) / (2 * tiny)

    exact = slope(lambda p: -theory.penalty(violation(p * states), multiplier, convexity))
    cost_slope = slope(lambda p: violation(p * states))
    own, old = (
        theory.cost_weight(violation(actions), multiplier, convexity) * cost_slope
        for actions in (policy * states, replayed)
    )
    assert own == pytest.approx(exact, abs=1e-6)
    assert abs(old - exact) > 0.1


@pytest.mark.parametrize("convexity", [0.1, 1.0, 10.0, 1000.0])
def test_the_augmentation_does_not_move_the_optimum(convexity):
    """Of f = -(x - 2)² under x ≤ 1: x = 1 with multiplier 2, whatever c."""
    x = np.linspace(-3.0, 5.0, 8001)
    height = -((x - 2) ** 2) + theory.penalty(x - 1, 2.0, convexity)
    assert x[height.argmax()] == pytest.approx(1.0, abs=1e-9)
    # For any multiplier L is highest at x = (4 + c - λ) / (2 + c): lowest of all for λ = 2.
    multipliers = np.array([0.0, 1.0, 1.9, 2.0, 2.1, 4.0])
    highest = [
        -((x - 2) ** 2) + theory.penalty(x - 1, multiplier, convexity)
        for multiplier in multipliers
        for x in [(4 + convexity - multiplier) / (2 + convexity)]
    ]
    expected = -1 + (multipliers - 2) ** 2 / (2 * (2 + convexity))
    np.testing.assert_allclose(highest, expected, atol=1e-9)


def test_a_saddle_where_the_plain_lagrangian_is_unbounded():
    """Of f = x²/2 under x ≤ 1, optimum (1, 1): L has curvature 1 - c there."""
    x = np.linspace(0.6, 1.4, 801)

    def height(x, convexity):
        return x**2 / 2 + theory.penalty(x - 1, 1.0, convexity)

    assert height(x, 2.0).argmax() == 400
    assert height(x, 1.1).argmax() == 400
    assert height(x, 0.0).argmin() == height(x, 0.9).argmin() == 400  # the worst place instead
    np.testing.assert_allclose(height(np.array([1e3, 1e4]), 0.0), [499_001.0, 49_990_001.0])
    assert height(1e4, 2.0) < -1e7


# 9. Energy.


def rate_of_energy(problem, at, convexity, form, tiny=1e-5):
    ends = [
        energy(problem, flow(problem, at, convexity, time, form), convexity, form)
        for time in (-tiny, tiny)
    ]
    return (ends[1] - ends[0]) / (2 * tiny)


def active_point(problem, seed, convexity) -> Point:
    x = 0.3 * np.random.default_rng(seed).normal(size=4)
    return Point(x, 1.0 + max(0.0, -convexity * problem.constraint.value(x)))


@pytest.mark.parametrize("form", ALL_FORMS)
@pytest.mark.parametrize("seed", range(4))
def test_energy_is_lost_as_the_theorem_says_in_the_repaired_form_only(form, seed):
    """d/dt (k‖ẋ‖² + ½λ̇²) = -2k ẋᵀAẋ + (1 - 2ks) g ∇gᵀẋ, with λ̇ = s g: only k = ½, s = 1 leaves
    -ẋᵀAẋ.
    """
    problem, convexity = curved_problem(seed), 2.0
    at = active_point(problem, seed, convexity)
    speed = velocity(problem, at, convexity, form).x
    lost = speed @ damping_matrix(problem, at, convexity) @ speed
    cross = problem.constraint.value(at.x) * problem.constraint.gradient(at.x) @ speed
    found = rate_of_energy(problem, at, convexity, form)
    left_over = 1 - 2 * form.kinetic * form.direction
    assert found == pytest.approx(-2 * form.kinetic * lost + left_over * cross, rel=1e-5)
    if form == REPAIRED:
        assert found == pytest.approx(-lost, rel=1e-5)
    else:
        assert abs(found + lost) > 1e-2


def test_the_printed_line_lacks_a_factor():
    """Without π̇_i in the term -λ̇ ∂g/∂π_i, the sum is not the rate of the energy."""
    problem, convexity = curved_problem(0), 2.0
    at = active_point(problem, 0, convexity)
    speed, slope = velocity(problem, at, convexity), problem.constraint.gradient(at.x)
    lost = speed.x @ damping_matrix(problem, at, convexity) @ speed.x
    kept = problem.constraint.value(at.x) * slope @ speed.x
    found = rate_of_energy(problem, at, convexity, REPAIRED)
    assert -lost - speed.multiplier * slope @ speed.x + kept == pytest.approx(found, rel=1e-5)
    assert abs(-lost - speed.multiplier * slope.sum() + kept - found) > 1e-2


@pytest.mark.parametrize("convexity", [0.9, 1.1, 2.0, 5.0])
def test_the_flow_is_the_damped_oscillation_it_must_be(convexity):
    """With y = x₁ - 1, m = λ - 1: ẏ = (1 - c) y - m, ṁ = y; and x₂ decays by itself."""
    found = course(convexity)
    matrix = np.array([[1 - convexity, -1.0], [1.0, 0.0]])
    for index in (0, 137, 2000):
        time, point = found.times[index], found.points[index]
        across = expm(time * matrix) @ [0.05, 0.05] + 1.0
        expected = [across[0], 0.2 * np.exp(-time / 2), across[1]]
        np.testing.assert_allclose([*point.x, point.multiplier], expected, atol=1e-9)


@pytest.mark.parametrize("convexity", [1.1, 2.0, 5.0])
def test_above_its_critical_value_energy_only_falls(convexity):
    found = course(convexity)
    assert not rises(found.energies)
    assert found.energies[-1] < found.energies[0] / 10


@pytest.mark.parametrize("convexity", [0.5, 0.9])
def test_below_its_critical_value_energy_rises(convexity):
    found = course(convexity)
    assert rises(found.energies)
    assert found.energies[-1] > 2 * found.energies[0]


def test_the_critical_value_of_the_example_is_one():
    for convexity in (0.5, 1.0, 3.0):
        expected = np.diag([convexity - 1.0, 0.5])
        np.testing.assert_allclose(damping_matrix(EXAMPLE, OPTIMUM, convexity), expected)
    curvature = -damping_matrix(EXAMPLE, OPTIMUM, 0.0)
    slope = EXAMPLE.constraint.gradient(OPTIMUM.x)[None]
    assert critical_convexity(curvature, slope) == pytest.approx(1.0, abs=1e-6)


def test_the_printed_energy_rises_above_the_critical_value():
    assert rises(course(1.1, ENERGY_AS_PRINTED).energies)


@pytest.mark.parametrize("convexity", [1.1, 2.0, 5.0, 100.0])
def test_no_convexity_is_enough_for_the_printed_energy(convexity):
    """Beside the optimum, with ẋ = 0: the printed one rises at first, the repaired one does not."""
    start = Point(np.array([1.001, 0.0]), 1.0 + (1.0 - convexity) * 0.001)
    assert start.multiplier > 0
    np.testing.assert_allclose(velocity(EXAMPLE, start, convexity).x, 0.0, atol=1e-12)
    options = {"start": start, "end": 0.2 / convexity, "step": 0.002 / convexity}
    assert (np.diff(course(convexity, ENERGY_AS_PRINTED, **options).energies) > 0).all()
    assert (np.diff(course(convexity, REPAIRED, **options).energies) < 0).all()


@pytest.mark.parametrize("convexity", [0.5, 1.1, 2.0, 5.0, 100.0])
def test_with_the_printed_sign_of_the_multiplier_no_convexity_converges(convexity):
    """Eigenvalues s² + (c - 1) s ± 1 = 0: with the minus one of them is always positive."""
    tiny = 1e-6

    def eigenvalues(form):
        columns = []
        for e in tiny * np.eye(3):
            ends = [
                velocity(
                    EXAMPLE, Point(OPTIMUM.x + sign * e[:2], 1.0 + sign * e[2]), convexity, form
                )
                for sign in (1, -1)
            ]
            columns.append((np.append(*ends[0]) - np.append(*ends[1])) / (2 * tiny))
        return np.linalg.eigvals(np.array(columns).T)

    damping = convexity - 1
    growing = (-damping + np.sqrt(damping**2 + 4)) / 2
    assert eigenvalues(MULTIPLIER_AS_PRINTED).real.max() == pytest.approx(growing, abs=1e-6)
    assert growing > 0
    assert (eigenvalues(REPAIRED).real.max() < 0) == (convexity > 1)


def test_with_the_printed_sign_learning_leaves_the_optimum():
    def distance(form):
        found = course(2.0, form).points[-1]
        return np.linalg.norm(np.append(found.x, found.multiplier) - [1.0, 0.0, 1.0])

    assert distance(REPAIRED) < 1e-4
    assert distance(MULTIPLIER_AS_PRINTED) > 1e3


def test_the_slack_is_zero_beside_the_optimum_and_not_a_constant_elsewhere():
    convexity = 2.0
    for point in course(convexity).points[::100]:
        violation = EXAMPLE.constraint.value(point.x)
        assert theory.best_slack(violation, point.multiplier, convexity) == 0.0
        assert point.multiplier > 0  # so that its projection has nothing to do
    # Inside: ẋ = ∇f, λ̇ = -λ/c, and the energy changes by ẋᵀ∇²f ẋ - λ²/c³.
    inside = Point(np.array([-1.0, 0.4]), 0.5)
    assert theory.best_slack(-2.0, 0.5, convexity) == pytest.approx(1.75)
    speed = velocity(EXAMPLE, inside, convexity).x
    curvature = EXAMPLE.objective.hessian(inside.x)
    found = rate_of_energy(EXAMPLE, inside, convexity, REPAIRED)
    assert found == pytest.approx(speed @ curvature @ speed - 0.5**2 / convexity**3, rel=1e-5)
    slope = EXAMPLE.constraint.gradient(inside.x)
    as_printed = speed @ (-curvature + convexity * np.outer(slope, slope)) @ speed
    assert abs(found + as_printed) > 0.5


# 10. The lemma.


def negative_on_the_kernel(generator, size=5, rows=2):
    slope = generator.normal(size=(rows, size))
    matrix = generator.normal(size=(size, size))
    kernel = null_space(slope)
    shift = np.linalg.eigvalsh(kernel.T @ (matrix + matrix.T) @ kernel)[-1] + 1.0
    return matrix + matrix.T - shift * kernel @ kernel.T, slope


@pytest.mark.parametrize("seed", range(10))
def test_negative_on_the_kernel_becomes_negative_everywhere(seed):
    curvature, slope = negative_on_the_kernel(np.random.default_rng(seed))

    def top(convexity):
        return np.linalg.eigvalsh(curvature - convexity * slope.T @ slope)[-1]

    critical = critical_convexity(curvature, slope)
    assert np.isfinite(critical)
    assert all(top(critical + more) < 0 for more in (1e-3, 1.0, 100.0))
    assert critical == 0.0 or top(critical - 1e-3) > 0


def test_the_critical_convexity_by_hand():
    """[[a - c, b], [b, -d]] is negative definite from c = a + b²/d on."""
    found = critical_convexity(np.array([[2.0, 3.0], [3.0, -0.5]]), np.array([[1.0, 0.0]]))
    assert found == pytest.approx(2.0 + 9.0 / 0.5, abs=1e-6)


def test_where_the_premise_fails_no_convexity_is_enough():
    assert critical_convexity(np.diag([1.0, 0.5]), np.array([[1.0, 0.0]])) == np.inf


def test_where_the_hessian_is_definite_everywhere_the_lemma_is_not_needed():
    assert critical_convexity(np.diag([-1.0, -0.5]), np.array([[1.0, 0.0]])) == 0.0
    # The example's is not, though its optimum is a strict one: what the paper says it must be.
    assert np.linalg.eigvalsh(damping_matrix(EXAMPLE, OPTIMUM, 0.0))[0] < 0


def test_the_lemmas_matrix_is_a_row():
    """As a column, QᵀQ is a number; squared entry by entry, it is not what energy is lost by."""
    problem, convexity = curved_problem(1), 2.0
    at = active_point(problem, 1, convexity)
    slope = problem.constraint.gradient(at.x)
    row, column = slope[None], slope[:, None]
    assert (column.T @ column).shape == (1, 1)
    np.testing.assert_allclose(row.T @ row, np.outer(slope, slope))
    without = damping_matrix(problem, at, convexity) - convexity * np.outer(slope, slope)
    speed = velocity(problem, at, convexity).x
    found = rate_of_energy(problem, at, convexity, REPAIRED)
    by_entry = without + convexity * np.diag(slope**2)
    assert found == pytest.approx(-speed @ (without + convexity * row.T @ row) @ speed, rel=1e-5)
    assert abs(found + speed @ by_entry @ speed) > 1e-2


# The paper's second-order conditions.


def conditions_hold(problem, x, multiplier, sign) -> bool:
    """∇f + sign λ ∇g = 0 with λ ≥ 0, and ∇²f + sign λ ∇²g definite, of that sign, on the tangent
    space of the constraint.
    """
    slope = problem.constraint.gradient(x)
    total = problem.objective.gradient(x) + sign * multiplier * slope
    hessian = problem.objective.hessian(x) + sign * multiplier * problem.constraint.hessian(x)
    tangent = null_space(slope[None])
    along = np.linalg.eigvalsh(tangent.T @ hessian @ tangent)
    return bool(np.allclose(total, 0) and multiplier >= 0 and (sign * along > 0).all())


AS_PRINTED, AS_REPAIRED = 1.0, -1.0


def test_the_printed_conditions_describe_the_worst_policy():
    """Of f = x₁ + x₂ on the disc x₁² + x₂² ≤ 2: best at (1, 1), worst at (-1, -1)."""
    disc = Problem(
        polynomial(np.zeros((2, 2)), [1.0, 1.0]), polynomial(2 * np.eye(2), [0.0, 0.0], -2.0)
    )
    best, worst = np.array([1.0, 1.0]), np.array([-1.0, -1.0])
    assert conditions_hold(disc, best, 0.5, AS_REPAIRED)
    assert not conditions_hold(disc, worst, 0.5, AS_REPAIRED)
    assert conditions_hold(disc, worst, 0.5, AS_PRINTED)
    assert not any(
        conditions_hold(disc, best, multiplier, AS_PRINTED) for multiplier in (0.0, 0.5, 1.0)
    )


def test_the_repaired_conditions_hold_on_the_tangent_only():
    assert conditions_hold(EXAMPLE, OPTIMUM.x, OPTIMUM.multiplier, AS_REPAIRED)
    assert not conditions_hold(EXAMPLE, OPTIMUM.x, OPTIMUM.multiplier, AS_PRINTED)
    hessian = EXAMPLE.objective.hessian(OPTIMUM.x)  # the constraint is straight
    np.testing.assert_allclose(np.linalg.eigvalsh(hessian), [-0.5, 1.0])  # across it, not negative


def test_the_printed_gradient_is_the_losss_and_its_maximum_is_not_of_one_case():
    at, convexity = Point(np.array([0.2, 0.3]), 0.5), 2.0  # g = -0.8: inside
    first_case = at.multiplier + convexity * EXAMPLE.constraint.value(at.x)
    assert first_case == pytest.approx(-1.1)  # would reward cost
    objective, slope = EXAMPLE.objective.gradient(at.x), EXAMPLE.constraint.gradient(at.x)
    np.testing.assert_allclose(velocity(EXAMPLE, at, convexity).x, objective)
    broken = BESIDE_THE_OPTIMUM
    weight = theory.cost_weight(0.05, 1.05, convexity)
    ascent = velocity(EXAMPLE, broken, convexity).x - EXAMPLE.objective.gradient(broken.x)
    np.testing.assert_allclose(ascent, -weight * slope)  # minus: plus only in what is minimised


@pytest.mark.parametrize("cost", [0.5, 2.0, 3.0])
def test_where_the_missing_parenthesis_belongs(cost):
    """Max{0, λ - c (d - E[Q])} is the price of cost; λ - c d - E[Q] is not."""
    budget, multiplier, convexity = 2.2, 1.0, 4.0
    slack = theory.best_slack(cost - budget, multiplier, convexity)
    price = multiplier + convexity * (cost - budget + slack)
    assert max(0.0, multiplier - convexity * (budget - cost)) == pytest.approx(price)
    if cost > budget:
        assert max(0.0, multiplier - convexity * budget - cost) != pytest.approx(price)


# 11. The multiplier's step.


@pytest.mark.parametrize(("violation", "multiplier", "convexity"), POINTS)
def test_the_exact_dual_gradient_its_fixed_points_and_the_classical_update(
    violation, multiplier, convexity
):
    exact = violation + theory.best_slack(violation, multiplier, convexity)
    active = multiplier + convexity * violation > 0
    assert exact == pytest.approx(violation if active else -multiplier / convexity)
    if multiplier > 0:
        tiny = 1e-6
        ends = [theory.penalty(violation, multiplier + e, convexity) for e in (-tiny, tiny)]
        assert -(ends[1] - ends[0]) / (2 * tiny) == pytest.approx(exact, abs=1e-5)
    # A step as long as c along the exact gradient is the classical update, λ <- λ~.
    classical = theory.cost_weight(violation, multiplier, convexity)
    assert multiplier + convexity * exact == pytest.approx(classical)
    # The paper's step uses g always: it is at rest where the exact one is, and never slower down.
    rate = 0.01
    printed, precise = (max(0.0, multiplier + rate * slope) for slope in (violation, exact))
    assert (printed == multiplier) == (precise == multiplier)
    assert printed <= precise


# 13. WCSAC.


@pytest.mark.parametrize("risk_level", [0.1, 0.5, 0.9])
def test_the_ensembles_bound_is_the_cost_at_risk_with_another_spread(risk_level, float64):
    members = jnp.asarray(np.random.default_rng(0).normal(size=(4, 6)))
    mean, variance = jnp.mean(members, axis=0), jnp.var(members, axis=0)
    np.testing.assert_allclose(
        upper_confidence(members, tail_weight(risk_level), 0),
        conditional_value_at_risk(mean, variance, risk_level),
        atol=1e-12,
    )


def test_without_the_clamp_the_price_of_cost_turns_into_a_reward():
    multiplier, damping, violation = 1.0, 10.0, -0.5
    assert multiplier + damping * violation == -4.0
    assert float(rectify(multiplier, violation, damping)) == 0.0


# The pictures and the page.


def test_the_pictures_are_drawn(tmp_path):
    written = draw(tmp_path / "new")
    names = ["underestimation", "augmented-lagrangian", "energy"]
    expected = [
        tmp_path / "new" / f"{name}.{suffix}" for name in names for suffix in ("png", "svg")
    ]
    assert written == expected
    for path in written:
        begins = b"\x89PNG" if path.suffix == ".png" else b"<?xml"
        assert path.read_bytes().startswith(begins)
        assert path.stat().st_size > 10_000


def test_drawing_asks_for_a_folder():
    command = [sys.executable, "-m", "prudent.experiments.figures.theory"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert found.returncode == 1
    assert found.stderr == "which folder? python -m prudent.experiments.figures.theory OUT\n"


def test_the_page_names_a_test_for_every_item_and_each_exists():
    page = (ROOT / "docs/theory.md").read_text()
    here = Path(__file__).read_text()
    rows = re.findall(r"^\| (\d+) \|.*\|(.*)\|$", page, re.M)
    assert [int(number) for number, _ in rows] == list(range(1, 17))
    for number, cell in rows:
        named = re.findall(r"`(test_\w+)::(test_\w+)`", cell)
        assert named, f"item {number} names no test"
        for file, name in named:
            (path,) = (ROOT / "tests").rglob(f"{file}.py")
            source = path.read_text()
            assert re.search(rf"^def {name}\(", source, re.M), f"{file} has no {name}"
    own = re.findall(r"`(test_\w+)`", page)
    assert len(own) == 8
    assert [name for name in own if f"\ndef {name}(" not in here] == []
