"""Options of the dual, in one gradient step against the numpy transcription."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest
from golden_dual import ALGORITHMS, FILE, computed, machine
from steps import ROWS, SPEC, assert_same_metrics, assert_same_state, batch_of, several_steps, stack
from test_cal_step import KEYS, UNEQUAL, moves_targets, plain, transcribed
from transcription import cal_step, calibrated

from prudent.algorithms.cal import CALConfig, UCBConfig, cal, ucb
from prudent.algorithms.sac_lag import SACLagConfig, sac_lag
from prudent.pieces.calibration import to_episodes
from prudent.pieces.types import Beside, Finished, Minibatches
from prudent.settings.checks import fitting

BOUNDS = (0.0, 1.0)
RECENT = {"dual_states": "recent"}
CALIBRATED = {"calibration": "episodes", "calibration_episodes": 2, "calibration_limit": 3.0}
ALL = {**RECENT, **CALIBRATED, "cost_bounds": "task"}
RATIO = {"constraint": "ratio", "ratio_floor": 0.3}
GROUP = {"multiplier_scope": "group", "multiplier_count": 4, "multiplier": "projected_sgd"}
ADVERTISER = {**GROUP, "multiplier_scope": "advertiser"}
CASES = {
    "recent": (cal, CALConfig(**RECENT)),
    "recent, of SAC-Lag": (sac_lag, SACLagConfig(**RECENT)),
    "recent, by the policy": (ucb, UCBConfig(dual_action="policy", **RECENT)),
    "calibrated": (cal, CALConfig(**CALIBRATED)),
    "calibrated, of SAC-Lag": (sac_lag, SACLagConfig(**CALIBRATED)),
    "bounded": (cal, CALConfig(cost_bounds="task", random_targets=0)),
    "all": (cal, CALConfig(**ALL)),
    "all, of SAC-Lag by the policy": (sac_lag, SACLagConfig(dual_action="policy", **ALL)),
    "a ratio": (cal, CALConfig(**RATIO)),
    "a ratio at the policy's actions": (ucb, UCBConfig(dual_action="policy", **RATIO)),
    "groups": (cal, CALConfig(**GROUP)),
    "groups and what accrued": (cal, CALConfig(dual_action="policy", **GROUP)),
    "advertisers": (cal, CALConfig(rescale_policy_loss=True, **ADVERTISER)),
    "a ratio by groups": (cal, CALConfig(**RATIO, **GROUP)),
}


def given(config, name):
    """What one call of two updates gets besides batches."""

    def draw(generator):
        found = {}
        if config.dual_states == "recent":
            found["recent"] = stack([batch_of(generator) for _ in range(2)])
        if config.calibration == "episodes":
            found["finished"] = Finished(np.int32(3), np.float64(2.75))
        beside = {
            "owner": generator.integers(0, 3, (2, ROWS)),  # of four, the last has no row
            "reward_budget": generator.uniform(0.1, 3.0, (2, ROWS)),
        }
        if "accrued" in name:
            beside["accrued"] = generator.normal(size=(2, ROWS))
        return {**found, "beside": Beside(**beside)}

    return draw


def as_batch(steps, index):
    """A batch with all that stands beside it."""
    beside = {n: v[index] for n, v in steps.given["beside"]._asdict().items() if v is not None}
    recent = steps.given.get("recent")
    if recent is not None:
        beside["recent"] = {n: v[index] for n, v in recent._asdict().items()}
    return {**steps.batches[index], **beside}


def plain_all(state, members, config):
    if getattr(config, "multiplier_scope", "global") == "global":
        return plain(state, members)
    found = plain(state._replace(multiplier=()), members)
    if config.multiplier_scope == "advertiser":
        table = jax.tree.map(np.asarray, state.multiplier)
        return {**found, "multiplier": table.multiplier, "violation": table.violation}
    return {**found, "multiplier": np.asarray(state.multiplier.parameter)}


def shift_of(state):
    return {name: float(value) for name, value in state.calibration._asdict().items()}


def with_options(config, setting):
    scope = getattr(config, "multiplier_scope", "global")
    return replace(
        setting,
        moved=config.calibration == "episodes",
        bounds=BOUNDS if config.cost_bounds == "task" else None,
        ratio_floor=config.ratio_floor if getattr(config, "constraint", "") == "ratio" else None,
        owners=0 if scope == "global" else config.multiplier_count,
        measured=scope == "advertiser",
    )


@pytest.mark.parametrize("name", CASES)
def test_two_steps_equal_the_transcription(name, float64):
    factory, config = CASES[name]
    config = replace(config, **fitting(UNEQUAL, config))
    members = getattr(config, "cost_critics", 1)
    spec = SPEC._replace(least_cost_ahead=BOUNDS[0], largest_cost_ahead=BOUNDS[1])
    steps = several_steps(factory, config, spec=spec, also=given(config, name))
    expected, metrics = plain_all(steps.before, members, config), []
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
        told = {"violation": expected["violation"]} if "violation" in expected else {}
        expected = {**cal_step(expected, as_batch(steps, index), noise, setting), **told}
        metrics.append(expected["metrics"])
        if shift:
            shift["estimates"] += expected["metrics"]["cost_estimate"]
            shift["updates"] += 1
    assert_same_state(plain_all(steps.after, members, config), expected)
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


def test_an_update_asks_for_what_it_needs():
    data = Minibatches(stack([batch_of(np.random.default_rng(0)) for _ in range(2)]))
    for config, missing in (
        (CALConfig(**RECENT), "rows of recent steps are missing"),
        (CALConfig(**CALIBRATED), "the cost of finished episodes is missing"),
        (CALConfig(**GROUP), r"beside.owner is missing; one for each of \(2, 7\) rows"),
        (CALConfig(**RATIO), r"beside.reward_budget is missing"),
    ):
        algorithm = cal(replace(config, hidden=(4,)), SPEC)
        state = jax.eval_shape(algorithm.init, jax.random.key(0))
        with pytest.raises(ValueError, match=missing):
            jax.eval_shape(algorithm.update, state, data, jax.random.key(1))


def test_nothing_accrues_to_a_ratio():
    data = Minibatches(stack([batch_of(np.random.default_rng(0)) for _ in range(2)]))
    ones = np.ones((2, ROWS))
    data = data._replace(beside=Beside(reward_budget=ones, accrued=ones))
    algorithm = cal(CALConfig(hidden=(4,), **RATIO), SPEC)
    state = jax.eval_shape(algorithm.init, jax.random.key(0))
    with pytest.raises(ValueError, match="constraint='ratio' takes none"):
        jax.eval_shape(algorithm.update, state, data, jax.random.key(1))


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({**RECENT, **GROUP}, "with multiplier_scope='group' choose dual_states='replay'"),
        ({**RECENT, **RATIO}, "with constraint='ratio' choose dual_states='replay'"),
        ({**CALIBRATED, **RATIO}, "limits a quotient; choose calibration='none'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(values, complaint):
    with pytest.raises(ValueError, match=complaint):
        cal(CALConfig(**values), SPEC)


def follow(rule, state, costs, estimate):
    """Episodes of these costs, one at a time, with an update of this estimate before each."""
    shifts = []
    for cost in costs:
        state = rule.estimated(state, np.float32(estimate))
        state = rule.finished(state, Finished(np.int32(1), np.float32(cost)))
        shifts.append(float(state.shift))
    return state, shifts


def test_calibration_waits_then_averages_the_measured_gap():
    rule = to_episodes(budget=8.0, window=4, limit=10.0)
    state, shifts = follow(rule, rule.init(), [5.0] * 4, estimate=1.0)
    assert shifts == [0.0] * 4  # the first window is not counted
    assert float(rule.budget(state)) == 8.0
    state, shifts = follow(rule, state, [5.0] * 2, estimate=1.0)
    assert shifts == pytest.approx([1.0, 1.0 + 3.0 / 4])  # gap 4, a quarter of the way at a time
    state, shifts = follow(rule, state, [5.0] * 60, estimate=1.0)
    assert float(rule.budget(state)) == pytest.approx(8.0 - 4.0, abs=1e-4)


def test_calibration_is_bounded_and_comes_back_at_once():
    rule = to_episodes(budget=2.0, window=4, limit=1.5)
    state, _ = follow(rule, rule.init(), [0.0] * 40, estimate=1000.0)
    assert float(rule.budget(state)) == pytest.approx(2.0 + 3.0)
    _, shifts = follow(rule, state, [1.0] * 5, estimate=1.0)  # no gap any more
    assert shifts == pytest.approx([-3.0 * 0.75**n for n in range(1, 6)])


def test_however_many_end_at_once_the_first_are_not_counted():
    rule = to_episodes(budget=8.0, window=4, limit=10.0)
    state = rule.finished(rule.estimated(rule.init(), np.float32(1.0)), Finished(25, 5.0))
    assert (float(state.shift), int(state.episodes)) == (0.0, 25)
    state = rule.finished(rule.estimated(state, np.float32(1.0)), Finished(25, 5.0))
    assert float(state.shift) == 4.0  # all of the gap at once: more than a window of them


@pytest.mark.parametrize("budget", [2.0, -2.0])
def test_calibration_lowers_a_budget_by_nine_tenths_at_most(budget):
    """No estimate of costs that are not negative can meet a budget below 0."""
    rule = to_episodes(budget=budget, window=4, limit=1.5)
    state, _ = follow(rule, rule.init(), [1000.0] * 40, estimate=1.0)
    assert float(rule.budget(state)) == pytest.approx(budget - 1.8)
    _, shifts = follow(rule, state, [1.0] * 2, estimate=1.0)
    assert shifts == pytest.approx([1.8 * 0.75, 1.8 * 0.75**2])


def test_calibration_does_not_wind_up_under_a_broken_budget():
    """Where critics are right, the budget rests however long it is broken."""
    rule = to_episodes(budget=2.0, window=4, limit=10.0)
    state, _ = follow(rule, rule.init(), [9.0] * 100, estimate=9.0)
    assert float(rule.budget(state)) == pytest.approx(2.0, abs=1e-4)


def test_calibration_compares_nothing_before_an_update():
    rule = to_episodes(budget=2.0, window=1, limit=10.0)
    state = rule.finished(rule.init(), Finished(np.int32(5), np.float32(9.0)))
    assert float(state.shift) == 0.0
    assert int(state.episodes) == 0
    state = rule.estimated(state, np.float32(1.0))
    same = rule.finished(state, Finished(np.int32(0), np.float32(0.0)))
    assert int(same.updates) == 1
