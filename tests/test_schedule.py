"""When updates are made."""

import pytest

from prudent.configs import OffPolicySchedule
from prudent.training.off_policy import updates_due


def updates_by_epoch(ratio, epochs, horizon=1000, cap=5.0):
    schedule = OffPolicySchedule(updates_per_step=ratio, updates_cap=cap)
    made = []
    for epoch in range(epochs):
        this_epoch = 0
        for step in range(epoch * horizon, (epoch + 1) * horizon):
            if updates_due(schedule, step, this_epoch):
                this_epoch += ratio
        made.append(this_epoch / horizon)
    return made


@pytest.mark.parametrize(
    ("ratio", "effective"),
    [
        (10, [5, 10, 10]),
        (20, [5, 10, 15, 20, 20]),
        (40, [5, 10, 15, 20, 25, 30, 35, 40, 40]),
        (1, [1, 1]),
    ],
)
def test_the_cap_ramps_the_ratio_up(ratio, effective):
    assert updates_by_epoch(ratio, len(effective)) == pytest.approx(effective, abs=0.1)


def test_total_updates_of_a_paper_run():
    assert sum(updates_by_epoch(10, 300)) * 1000 == pytest.approx(2_995_000, abs=100)


def test_no_cap_never_skips():
    assert updates_by_epoch(20, 2, cap=None) == [20, 20]


def test_the_first_steps_by_hand():
    schedule = OffPolicySchedule(updates_per_step=10, updates_cap=5.0)
    assert updates_due(schedule, 0, 0)
    assert not updates_due(schedule, 1, 10)
    assert updates_due(schedule, 2, 10)
    assert not updates_due(schedule, -1, 0)
