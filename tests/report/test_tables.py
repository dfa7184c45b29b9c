"""Tables of final numbers, by hand and as they stand on the pages of results."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from made import found_below, write_folder, write_run

from prudent.report.groups import by_label
from prudent.report.records import (
    read_record,
)
from prudent.report.tables import detailed_rows, final_table, with_interval


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


def test_the_interval_of_a_cost_ends_at_zero_unless_costs_can_be_below(tmp_path):
    def cell(name, change):
        seeds = [
            change(write_folder(tmp_path / f"{name}-{seed}", seed, sampled=float(1 + 4 * seed)))
            for seed in range(2)
        ]
        return final_table(by_label(seeds)).splitlines()[-1].split(" | ")[4]

    # Costs of 1 and 5: mean 3, half width 12.706 * 2.
    assert cell("usual", lambda record: record) == "3.0 [0.0, 28.4]"
    credit = {"step": 8, "phase": "training", "cost": -1.0}
    earning = cell("earned", lambda record: record._replace(episodes=[*record.episodes, credit]))
    assert earning == "3.0 [-22.4, 28.4]"
    below = cell("owed", lambda r: r._replace(run={**r.run, "budget": -1.0}))
    assert below == "3.0 [-22.4, 28.4]"


def test_three_digits_without_a_point_behind_them():
    assert with_interval(np.array([-168.7]), digits="#.3g") == "-169 (one seed)"
    # 12.706 times the mean's error, which is 1.
    assert with_interval(np.array([1.0, 3.0]), digits="#.3g") == "2.00 [-10.7, 14.7]"


def test_a_bar_stays_in_its_cell(tmp_path):
    record = write_folder(tmp_path / "a", 0, algorithm="a|b")
    assert final_table(by_label([record])).splitlines()[-1].startswith(r"| a\|b (default) | 1 |")


def test_the_detailed_table_by_hand(tmp_path):
    for seed in (0, 4):
        write_run(tmp_path / str(seed), seed)
    groups = found_below(tmp_path)[0]["orbit"]
    (row,) = detailed_rows(groups)
    # Seeds' means are 10 and 14; of two seeds there is no bootstrap but their range.
    assert row.cells["return ± sd"] == "12.0 ± 2.8"
    assert row.cells["return, IQM"] == "12.0 (10.0 to 14.0)"
    assert row.cells["training episodes over budget"] == "2 (25.0%)"  # 6 and 7 of 0 to 7
    assert row.cells["excess cost in training"] == "3"  # 1 + 2
    assert row.cells["cost oscillation"] == "-"  # too few evaluations
    assert row.over_budget is False
    dearer = {label: [r._replace(run={**r.run, "budget": 3.0}) for r in found]
              for label, found in groups.items()}  # fmt: skip
    assert detailed_rows(dearer)[0].over_budget is True


ROOT = Path(__file__).parents[2]


PAGES = sorted((ROOT / "docs" / "results").glob("*.md"))


REPORTS = [
    (page, line) for page in PAGES for line in page.read_text().splitlines()
    if line.startswith("prudent report ")
]  # fmt: skip


@pytest.mark.parametrize(("page", "command"), REPORTS, ids=lambda part: str(part)[-30:])
def test_tables_on_the_pages_are_those_of_the_records(page, command, capsys):
    runs = command.removeprefix("prudent report ").split(" --")[0]
    expanded = ["bash", "-c", f"printf '%s\\n' {runs}"]
    found = subprocess.run(expanded, cwd=ROOT, check=True, capture_output=True, text=True)
    records = [read_record(ROOT / folder) for folder in found.stdout.split()]
    assert final_table(by_label(records)) + "\n" in page.read_text()
    assert capsys.readouterr().err == ""
