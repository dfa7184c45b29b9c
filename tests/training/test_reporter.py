"""A run's lines on the terminal, and its numbers for TensorBoard."""

import time

import pytest

from prudent.training.reporter import Reporter, describe, flatten, tensorboard

LINE = {
    "step": 5, "evaluation": {"return": 1.5, "cost": 2.0, "within_budget": 0.5, "returns": [1.0]},
    "training": {"multiplier": 0.25}, "updates_per_second": 10.0, "probably_infeasible": True,
}  # fmt: skip


def test_a_line_in_words(capsys):
    words = "step 5  return 1.5  cost 2  within budget 50%  multiplier 0.25  10 updates/s"
    assert describe(LINE) == words
    reporter = Reporter()
    reporter.evaluated(LINE)
    reporter.evaluated(LINE)
    said = capsys.readouterr().out
    assert said.count("probably infeasible") == 1


def test_scalars_by_name():
    found = flatten(LINE)
    assert found["evaluation/return"] == 1.5
    assert found["training/multiplier"] == 0.25
    assert "evaluation/returns" not in found


def test_tensorboard_events_are_written(tmp_path):
    pytest.importorskip("tensorboardX")
    sink = tensorboard(tmp_path)
    sink(LINE)
    (file,) = (tmp_path / "tensorboard").glob("events.*")
    patience = 200  # another thread writes
    while b"evaluation/return" not in file.read_bytes() and patience:
        time.sleep(0.1)
        sink(LINE)
        patience -= 1
    assert b"evaluation/return" in file.read_bytes()


def test_a_budget_that_cannot_be_kept_is_said_once(capsys):
    heard = []
    reporter = Reporter(sinks=[heard.append])
    evaluation = {"return": 1.0, "cost": 2.0, "within_budget": 0.0}
    line = {"step": 5, "evaluation": evaluation, "training": {}, "probably_infeasible": True}
    reporter.evaluated(line)
    reporter.evaluated(line)
    assert capsys.readouterr().out.count("probably infeasible") == 1
    assert heard == [line, line]
