"""The identities behind CAL, checked on numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prudent.pieces.critics import highest_of_random_members, spread, upper_confidence
from prudent.pieces.multipliers import log_ascent, projected_ascent, rectify
from prudent.settings.run import Constraint

numbers = st.floats(-10, 10)
positive = st.floats(0.1, 10)


def values(seed=0, members=4, rows=5):
    return np.random.default_rng(seed).normal(size=(members, rows))


def test_no_conservatism_is_the_mean(float64):
    np.testing.assert_allclose(upper_confidence(values(), 0.0, 1), values().mean(0), atol=1e-12)


def test_upper_confidence_by_hand(float64):
    found = upper_confidence(jnp.array([[1.0], [3.0]]), 0.5, 0)
    np.testing.assert_allclose(found, [2.0 + 0.5 * 1.0])
    found = upper_confidence(jnp.array([[1.0], [3.0]]), 0.5, 1)
    np.testing.assert_allclose(found, [2.0 + 0.5 * np.sqrt(2.0)])


@given(shift=numbers, scale=positive)
def test_upper_confidence_shifts_and_scales(shift, scale):
    with jax.enable_x64(True):
        once = upper_confidence(jnp.asarray(values()), 0.5, 1)
        np.testing.assert_allclose(
            upper_confidence(jnp.asarray(scale * values() + shift), 0.5, 1),
            scale * once + shift,
            atol=1e-9,
        )


@pytest.mark.parametrize(("members", "ratio"), [(4, 1.1547), (6, 1.0954), (8, 1.0690)])
def test_unbiased_over_biased_spread(members, ratio, float64):
    sample = jnp.asarray(values(members=members))
    np.testing.assert_allclose(spread(sample, 1) / spread(sample, 0), ratio, atol=5e-5)


@pytest.mark.parametrize("sample", [np.full((4, 3), 2.0), np.full((1, 3), 2.0)])
def test_equal_or_single_members_have_a_finite_gradient(sample):
    gradient = jax.grad(lambda v: jnp.sum(upper_confidence(v, 0.5, 1)))(jnp.asarray(sample))
    np.testing.assert_allclose(gradient, np.full(sample.shape, 1 / len(sample)), atol=1e-6)


def test_highest_of_random_members_takes_the_maximum_of_those_drawn():
    sample = jnp.asarray(values(members=3))
    key = jax.random.key(3)
    drawn = np.asarray(jax.random.randint(key, (2,), 0, 3))
    found = highest_of_random_members(sample, 2, key)
    np.testing.assert_array_equal(found, np.asarray(sample)[drawn].max(0))


def augmented(g, multiplier, c):
    """The augmented Lagrangian's penalty, in its form with a maximum."""
    return -(max(0.0, multiplier + c * g) ** 2 - multiplier**2) / (2 * c)


@given(g=numbers, multiplier=st.floats(0, 10), c=positive)
def test_best_slack_gives_the_maximum_form(g, multiplier, c):
    slack = np.append(np.linspace(0, 200, 20_001), max(0.0, -g - multiplier / c))
    objective = -c / 2 * (g + slack) ** 2 - multiplier * (g + slack)
    assert slack[objective.argmax()] == pytest.approx(max(0.0, -g - multiplier / c), abs=0.011)
    assert objective.max() == pytest.approx(augmented(g, multiplier, c), abs=1e-9)


@given(g=numbers, multiplier=st.floats(0, 10), c=positive)
def test_case_form_equals_maximum_form(g, multiplier, c):
    if multiplier + c * g > 0:
        by_cases = -multiplier * g - c / 2 * g**2
    else:
        by_cases = multiplier**2 / (2 * c)
    assert by_cases == pytest.approx(augmented(g, multiplier, c), abs=1e-9)


@given(multiplier=st.floats(0.1, 10), c=positive)
def test_penalty_and_its_slope_are_continuous_where_the_cases_meet(multiplier, c):
    edge, tiny = -multiplier / c, 1e-6
    left, right = augmented(edge - tiny, multiplier, c), augmented(edge + tiny, multiplier, c)
    assert left == pytest.approx(right, abs=1e-9)
    slope = (augmented(edge + 2 * tiny, multiplier, c) - right) / tiny
    assert slope == pytest.approx(0.0, abs=1e-4)


@given(g=numbers, multiplier=st.floats(0, 10), c=positive)
def test_rectified_weight_is_the_slope_of_the_augmented_lagrangian(g, multiplier, c):
    tiny = 1e-6
    slope = (augmented(g + tiny, multiplier, c) - augmented(g - tiny, multiplier, c)) / (2 * tiny)
    assert -slope == pytest.approx(float(rectify(multiplier, g, c)), abs=1e-3)


@given(g=numbers, multiplier=st.floats(0.01, 10), c=positive)
def test_rectification_cases(g, multiplier, c):
    with jax.enable_x64(True):
        weight = float(rectify(multiplier, g, c))
        assert float(rectify(multiplier, g, 0.0)) == multiplier
    if g > 1e-6:
        assert weight > multiplier
    if g <= 0:
        assert 0 <= weight <= multiplier
    if abs(multiplier + c * g) > 1e-9:  # closer, rounding decides
        assert (weight == 0) == (multiplier + c * g < 0)
    # The official code's form, with c(d - Q) = -cG.
    assert weight == pytest.approx(multiplier - min(-c * g, multiplier), abs=1e-9)


def saddle(slope_f, g, slope_g, c, x=0.0, multiplier=0.0, rate=0.01, steps=40_000):
    """Gradient ascent on x and projected ascent on the multiplier."""
    for _ in range(steps):
        weight = max(0.0, multiplier + c * g(x))
        x += rate * (slope_f(x) - weight * slope_g(x))
        multiplier = max(0.0, multiplier + rate * g(x))
    return x, multiplier


@pytest.mark.parametrize("c", [0.5, 2.0, 10.0])
def test_augmentation_keeps_the_optimum(c):
    x, multiplier = saddle(lambda x: -2 * (x - 2), lambda x: x - 1, lambda x: 1.0, c)
    assert x == pytest.approx(1.0, abs=1e-3)
    assert multiplier == pytest.approx(2.0, abs=1e-2)


def test_augmentation_makes_a_saddle_where_the_plain_lagrangian_has_none():
    # f = x^2 / 2 under x <= 1, started beside its constrained optimum (1, 1).
    x, multiplier = saddle(lambda x: x, lambda x: x - 1, lambda x: 1.0, 2.0, x=0.9, multiplier=0.9)
    assert (x, multiplier) == (pytest.approx(1.0, abs=1e-3), pytest.approx(1.0, abs=1e-2))
    x, _ = saddle(
        lambda x: x, lambda x: x - 1, lambda x: 1.0, 0.0, x=0.9, multiplier=0.9, steps=2_000
    )
    assert abs(x - 1) > 0.5


@pytest.mark.parametrize(("multiplier", "g"), [(1.0, 0.5), (1.0, -0.2), (0.1, -3.0)])
def test_dual_step_against_the_exact_dual_gradient(multiplier, g):
    """Exact: g where active, -λ/c where not. The step uses g always: same sign, same fixed point,
    and where inactive it is the faster decrease.
    """
    c, tiny = 2.0, 1e-6
    exact = -(augmented(g, multiplier + tiny, c) - augmented(g, multiplier - tiny, c)) / (2 * tiny)
    active = multiplier + c * g > 0
    assert exact == pytest.approx(g if active else -multiplier / c, abs=1e-4)
    assert np.sign(exact) == np.sign(g)
    if not active:
        assert g < exact


@pytest.mark.parametrize("violation", [2.0, -2.0])
def test_log_multiplier_moves_as_the_projected_one_and_never_reaches_zero(violation):
    import optax

    log = log_ascent(optax.adam(0.1), 0.6931)
    projected = projected_ascent(optax.sgd(0.1), 0.6931)
    log_state, projected_state = log.init(), projected.init()
    before = float(log.value(log_state)), float(projected.value(projected_state))
    log_state = log.update(log_state, jnp.asarray(violation))
    projected_state = projected.update(projected_state, jnp.asarray(violation))
    after = float(log.value(log_state)), float(projected.value(projected_state))
    assert np.sign(after[0] - before[0]) == np.sign(after[1] - before[1]) == np.sign(violation)
    for _ in range(200):
        log_state = log.update(log_state, jnp.asarray(-5.0))
        projected_state = projected.update(projected_state, jnp.asarray(-5.0))
    assert float(log.value(log_state)) > 0
    assert float(projected.value(projected_state)) == 0


def test_budget_conversion():
    navigation = Constraint(10.0, discounted=False)
    assert navigation.in_critic_unit(10.0, 0.99, 400) == pytest.approx(2.45512, abs=5e-6)
    assert navigation.in_critic_unit(10.0, 0.99, 1000) / 10 == pytest.approx(0.0999957, abs=5e-8)
    assert navigation.in_critic_unit(10.0, 1.0, 400) == 10.0
    even = [10 / 400] * 400
    assert Constraint(10.0, discounted=True).measure(even, 0.99) == pytest.approx(2.45512, abs=5e-6)
    assert navigation.measure(even, 0.99) == pytest.approx(10.0)
    assert Constraint(82.748, discounted=True).in_critic_unit(82.748, 0.99, 1000) == 82.748


def test_discounted_measure_by_hand():
    assert Constraint(1.0, discounted=True).measure([1.0, 2.0, 4.0], 0.5) == 1 + 1 + 1
