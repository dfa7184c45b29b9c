"""CAL of many advertisers, in one gradient step against the numpy transcription."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from steps import ROWS, SPEC, assert_same_metrics, assert_same_state, batch_of, several_steps, stack
from test_cal import UNEQUAL, moves_targets, plain, transcribed
from transcription import cal_step

from prudent.settings.checks import fitting
from prudent_bidding.cal import BiddingCALConfig, bidding_cal

RATIO = {"constraint": "ratio", "ratio_floor": 0.3}
GROUP = {"multiplier_scope": "group", "multiplier_count": 4, "multiplier": "projected_sgd"}
ADVERTISER = {**GROUP, "multiplier_scope": "advertiser"}
UCB = {"convexity": 0.0, "dual_action": "policy"}
ACCRUED = {"constraint_at": "accumulated", "dual_action": "policy"}
CASES = {
    "one multiplier": {},
    "a ratio": RATIO,
    "a ratio at the policy's actions": {**RATIO, **UCB},
    "groups": GROUP,
    "what accrued": ACCRUED,
    "groups and what accrued": {**GROUP, **ACCRUED},
    "advertisers": {"rescale_policy_loss": True, **ADVERTISER},
    "a ratio by groups": {**RATIO, **GROUP},
}


def given(generator):
    return {
        "owner": generator.integers(0, 3, (2, ROWS)),  # of four, the last has no row
        "reward_budget": generator.uniform(0.1, 3.0, (2, ROWS)),
        "accrued": generator.normal(size=(2, ROWS)),
    }


def plain_all(state, config):
    if config.multiplier_scope == "global":
        one = jax.tree.map(lambda leaf: leaf[None], state.dual)
        return plain(state._replace(dual=one), config.cost_critics)
    multiplier = state.dual.multiplier
    nothing = state.dual._replace(multiplier=())
    found = plain(state._replace(dual=nothing), config.cost_critics)
    if config.multiplier_scope == "advertiser":
        table = jax.tree.map(np.asarray, multiplier)
        return {**found, "multiplier": table.multiplier, "violation": table.violation}
    return {**found, "multiplier": np.asarray(multiplier.parameter)}


@pytest.mark.parametrize("name", CASES)
def test_two_steps_equal_the_transcription(name, float64):
    config = BiddingCALConfig(**CASES[name])
    config = replace(config, **fitting(UNEQUAL, config))

    def extras(generator):
        wanted = bidding_cal(config, SPEC).requires
        return {n: value for n, value in given(generator).items() if n in wanted}

    steps = several_steps(bidding_cal, config, also=extras)
    expected, metrics = plain_all(steps.before, config), []
    scope = config.multiplier_scope
    for index, keys in enumerate(steps.keys(3)):
        noise = {"next": steps.noise(keys[0]), "now": steps.noise(keys[1])}
        setting = replace(
            transcribed(config, None, track=moves_targets(config, 0, index)),
            ratio_floor=config.ratio_floor if config.constraint == "ratio" else None,
            owners=0 if scope == "global" else config.multiplier_count,
            measured=scope == "advertiser",
        )
        told = {"violation": expected["violation"]} if "violation" in expected else {}
        batch = {**steps.batches[index], **{n: v[index] for n, v in steps.given.items()}}
        expected = {**cal_step(expected, batch, noise, setting), **told}
        metrics.append(expected["metrics"])
    assert_same_state(plain_all(steps.after, config), expected)
    assert_same_metrics(steps.metrics, metrics)


def test_what_a_row_must_carry_is_asked_for():
    block = stack([batch_of(np.random.default_rng(0)) for _ in range(2)])
    for options, missing in ((GROUP, "owner"), (RATIO, "reward_budget"), (ACCRUED, "accrued")):
        algorithm = bidding_cal(BiddingCALConfig(hidden=(4,), **options), SPEC)
        state = jax.eval_shape(algorithm.init, jax.random.key(0))
        with pytest.raises(ValueError, match=missing):
            jax.eval_shape(algorithm.update, state, block, jax.random.key(1))
