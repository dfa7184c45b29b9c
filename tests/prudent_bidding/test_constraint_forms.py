"""Limits on an advertiser's return: signs, numbers by hand, and multipliers by owner."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_probes import CONFIG

from prudent.pieces.dual import ASCENTS, rectify
from prudent.pieces.types import Batch, Spec
from prudent_bidding.cal import BiddingCALConfig, bidding_cal
from prudent_bidding.forms import FORMS
from prudent_bidding.multipliers import (
    TableState,
    by_group,
    measured,
    of_owner,
    table,
)


def violation(form: str, pay, gmv, roi, budget) -> float:
    """Of totals, as an update with exact critics would measure it."""
    total = np.sum(FORMS[form].step_cost(pay, gmv, roi, budget))
    return float(total / np.sum(pay) if form == "ratio" else total) - FORMS[form].bound


@pytest.mark.parametrize("form", ["deficit", "ratio"])
@pytest.mark.parametrize(("target", "met"), [(4.0, True), (6.0, False)])
def test_the_table_of_the_paper_with_the_right_signs(form, target, met):
    """Pay 10, GMV 50: a return of 5."""
    found = violation(form, 10.0, 50.0, target, 20.0)
    assert (found <= 0) is met


def test_forms_by_hand():
    assert violation("deficit", 10.0, 50.0, 4.0, 20.0) == pytest.approx((40 - 50) / 80)
    assert violation("ratio", 10.0, 50.0, 4.0, 20.0) == pytest.approx(1 - 5 / 4)
    # Half of the budget at 1.5 times the target is not enough for this one.
    assert violation("budget", 10.0, 60.0, 4.0, 20.0) == pytest.approx(1 - 60 / 80)


def first_price(k: float, roi: float = 3.0, requests: int = 400_000):
    """A week of one advertiser with calibrated predictions and no budget."""
    generator = np.random.default_rng(0)
    value = generator.lognormal(0.0, 0.5, requests)  # predicted GMV of an impression
    bid = k * value / roi
    won = bid > generator.lognormal(-1.1, 0.5, requests)
    pay = np.where(won, bid, 0.0)
    gmv = np.where(won, value * generator.gamma(4.0, 0.25, requests), 0.0)
    return pay, gmv


@pytest.mark.parametrize("form", ["deficit", "ratio"])
def test_the_sign_of_a_violation_is_that_of_bidding_too_high(form):
    found = {}
    for k in (0.5, 0.8, 1.0, 1.25, 1.5):
        pay, gmv = first_price(k)
        found[k] = violation(form, pay, gmv, 3.0, np.sum(first_price(1.0)[0]))
        assert gmv.sum() / pay.sum() / 3.0 == pytest.approx(1 / k, rel=0.01)
    assert found[0.5] < -0.05
    assert found[0.8] < -0.05
    assert found[1.0] == pytest.approx(0.0, abs=0.01)
    assert found[1.25] > 0.05
    assert found[1.5] > 0.05


def auction(generator, form, rows):
    """Bids of k = 1 + a / 2 for a value of 1 at a target of 1. Pay is 1 - (5/4 - k)^2 and the
    return 1 / k, so that k = 1, a = 0, is the highest that keeps the target, and without one it
    would be 5/4. Strictly concave, lest a policy that bids high and low in turn earns more.
    """
    action = generator.uniform(-1.0, 1.0, (*rows, 1)).astype(np.float32)
    k = 1.0 + action[..., 0] / 2
    pay = 1.0 - (1.25 - k) ** 2
    cost = FORMS[form].step_cost(pay, pay / k, 1.0, 1.0)
    nothing = np.zeros((*rows, 1), np.float32)
    extras = {"reward_budget": np.ones(rows, np.float32)}
    over = np.zeros(rows, np.float32)
    return Batch(nothing, action, pay, cost, over, over, nothing, extras=extras)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["deficit", "ratio"])
def test_cal_bids_up_to_the_target(form):
    """Nothing follows the bid, so that no entropy counts as pay in the ratio."""
    constraint = "ratio" if form == "ratio" else "sum"
    values = {**vars(CONFIG), "dual_action": "policy", "constraint": constraint}
    spec = Spec(1, 1, FORMS[form].bound, (1.0,), (0.0,))
    algorithm = bidding_cal(BiddingCALConfig(**values), spec)
    update, generator = jax.jit(algorithm.update), np.random.default_rng(0)
    state = algorithm.init(jax.random.key(0))
    for call in range(100):
        batches = auction(generator, form, (50, 32))
        state, metrics = update(state, batches, jax.random.key(call))
    bid = algorithm.act_greedily(state, jnp.zeros((1,)))
    assert float(bid[0]) == pytest.approx(0.0, abs=0.12)
    assert float(metrics["violation"]) == pytest.approx(0.0, abs=0.05)


def test_options_that_cannot_be_combined_are_refused():
    spec = Spec(1, 1, 1.0, (1.0,), (0.0,))
    for values, offender in (
        ({"dual_states": "recent", "recent_steps": 9}, "dual_states, recent_steps"),
        ({"calibration": "episodes"}, "calibration"),
        ({"constraint": "ratio", "constraint_at": "accumulated"}, "accumulated"),
    ):
        with pytest.raises(ValueError, match=offender):
            bidding_cal(BiddingCALConfig(**values), spec)


@pytest.mark.parametrize("kind", ["log_adam", "projected_sgd", "softplus_adam"])
def test_each_group_is_a_multiplier_of_its_own(kind):
    """The same numbers as one multiplier for each group, moved only when it has rows."""
    generator, groups, convexity = np.random.default_rng(0), 4, 3.0
    alone = ASCENTS[kind](0.05, CONFIG.initial_multiplier)
    together = by_group(alone, groups)
    state, states = together.init(), [alone.init() for _ in range(groups)]
    for _ in range(30):
        owner = generator.choice([0, 1, 3] if generator.random() < 0.5 else [1, 2, 3], size=9)
        rows = generator.normal(size=9).astype(np.float32)
        answer = together.answer(state, jnp.asarray(rows), jnp.asarray(owner), convexity)
        for group in set(owner.tolist()):
            mean = jnp.asarray(rows[owner == group].mean())
            weight = rectify(alone.value(states[group]), mean, convexity)
            mine = np.asarray(answer.weight)[owner == group]
            np.testing.assert_allclose(mine, weight, rtol=1e-5, atol=1e-6)
            states[group] = alone.update(states[group], mean)
        state = answer.new_state
        expected = [float(alone.value(each)) for each in states]
        np.testing.assert_allclose(together.value(state), expected, rtol=1e-5)


def test_advertisers_answer_to_measurements_alone():
    duals = table(3, initial=0.5)
    state = duals.init()
    owner, rows = jnp.array([0, 2, 2]), jnp.array([9.0, 9.0, 9.0])
    answer = duals.answer(state, rows, owner, 10.0)
    np.testing.assert_allclose(answer.weight, [0.5, 0.5, 0.5])  # nothing was measured yet
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), answer.new_state, state))
    state = measured(state, jnp.array([0.2, -3.0, jnp.nan]), rate=0.5)
    np.testing.assert_allclose(state.multiplier, [0.6, 0.0, 0.5], rtol=1e-6)
    np.testing.assert_allclose(state.violation, [0.2, -3.0, 0.0], rtol=1e-6)
    weight = duals.answer(state, rows, owner, 10.0).weight  # max(0, λ + 10 G)
    np.testing.assert_allclose(weight, [2.6, 0.5, 0.5], rtol=1e-6)
    rests = measured(state, jnp.full(3, jnp.nan), rate=0.5)
    np.testing.assert_array_equal(rests.multiplier, state.multiplier)
    assert isinstance(rests, TableState)


def test_a_row_of_nobody_stops_the_run():
    found = of_owner(jnp.array([1.0, 2.0]), jnp.array([0, 1, 2, -1]))
    np.testing.assert_array_equal(found, [1.0, 2.0, np.nan, np.nan])
