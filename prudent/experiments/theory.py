"""The paper's theory as formulas that can be computed, on problems small enough to solve by hand.

    problem                 maximise f(x) under g(x) ≤ 0
    augmented Lagrangian    L = f - (max{0, λ + c g}² - λ²) / 2c
    learning as a flow      ẋ = ∇f - max{0, λ + c g} ∇g,   λ̇ = g + u,   u = max{0, -g - λ/c}
    energy                  E = ½‖ẋ‖² + ½λ̇²,   dE/dt = -ẋᵀAẋ where λ + c g > 0
    damping matrix          A = -∇²f + (λ + c g) ∇²g + c ∇g ∇gᵀ

λ is `multiplier`, c `convexity`, g `violation`, u `slack`. `Form` has the energy and the sign of λ̇
as they must be and as they are printed; docs/theory.md says what is wrong with the latter.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

Array = np.ndarray


def expected_minimum(actions: int, noise: float = 1.0) -> float:
    """Of `actions` independent normal errors of standard deviation `noise`; below 0 from two on.

    E[min] = -E[max] = -∫ x N φ(x) Φ(x)^(N-1) dx.
    """
    x = np.linspace(-12.0, 12.0, 24_001)  # the integrand vanishes at both ends
    density = actions * norm.pdf(x) * norm.cdf(x) ** (actions - 1)
    return float(-noise * np.sum(x * density) * (x[1] - x[0]))


def simulated_minimum(
    actions: int, noise: float, draws: int, generator: np.random.Generator
) -> Array:
    """The lowest of `actions` estimates of the cost 0, once per draw."""
    return noise * generator.normal(size=(draws, actions)).min(axis=1)


class Learning(NamedTuple):
    """Temporal differences on one state that returns to itself, with equal actions that cost 0.

    At every step each action's value moves by `rate` towards error + `discount` times the lowest
    of the values, the error being normal with standard deviation `noise`. All values start at 0,
    which is right.
    """

    actions: int
    noise: float = 1.0
    discount: float = 0.9
    rate: float = 0.1


def expected_bias(learning: Learning, steps: int) -> Array:
    """Mean of the lowest value after 0, 1, ..., `steps` updates, exactly.

    The values are Z_a + C. Z_a' = (1 - rate) Z_a + rate * error is independent between actions, so
    that its minimum is known; C' = (1 - rate) C + rate * discount * (C + min Z) is common to all.
    """
    keep, lowest_of_unit = 1.0 - learning.rate, expected_minimum(learning.actions)
    variance, common, biases = 0.0, 0.0, [0.0]
    for _ in range(steps):
        lowest = lowest_of_unit * np.sqrt(variance)
        common = keep * common + learning.rate * learning.discount * (common + lowest)
        variance = keep**2 * variance + (learning.rate * learning.noise) ** 2
        biases.append(common + lowest_of_unit * np.sqrt(variance))
    return np.array(biases)


def bias_in_the_end(learning: Learning) -> float:
    """What `expected_bias` tends to: one step's minimum, 1 / (1 - discount) times."""
    one_step = learning.noise * np.sqrt(learning.rate / (2.0 - learning.rate))
    return expected_minimum(learning.actions, one_step) / (1.0 - learning.discount)


def simulated_bias(
    learning: Learning, steps: int, learners: int, generator: np.random.Generator
) -> Array:
    """The lowest value of each learner after each step: [steps + 1, learners]."""
    values = np.zeros((learners, learning.actions))
    lowest = [values.min(axis=1)]
    for _ in range(steps):
        error = learning.noise * generator.normal(size=values.shape)
        target = error + learning.discount * lowest[-1][:, None]
        values = values + learning.rate * (target - values)
        lowest.append(values.min(axis=1))
    return np.array(lowest)


def cost_weight(violation: Array | float, multiplier: float, convexity: float) -> Array:
    """λ~ = max{0, λ + c g}: minus the slope of the penalty; λ itself if c = 0."""
    return np.maximum(multiplier + convexity * np.asarray(violation), 0.0)


def penalty(violation: Array | float, multiplier: float, convexity: float) -> Array:
    """What the augmented Lagrangian adds to the objective, -(max{0, λ + c g}² - λ²) / 2c."""
    violation = np.asarray(violation)
    if convexity == 0.0:
        return -multiplier * violation
    weight = cost_weight(violation, multiplier, convexity)
    return -(weight**2 - multiplier**2) / (2.0 * convexity)


def best_slack(violation: Array | float, multiplier: float, convexity: float) -> Array:
    """The u ≥ 0 that maximises -λ (g + u) - c/2 (g + u)²."""
    return np.maximum(0.0, -np.asarray(violation) - multiplier / convexity)


class Smooth(NamedTuple):
    value: Callable[[Array], float]
    gradient: Callable[[Array], Array]
    hessian: Callable[[Array], Array]


def polynomial(
    matrix: Sequence[Sequence[float]] | Array,
    linear: Sequence[float] | Array,
    constant: float = 0.0,
    cubic: Sequence[float] | Array | float = 0.0,
) -> Smooth:
    """½ xᵀMx + bᵀx + constant + Σ k_i x_i³ / 6, with M symmetric."""
    curvature, slope = np.asarray(matrix, float), np.asarray(linear, float)
    third = np.broadcast_to(np.asarray(cubic, float), slope.shape)
    return Smooth(
        lambda x: float(x @ curvature @ x / 2 + slope @ x + constant + third @ x**3 / 6),
        lambda x: curvature @ x + slope + third * x**2 / 2,
        lambda x: curvature + np.diag(third * x),
    )


class Problem(NamedTuple):
    objective: Smooth
    constraint: Smooth


class Point(NamedTuple):
    x: Array
    multiplier: float


# Curved upwards across the constraint: the optimum (1, 0), multiplier 1, is a saddle of the plain
# Lagrangian, and A = diag(c - 1, ½).
EXAMPLE = Problem(
    objective=polynomial([[1.0, 0.0], [0.0, -0.5]], [0.0, 0.0]),
    constraint=polynomial(np.zeros((2, 2)), [1.0, 0.0], -1.0),
)
OPTIMUM = Point(np.array([1.0, 0.0]), 1.0)
BESIDE_THE_OPTIMUM = Point(np.array([1.05, 0.2]), 1.05)


class Form(NamedTuple):
    """E = kinetic * ‖ẋ‖² + ½λ̇², and λ̇ = direction * (g + u)."""

    kinetic: float = 0.5
    direction: float = 1.0


REPAIRED = Form()
ENERGY_AS_PRINTED = Form(kinetic=1.0)
MULTIPLIER_AS_PRINTED = Form(direction=-1.0)
PRINTED = Form(kinetic=1.0, direction=-1.0)


def velocity(problem: Problem, at: Point, convexity: float, form: Form = REPAIRED) -> Point:
    """ẋ and λ̇."""
    violation = problem.constraint.value(at.x)
    weight = float(cost_weight(violation, at.multiplier, convexity))
    slack = float(best_slack(violation, at.multiplier, convexity))
    return Point(
        problem.objective.gradient(at.x) - weight * problem.constraint.gradient(at.x),
        form.direction * (violation + slack),
    )


def energy(problem: Problem, at: Point, convexity: float, form: Form = REPAIRED) -> float:
    speed = velocity(problem, at, convexity, form)
    return float(form.kinetic * speed.x @ speed.x + speed.multiplier**2 / 2)


def damping_matrix(problem: Problem, at: Point, convexity: float) -> Array:
    """A, where the constraint is active (λ + c g > 0) and the slack is therefore 0."""
    weight = at.multiplier + convexity * problem.constraint.value(at.x)
    slope = problem.constraint.gradient(at.x)
    curvature = weight * problem.constraint.hessian(at.x) - problem.objective.hessian(at.x)
    return curvature + convexity * np.outer(slope, slope)


def moved(at: Point, speed: Point, time: float) -> Point:
    return Point(at.x + time * speed.x, at.multiplier + time * speed.multiplier)


def flow(
    problem: Problem, at: Point, convexity: float, time: float, form: Form = REPAIRED
) -> Point:
    """Where the point is after a short `time`: one step of the classical Runge-Kutta method."""
    first = velocity(problem, at, convexity, form)
    second = velocity(problem, moved(at, first, time / 2), convexity, form)
    third = velocity(problem, moved(at, second, time / 2), convexity, form)
    fourth = velocity(problem, moved(at, third, time), convexity, form)
    for speed, share in ((first, 1 / 6), (second, 1 / 3), (third, 1 / 3), (fourth, 1 / 6)):
        at = moved(at, speed, share * time)
    return at


class Course(NamedTuple):
    times: Array  # [T]
    points: list[Point]
    energies: Array  # [T]


def course(
    convexity: float,
    form: Form = REPAIRED,
    problem: Problem = EXAMPLE,
    start: Point = BESIDE_THE_OPTIMUM,
    end: float = 20.0,
    step: float = 0.01,
) -> Course:
    """The flow from `start` until the time `end`, and its energy on the way."""
    times, points = np.arange(0.0, end + step / 2, step), [start]
    for _ in times[1:]:
        points.append(flow(problem, points[-1], convexity, step, form))
    energies = [energy(problem, point, convexity, form) for point in points]
    return Course(times, points, np.array(energies))


def critical_convexity(
    curvature: Array, slope: Array, largest: float = 1e9, tolerance: float = 1e-9
) -> float:
    """The c* ≥ 0 from which on P - c QᵀQ is negative definite, by bisection on its top eigenvalue.

    P is `curvature`, symmetric, and Q `slope`, one row per constraint. Infinite if none up to
    `largest` suffices, as when P is not negative on the kernel of Q.
    """

    def top(convexity: float) -> float:
        return float(np.linalg.eigvalsh(curvature - convexity * slope.T @ slope)[-1])

    if top(largest) >= 0.0:
        return float("inf")
    if top(0.0) < 0.0:
        return 0.0
    low, high = 0.0, largest
    while high - low > tolerance * max(1.0, low):
        middle = (low + high) / 2
        low, high = (low, middle) if top(middle) < 0.0 else (middle, high)
    return high
