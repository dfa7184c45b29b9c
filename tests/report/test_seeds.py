"""What single runs did, on made-up records with numbers worked out by hand."""

import json

import numpy as np
import pytest
from command_lines import prudent_command
from test_claims import BUDGET, CRITICS_BUDGET, STEPS, write

from prudent.report.folders import collect
from prudent.report.seeds import number, seed_tables

HALF = STEPS < 2000  # 20 of 41 evaluations


def rows_of(text, heading):
    """The cells of that column, of the first table that has it."""
    tables = [part.splitlines() for part in text.split("\n\n") if part.startswith("|")]
    found = next(lines for lines in tables if f"| {heading} |" in lines[0])
    split = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in found]
    place = split[0].index(heading)
    return [line[place] for line in split[2:]]


def test_tests_and_training_of_each_run(tmp_path):
    # Costs 4 and then 12, at a budget of 10: one change of 8 in 40; returns 1 and then 3.
    cost, earned = np.where(HALF, 4.0, 12.0), np.where(HALF, 1.0, 3.0)
    write(tmp_path, "cal", 0, cost=cost, earned=earned, training=[1, 3, 8, 10, 11, 9, 20, 40])
    write(tmp_path, "cal", 1, cost=11.0, earned=5.0)
    text = seed_tables(collect([tmp_path]))
    assert rows_of(text, "seed") == ["0", "1"]
    assert rows_of(text, "return, last 10") == ["3", "5"]
    assert rows_of(text, "cost, last 10") == ["12.0", "11.0"]
    assert rows_of(text, "evaluations over budget") == ["21 of 41", "41 of 41"]
    assert rows_of(text, "best return within budget") == ["1", "none"]
    # Trapezoids: 19 of height 1, 20 of height 3, one of 2 between them.
    assert rows_of(text, "mean height of the return") == [f"{(19 + 60 + 2) / 40:.3g}", "5"]
    assert rows_of(text, "cost") == ["4 to 12.0", "11.0 to 11.0"]
    assert rows_of(text, "change of cost between evaluations") == ["0.2", "0"]
    # A run without a training episode has no row among those that have.
    assert rows_of(text, "training episodes over budget") == ["37.5%"]
    assert rows_of(text, "1st quarter") == ["2 (1.5 to 2.5), 0% over"]
    assert rows_of(text, "2nd quarter") == ["9 (8.5 to 9.5), 0% over"]
    assert rows_of(text, "3rd quarter") == ["10.0 (9.5 to 10.5), 50% over"]
    assert rows_of(text, "4th quarter") == ["30.0 (25.0 to 35.0), 100% over"]


def test_the_estimate_against_the_oracle(tmp_path):
    folder = write(tmp_path, "cal", 0, cost=1.0, spread=np.where(HALF, 4.0, 2.0))
    write(tmp_path, "sac-lag", 0, cost=1.0)
    measured = [(1.0, 2.0), (4.0, 1.0), (5.0, 3.0), (2.0, 2.0)]  # oracle, estimate
    lines = [
        {
            "step": 1000 * index, "format": 1, "snapshot": "x", "cost_budget": CRITICS_BUDGET,
            "oracle": oracle, "estimate": estimate, "gap": estimate - oracle,
            "dual_estimate": 2.0, "dual_gap": 2.0 - oracle,
        }
        for index, (oracle, estimate) in enumerate(measured, 1)
    ]  # fmt: skip
    (folder / "diagnostics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    text = seed_tables(collect([tmp_path]))
    assert rows_of(text, "spread of the critics") == ["2 to 4, last 2"]
    assert rows_of(text, "snapshots") == ["4"]  # and no row of the run that was not diagnosed
    assert rows_of(text, "oracle") == ["1 to 5"]
    assert rows_of(text, "estimate") == ["1 to 3"]
    assert rows_of(text, "gap (A)") == ["-1"]
    assert rows_of(text, "its size") == ["1.5"]
    assert rows_of(text, "too low") == ["2 of 4"]
    assert rows_of(text, "gap (A) where the cost is over budget") == ["-2.5 at 2"]
    assert rows_of(text, "estimate in training, then") == ["2 to 2"]
    assert rows_of(text, "gap (B)") == ["-1"]
    assert rows_of(text, "size of (B)") == ["1.5"]


def test_the_command_ends_where_it_is_told(tmp_path, monkeypatch, capsys):
    write(tmp_path, "cal", 0, cost=np.where(STEPS <= 1000, 4.0, 12.0))
    prudent_command(monkeypatch, "seeds", tmp_path)
    assert rows_of(capsys.readouterr().out, "evaluations over budget") == ["30 of 41"]
    prudent_command(monkeypatch, "seeds", tmp_path, "--until", "1100")
    assert rows_of(capsys.readouterr().out, "evaluations over budget") == ["1 of 12"]


def test_what_is_no_run_is_refused(tmp_path, monkeypatch):
    with pytest.raises(SystemExit, match="no run below"):
        prudent_command(monkeypatch, "seeds", tmp_path)
    with pytest.raises(SystemExit, match="does not exist"):
        prudent_command(monkeypatch, "seeds", tmp_path / "nowhere")


def test_numbers_have_three_digits_or_one_after_the_point():
    found = [number(value) for value in (1662.533, 10.04, 9.996, -0.01234, 4.02e-12, 0.0, BUDGET)]
    assert found == ["1662.5", "10.0", "10", "-0.0123", "4.02e-12", "0", "10.0"]
