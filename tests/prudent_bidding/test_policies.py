"""Rules and exported policies, as the simulator asks them."""

from dataclasses import replace

import numpy as np
import pytest
from test_kernel import SMOKE, day_of

from prudent_bidding.policies import make_policy
from prudent_bidding.schema import (
    View,
)


def test_informed_bids_know_the_bias():
    week, done = day_of(replace(SMOKE, segment_bias_sd=0.0), "informed:1.0")
    owner = np.searchsorted(done.ledger["adv"], done.rows["adv"])
    expected = np.clip(np.exp(week.advertisers.bias[owner]), 0.5, 1.5)
    assert np.allclose(done.rows["k"].astype(float), expected, atol=1e-3)


def test_dual_descent_answers_to_the_deficit():
    deficits = np.array([-100.0, 0.0, 100.0], np.float32)
    k = make_policy("dual:1.0").act(View(3, week_deficit=deficits), None)
    assert k[1] == 1.0
    assert k[2] == pytest.approx(0.5)
    assert k[0] > 1.5  # the simulator brings it down


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ("constant:2", "must be a number from 0.5 to 1.5"),
        ("constant:x", "'x' must be a number"),
        ("constant:nan", "'nan' must be a number"),
        ("nowhere.safetensors", "no policy 'nowhere.safetensors'; there is: incumbent"),
        ("", "no policy ''"),
    ],
)
def test_policies_that_are_none_are_refused(description, message):
    with pytest.raises(ValueError, match=message):
        make_policy(description)
