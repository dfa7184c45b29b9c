"""Reports read run folders only; their numbers are worked out by hand here."""

import json
import time

import numpy as np
import pytest

from prudent.report.figures import coloured, learning_figure
from prudent.report.records import by_label, curve, read_record, training_costs_by_quarter
from prudent.report.tables import final_table, share_over_budget
from prudent.training.reporter import Reporter, describe, flatten, tensorboard


def write_folder(folder, seed, algorithm="cal", task="orbit", steps=(0, 10, 20), sampled=None):
    folder.mkdir()
    run = {
        "algorithm": algorithm, "task": task, "preset": "default", "seed": seed, "budget": 5.0,
        "discounted": False,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps({"run": run}))
    progress = [
        {
            "step": step,
            "evaluation": {"return": step + seed, "cost": 4.0, "length": 7, "within_budget": 1.0},
            "window_seconds": 1800.0,
        }
        for step in steps
    ]
    if sampled is not None:
        for line in progress:
            line["sampled_evaluation"] = {**line["evaluation"], "cost": sampled}
    episodes = [{"step": -1, "phase": "warmup", "cost": 99.0}]
    episodes += [{"step": s, "phase": "training", "cost": float(s)} for s in range(8)]
    for name, entries in (("progress", progress), ("episodes", episodes)):
        text = "".join(json.dumps(entry) + "\n" for entry in entries)
        (folder / f"{name}.jsonl").write_text(text)
    return read_record(folder)


@pytest.fixture
def records(tmp_path):
    return [write_folder(tmp_path / "a", 0), write_folder(tmp_path / "b", 2, steps=(0, 10))]


def test_curves_meet_on_the_steps_all_seeds_have(records):
    found = curve(records, "return")
    np.testing.assert_array_equal(found.steps, [0, 10])
    np.testing.assert_array_equal(found.values, [[0, 10], [2, 12]])


def test_training_costs_leave_the_warmup_out(records):
    assert training_costs_by_quarter(records) == [[0, 1] * 2, [2, 3] * 2, [4, 5] * 2, [6, 7] * 2]
    assert share_over_budget(records[0]) == 2 / 8


def test_the_table_by_hand(records):
    row = final_table(by_label(records)).splitlines()[-1]
    # Seeds average 5 and 7: mean 6, half width t(0.975, 1) * sd / sqrt 2 = 12.706 * 1.
    assert "| cal (default) | 2 | 10 | 6.0 [-6.7, 18.7] | 4.0 [4.0, 4.0] | 100% | 7 |" in row
    assert row.endswith("| 25.0% | 1.25 |")


def test_sampled_evaluations_have_a_row_of_their_own(tmp_path):
    record = write_folder(tmp_path / "a", 0, sampled=8.5)
    greedy, sampled = final_table(by_label([record])).splitlines()[-2:]
    assert greedy.startswith("| cal (default) |")
    assert "| 4.0 (one seed) |" in greedy
    assert sampled.startswith("| cal (default), sampled |")
    assert "| 8.5 (one seed) |" in sampled


def test_every_group_is_drawn_however_many_there_are(tmp_path):
    names = [f"algorithm-{index}" for index in range(13)]
    groups = by_label([write_folder(tmp_path / name, 0, algorithm=name) for name in names])
    assert [label for _, label, _ in coloured(groups)] == list(groups)
    assert len(groups) == 13


def test_one_task_at_a_time(tmp_path):
    mixed = [write_folder(tmp_path / "a", 0), write_folder(tmp_path / "b", 0, task="other")]
    with pytest.raises(ValueError, match="one task at a time; these runs are of orbit, other"):
        by_label(mixed)


def test_the_figure_is_a_picture(records, tmp_path):
    learning_figure(by_label(records), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes()[:4] == b"\x89PNG"


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
