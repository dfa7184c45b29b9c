"""The incumbent against the targets that worlds were set to."""

from dataclasses import replace

import numpy as np
import pytest

from prudent_bidding import calibration
from prudent_bidding.world import PRESETS


@pytest.mark.slow
def test_the_incumbent_meets_the_targets():
    world = replace(PRESETS["small"], advertisers=1500, block_size=1500)
    runs = [calibration.measure(world, seed, "incumbent") for seed in (0, 1, 2)]
    for name, (low, high) in calibration.TARGETS.items():
        assert low <= np.mean([run[name] for run in runs]) <= high, name


def test_a_tiny_incumbent_week_is_near_the_targets():
    """Within what 300 advertisers tell: three standard errors around the targets."""
    world = replace(PRESETS["smoke"], advertisers=300, block_size=300)
    found = calibration.measure(world, 0, "incumbent")
    for name, (low, high) in calibration.TARGETS.items():
        slack = 0.09 if name in ("violated", "exhausted") else 0.05
        assert low - slack <= found[name] <= high + slack, name
    assert found["violated_expected"] < found["violated"] + 0.06
