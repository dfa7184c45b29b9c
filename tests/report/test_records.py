"""Run folders as records, and their curves."""

import numpy as np
from made import write_folder

from prudent.report.groups import by_label
from prudent.report.records import (
    GREEDY,
    SAMPLED,
    curve,
    kinds,
    training_costs_by_quarter,
)
from prudent.report.tables import final_table, share_over_budget


def test_curves_meet_on_the_steps_all_seeds_have(records):
    found = curve(records, "return")
    np.testing.assert_array_equal(found.steps, [0, 10])
    np.testing.assert_array_equal(found.values, [[0, 10], [2, 12]])


def test_training_costs_leave_the_warmup_out(records):
    assert training_costs_by_quarter(records) == [[0, 1] * 2, [2, 3] * 2, [4, 5] * 2, [6, 7] * 2]
    assert share_over_budget(records[0]) == 2 / 8


def test_a_kind_of_evaluation_counts_only_where_every_line_has_it(tmp_path):
    with_samples = write_folder(tmp_path / "a", 0, sampled=8.5)
    without = write_folder(tmp_path / "b", 1)
    assert kinds([with_samples]) == [GREEDY, SAMPLED]
    assert kinds([with_samples, without]) == [GREEDY]
    assert final_table(by_label([with_samples, without])).count("cal (default)") == 1
