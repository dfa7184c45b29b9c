"""Multipliers on hand-computed sequences; options of the dual, in one gradient step against the
numpy transcription.
"""

import json
from dataclasses import replace
from typing import get_args, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from golden_dual import ALGORITHMS, FILE, computed, machine
from steps import SPEC, assert_same_metrics, assert_same_state, batch_of, several_steps, stack
from test_cal import KEYS, UNEQUAL, moves_targets, plain, transcribed
from transcription import cal_step, calibrated

from prudent.algorithms.cal import CALConfig, UCBConfig, cal, ucb
from prudent.algorithms.sac_lag import SACLagConfig, sac_lag
from prudent.pieces.dual import (
    ASCENTS,
    DualConfig,
    fixed,
    log_ascent,
    make_dual,
    pid,
    projected_ascent,
    rectify,
    softplus_ascent,
)
from prudent.settings.checks import fitting

BOUNDS = (0.0, 1.0)
RECENT = {"dual_states": "recent"}
CALIBRATED = {"calibration": "episodes", "calibration_episodes": 2, "calibration_limit": 3.0}
ALL = {**RECENT, **CALIBRATED, "cost_bounds": "task"}
CASES = {
    "recent": (cal, CALConfig(**RECENT)),
    "recent, of SAC-Lag": (sac_lag, SACLagConfig(**RECENT)),
    "recent, by the policy": (ucb, UCBConfig(dual_action="policy", **RECENT)),
    "calibrated": (cal, CALConfig(**CALIBRATED)),
    "calibrated, of SAC-Lag": (sac_lag, SACLagConfig(**CALIBRATED)),
    "bounded": (cal, CALConfig(cost_bounds="task", random_targets=0)),
    "all": (cal, CALConfig(**ALL)),
    "all, of SAC-Lag by the policy": (sac_lag, SACLagConfig(dual_action="policy", **ALL)),
}


def given(config):
    """The extras of one call of two updates."""

    def draw(generator):
        extras = {}
        if config.dual_states == "recent":
            extras["recent"] = stack([batch_of(generator) for _ in range(2)])
        if config.calibration == "episodes":
            extras["episodes"] = np.array([3, 0], np.int32)
            extras["episode_cost"] = np.array([[2.75], [0.0]])
        return extras

    return draw


def as_batch(steps, index):
    """A batch with its recent steps."""
    recent = steps.given.get("recent")
    if recent is None:
        return steps.batches[index]
    return {**steps.batches[index], "recent": {n: v[index] for n, v in arrays_of(recent)}}


def arrays_of(batch):
    return [(name, value) for name, value in batch._asdict().items() if value is not None][:7]


def shift_of(state):
    calibration = state.dual.calibration._asdict()
    return {name: float(np.squeeze(value)) for name, value in calibration.items()}


def with_options(config, setting):
    return replace(
        setting,
        moved=config.calibration == "episodes",
        bounds=BOUNDS if config.cost_bounds == "task" else None,
    )


@pytest.mark.parametrize("name", CASES)
def test_two_steps_equal_the_transcription(name, float64):
    factory, config = CASES[name]
    config = replace(config, **fitting(UNEQUAL, config))
    members = getattr(config, "cost_critics", 1)
    spec = SPEC._replace(least_cost_ahead=BOUNDS[0], largest_cost_ahead=BOUNDS[1])
    steps = several_steps(factory, config, spec=spec, also=given(config))
    expected, metrics = plain(steps.before, members), []
    budget, shift = SPEC.cost_budget, None
    if config.calibration == "episodes":
        shift = calibrated(shift_of(steps.before), (3, 2.75), budget, 2, 3.0)
        assert shift["shift"] != 0
        budget -= shift["shift"]
    extra = config.dual_states == "recent"
    for index, keys in enumerate(steps.keys(KEYS.get(factory, 3) + extra)):
        noise = {"next": steps.noise(keys[0]), "now": steps.noise(keys[1])}
        if extra:
            noise["dual"] = steps.noise(keys[-1])
        setting = transcribed(config, None, track=moves_targets(config, 0, index))
        setting = replace(with_options(config, setting), budget=budget)
        expected = cal_step(expected, as_batch(steps, index), noise, setting)
        metrics.append(expected["metrics"])
        if shift:
            shift["estimates"] += expected["metrics"]["cost_estimate"]
            shift["updates"] += 1
    assert_same_state(plain(steps.after, members), expected)
    assert_same_metrics(steps.metrics, metrics)
    if shift:
        assert shift_of(steps.after) == pytest.approx(shift, rel=1e-6)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_without_options_runs_are_those_from_before_them(algorithm):
    """Their identity too, which is their folder's name."""
    recorded = json.loads(FILE.read_text())
    then, now = recorded["runs"][algorithm], computed(algorithm)
    assert now["identity"] == then["identity"]
    assert now["sums"] == pytest.approx(then["sums"], rel=1e-4)
    if recorded["machine"] == machine():
        assert now["bits"] == then["bits"]


def test_an_update_asks_for_what_it_requires():
    block = stack([batch_of(np.random.default_rng(0)) for _ in range(2)])
    for config, missing in (
        (CALConfig(**RECENT), "recent"),
        (CALConfig(**CALIBRATED), "episode_cost, episodes"),
    ):
        algorithm = cal(replace(config, hidden=(4,)), SPEC)
        state = jax.eval_shape(algorithm.init, jax.random.key(0))
        with pytest.raises(ValueError, match=missing):
            jax.eval_shape(algorithm.update, state, block, jax.random.key(1))


class Calibrating:
    """The dual of a multiplier that rests, told of episodes and estimates one at a time."""

    def __init__(self, budget, window, limit):
        config = DualConfig(
            multiplier="fixed",
            calibration="episodes",
            calibration_episodes=window,
            calibration_limit=limit,
        )
        self.dual = make_dual(config, SPEC._replace(cost_budget=budget), None)
        self.state = self.dual.init()

    def estimated(self, estimate):
        self.state = self.dual.ascend(self.state, np.array([estimate], np.float32))

    def finished(self, episodes, cost):
        extras = {"episodes": np.int32(episodes), "episode_cost": np.array([cost], np.float32)}
        batch = batch_of(np.random.default_rng(0))._replace(extras=extras)
        self.state = self.dual.hear(self.state, batch)

    def follow(self, costs, estimate):
        """Episodes of these costs, with an update of this estimate before each."""
        shifts = []
        for cost in costs:
            self.estimated(estimate)
            self.finished(1, cost)
            shifts.append(self.shift)
        return shifts

    @property
    def shift(self):
        return float(self.state.calibration.shift[0])

    @property
    def budget(self):
        return float(self.dual.budget(self.state)[0])


def test_calibration_waits_then_averages_the_measured_gap():
    rule = Calibrating(budget=8.0, window=4, limit=10.0)
    assert rule.follow([5.0] * 4, estimate=1.0) == [0.0] * 4  # the first window is not counted
    assert rule.budget == 8.0
    shifts = rule.follow([5.0] * 2, estimate=1.0)
    assert shifts == pytest.approx([1.0, 1.0 + 3.0 / 4])  # gap 4, a quarter of the way at a time
    rule.follow([5.0] * 60, estimate=1.0)
    assert rule.budget == pytest.approx(8.0 - 4.0, abs=1e-4)


def test_calibration_is_bounded_and_comes_back_at_once():
    rule = Calibrating(budget=2.0, window=4, limit=1.5)
    rule.follow([0.0] * 40, estimate=1000.0)
    assert rule.budget == pytest.approx(2.0 + 3.0)
    shifts = rule.follow([1.0] * 5, estimate=1.0)  # no gap any more
    assert shifts == pytest.approx([-3.0 * 0.75**n for n in range(1, 6)])


def test_however_many_end_at_once_the_first_are_not_counted():
    rule = Calibrating(budget=8.0, window=4, limit=10.0)
    rule.estimated(1.0)
    rule.finished(25, 5.0)
    assert (rule.shift, int(rule.state.calibration.episodes)) == (0.0, 25)
    rule.estimated(1.0)
    rule.finished(25, 5.0)
    assert rule.shift == 4.0  # all of the gap at once: more than a window of them


@pytest.mark.parametrize("budget", [2.0, -2.0])
def test_calibration_lowers_a_budget_by_nine_tenths_at_most(budget):
    """No estimate of costs that are not negative can meet a budget below 0."""
    rule = Calibrating(budget=budget, window=4, limit=1.5)
    rule.follow([1000.0] * 40, estimate=1.0)
    assert rule.budget == pytest.approx(budget - 1.8)
    shifts = rule.follow([1.0] * 2, estimate=1.0)
    assert shifts == pytest.approx([1.8 * 0.75, 1.8 * 0.75**2])


def test_calibration_does_not_wind_up_under_a_broken_budget():
    """Where critics are right, the budget rests however long it is broken."""
    rule = Calibrating(budget=2.0, window=4, limit=10.0)
    rule.follow([9.0] * 100, estimate=9.0)
    assert rule.budget == pytest.approx(2.0, abs=1e-4)


def test_calibration_compares_nothing_before_an_update():
    rule = Calibrating(budget=2.0, window=1, limit=10.0)
    rule.finished(5, 9.0)
    assert rule.shift == 0.0
    assert int(rule.state.calibration.episodes) == 0
    rule.estimated(1.0)
    rule.finished(0, 0.0)
    assert int(rule.state.calibration.updates) == 1


@pytest.mark.parametrize("kind", ["log_adam", "projected_sgd", "softplus_adam"])
def test_each_limit_has_a_multiplier_of_its_own(kind):
    """Two limits at once are what each would be alone."""
    config = DualConfig(multiplier=kind, multiplier_learning_rate=0.05, rescale_policy_loss=True)
    both = make_dual(config, SPEC._replace(cost_budget=(1.0, -2.0)), None)
    alone = [make_dual(config, SPEC._replace(cost_budget=d), None) for d in (1.0, -2.0)]
    state, states = both.init(), [one.init() for one in alone]
    for estimate in ((3.0, 0.5), (0.0, -4.0), (1.5, 1.5)):
        before, state = state, both.ascend(state, np.array(estimate, np.float32))
        states = [
            one.ascend(old, np.array([e], np.float32))
            for one, old, e in zip(alone, states, estimate, strict=True)
        ]
        expected = [one.multiplier(s)[0] for one, s in zip(alone, states, strict=True)]
        np.testing.assert_allclose(both.multiplier(state), expected, rtol=1e-6)
    assert both.divisor(both.multiplier(state)) == pytest.approx(1 + float(np.sum(expected)))
    found = both.metrics(before, state, np.array(estimate, np.float32))
    assert float(found["violation_1"]) == 1.5 + 2.0
    assert float(found["cost_estimate_0"]) == 1.5


def values_after(multiplier, violations):
    state, found = multiplier.init(), []
    for violation in violations:
        state = multiplier.update(state, jnp.asarray(violation))
        found.append(float(multiplier.value(state)))
    return found


def test_projected_ascent(float64):
    found = values_after(projected_ascent(0.1, 1.0, optax.sgd), [2.0, -30.0, 5.0])
    np.testing.assert_allclose(found, [1.2, 0.0, 0.5])


def test_projected_ascent_keeps_its_upper_bound(float64):
    assert values_after(projected_ascent(0.1, 1.0, optax.sgd, upper=1.1), [2.0]) == [1.1]


def test_log_ascent(float64):
    # Plain gradient on log λ: log λ += rate * λ * violation.
    found = values_after(log_ascent(0.1, 2.0, optax.sgd), [1.0, -1.0])
    first = 2.0 * np.exp(0.1 * 2.0)
    np.testing.assert_allclose(found, [first, first * np.exp(-0.1 * first)])


def test_log_ascent_under_adam_moves_by_its_rate_whatever_the_violation(float64):
    for violation in (0.01, 100.0):
        found = values_after(log_ascent(3e-4, 0.6931), [violation])
        np.testing.assert_allclose(found, [0.6931 * np.exp(3e-4)], rtol=1e-6)


def test_log_ascent_stays_finite_under_a_budget_that_cannot_be_kept():
    found = values_after(log_ascent(1.0, 0.6931), [1e3] * 60)
    assert found[-1] == pytest.approx(1e12, rel=1e-4)
    assert np.isfinite(found).all()


def test_softplus_ascent(float64):
    # At softplus(0) = log 2 the slope is 1/2.
    found = values_after(softplus_ascent(0.1, np.log(2.0), optax.sgd), [4.0])
    np.testing.assert_allclose(found, [np.log1p(np.exp(0.1 * 0.5 * 4.0))])


def test_pid_by_hand(float64):
    # violation      2     3    -1    -9     1
    # integral       2     5     4     0     1
    # rise           2     1     0     0    10
    found = values_after(pid(0.1, 0.01, 0.001), [2.0, 3.0, -1.0, -9.0, 1.0])
    expected = [0.2 + 0.02 + 0.002, 0.3 + 0.05 + 0.001, 0.04, 0.0, 0.1 + 0.01 + 0.01]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_fixed():
    assert values_after(fixed(3.0), [5.0, -5.0]) == [3.0, 3.0]


@pytest.mark.parametrize(
    ("multiplier", "violation", "convexity", "weight"),
    [(1.0, 0.5, 10.0, 6.0), (1.0, -0.05, 10.0, 0.5), (1.0, -0.5, 10.0, 0.0), (1.0, -9.0, 0.0, 1.0)],
)
def test_rectify(multiplier, violation, convexity, weight):
    assert float(rectify(multiplier, violation, convexity)) == pytest.approx(weight)


@pytest.mark.parametrize("name", get_args(get_type_hints(DualConfig)["multiplier"]))
def test_every_rule_of_the_settings_begins_where_it_should(name):
    rule = ASCENTS[name](0.1, 0.5)
    state = rule.init()
    assert float(rule.value(state)) == pytest.approx(0.5)
    raised = float(rule.value(rule.update(state, jnp.asarray(2.0))))
    assert raised == 0.5 if name == "fixed" else raised > 0.5
