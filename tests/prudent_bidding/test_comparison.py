"""Several worlds in one table, from made-up results."""

import json
from pathlib import Path

import numpy as np
import pytest

from prudent.files import CannotWrite
from prudent_bidding import comparison
from prudent_bidding.plan import INCUMBENT, PLAN, calibration_file, make_plan, results_file
from prudent_bidding.records import write_plan

ROOT = Path(__file__).parents[2]
# Pay over the incumbent's and violations of each algorithm in week 1, by world.
CAL = {0: (1.10, 0.20), 1: (1.20, 0.30), 2: (1.30, 0.40)}
LAG = {0: (1.00, 0.25), 1: (1.10, 0.35), 2: (1.20, 0.45)}
CONSTANTS = {"constant:0.7": (0.8, 0.1), "constant:0.9": (1.2, 0.5)}


def metrics(pay, rate):
    numbers = {
        "pay_per_day": 50.0 * pay, "vio_week": rate, "vio_exp": rate, "depth": 0.01,
        "roi_ratio": 1.0, "mean_k": 0.9, "deficit": 0.02,
    }  # fmt: skip
    return {name: {"value": number, "interval": None} for name, number in numbers.items()}


def write_run(folder, world, weeks=2, **given):
    plan = make_plan(
        "smoke",
        {
            "algorithms": ("cal", "sac-lag"),
            "references": tuple(CONSTANTS),
            "world_seed": world,
            "weeks": weeks,
            **given,
        },
    )
    folder.mkdir(parents=True)
    write_plan(folder / PLAN, plan)
    for week in range(weeks + 1):
        found = {"week": week, "arms": {INCUMBENT: metrics(1.0, 0.3)}}
        if week > 0:  # pay falls by a tenth of the incumbent's in every week
            less = 0.1 * (week - 1)
            arms = {"cal": CAL[world], "sac-lag": LAG[world]}
            own = {name: metrics(pay - less, rate) for name, (pay, rate) in arms.items()}
            found["arms"] = {**own, INCUMBENT: metrics(1.0, 0.3)}
            found["references"] = {name: metrics(*each) for name, each in CONSTANTS.items()}
            write_json(
                calibration_file(folder, "cal", week), {"conservative": -1.0, "realised": world}
            )
            write_json(calibration_file(folder, "sac-lag", week), {})
        write_json(results_file(folder, week), found)
    return folder


def write_json(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


@pytest.fixture
def worlds(tmp_path):
    return [write_run(tmp_path / f"w{world}", world) for world in (2, 0, 1)]


def cells(rows, name):
    found = next(row for row in rows if row[0] == name)
    return dict(zip(rows[0], found, strict=True))


def test_a_week_is_a_row_and_an_algorithm_a_column(worlds):
    assert comparison.weekly_table(comparison.read_runs(worlds)) == [
        ["week", "CAL", "SAC-Lag", "incumbent"],
        ["1", "+20.0 / 30.0 / +2.0", "+10.0 / 35.0 / +2.0", "+0.0 / 30.0 / +2.0"],
        ["2", "+10.0 / 30.0 / +2.0", "+0.0 / 35.0 / +2.0", "+0.0 / 30.0 / +2.0"],
    ]


def test_intervals_are_students_over_worlds(worlds):
    table = comparison.policy_table(comparison.read_runs(worlds))
    # Means over weeks are 5, 15 and 25: deviation 10, Student's quantile for two degrees 4.3027.
    half = 4.302653 * 10.0 / np.sqrt(3.0)
    assert cells(table, "CAL")["pay against incumbent (%)"] == (
        f"15.0 [{15 - half:.1f}, {15 + half:.1f}]"
    )
    assert cells(table, "incumbent")["vio_week (%)"] == "30.0 [30.0, 30.0]"
    assert cells(table, "constant:0.9")["vio_week (%)"] == "50.0 [50.0, 50.0]"


def test_differences_are_paired_by_world(worlds):
    table = comparison.policy_table(comparison.read_runs(worlds), less="cal")
    assert [row[0] for row in table] == ["CAL less", "SAC-Lag", "incumbent", *CONSTANTS]
    less = cells(table, "SAC-Lag")
    assert less["pay against incumbent (%)"] == "10.0 [10.0, 10.0]"
    assert less["vio_week (%)"] == "-5.0 [-5.0, -5.0]"


def test_pay_is_held_against_constants_at_the_same_violations(worlds):
    run = comparison.read_runs(worlds)[0]
    # At 20 % the line through (10 %, 0.8) and (50 %, 1.2) is at 0.9.
    beyond = comparison.beyond_constants("vio_week")
    assert beyond(run, run.find(1, "cal")) == pytest.approx(100.0 * (1.1 / 0.9 - 1.0))
    for name in CONSTANTS:
        assert beyond(run, run.find(1, name)) == pytest.approx(0.0)
    outside = run.find(1, "cal")._replace(metrics=metrics(1.0, 0.6))
    assert np.isnan(beyond(run, outside))


def test_critics_are_shown_where_they_were_measured(worlds):
    assert comparison.critic_table(comparison.read_runs(worlds))[1] == ["1", "-1.00 / 1.00", "-"]


def test_tables_and_figure_are_written_and_one_world_has_no_interval(worlds, tmp_path, capsys):
    comparison.main([str(worlds[0]), "--out", str(tmp_path / "a/b")])
    printed = capsys.readouterr().out
    assert (tmp_path / "a/b/bidding-tables.md").read_text() in printed
    assert "Simulated" in printed
    assert "| CAL | 25.0 | 40.0 |" in printed
    assert (tmp_path / "a/b/bidding-frontier.png").read_bytes()[:4] == b"\x89PNG"


def test_records_are_kept_without_the_rest_and_make_the_same_tables(worlds, tmp_path, capsys):
    (worlds[0] / "data").mkdir()
    comparison.main([*map(str, worlds), "--keep", str(tmp_path / "kept")])
    kept = sorted((tmp_path / "kept").iterdir())
    assert [folder.name for folder in kept] == ["world-0", "world-1", "world-2"]
    assert not (tmp_path / "kept/world-2/data").exists()
    first = capsys.readouterr().out
    comparison.main(list(map(str, kept)))
    assert capsys.readouterr().out == first
    with pytest.raises(ValueError, match="world-0 exists already"):
        comparison.main([*map(str, worlds), "--keep", str(tmp_path / "kept")])


def test_records_are_kept_whole_or_not_at_all(worlds, tmp_path, monkeypatch):
    written = []

    def full(path, content):
        written.append(path)
        if len(written) > 3:
            raise OSError(28, "No space left on device")
        path.write_bytes(content)

    monkeypatch.setattr(comparison, "write_atomically", full)
    with pytest.raises(CannotWrite, match="No space left"):
        comparison.main([str(worlds[0]), "--keep", str(tmp_path / "kept")])
    assert list((tmp_path / "kept").iterdir()) == []


def test_what_does_not_belong_together_is_refused(worlds, tmp_path, capsys):
    other = write_run(tmp_path / "other", 1, updates=7)
    with pytest.raises(ValueError, match=r"other has another plan than .*w2"):
        comparison.read_runs([worlds[0], other])
    with pytest.raises(ValueError, match=r"w2: world 2 is given twice"):
        comparison.read_runs([worlds[0], worlds[0]])
    results_file(worlds[1], 2).unlink()
    with pytest.raises(ValueError, match=r"w0 has 1 finished weeks, .*w2 2; finish both"):
        comparison.read_runs(worlds)
    with pytest.raises(ValueError, match=r"w0 is not finished \(results/week-2.json is missing"):
        comparison.main([str(worlds[1]), "--keep", str(tmp_path / "kept")])
    assert not (tmp_path / "kept").exists()
    comparison.main([str(worlds[1])])
    assert "weeks 1 to 1 of 2 (unfinished)" in capsys.readouterr().out
    lost = json.loads(results_file(worlds[1], 1).read_text())
    del lost["references"]["constant:0.7"]
    results_file(worlds[2], 1).write_text(json.dumps(lost))
    with pytest.raises(ValueError, match=r"w1 has no results of constant:0.7 in week 1"):
        comparison.policy_table(comparison.read_runs([worlds[0], worlds[2]]))
    results_file(worlds[1], 1).unlink()
    with pytest.raises(ValueError, match="w0 has no finished week"):
        comparison.read_runs(worlds[1:2])
    with pytest.raises(ValueError, match="name the folders"):
        comparison.main([])


def test_the_page_has_the_tables_of_the_records(capsys):
    records = sorted((ROOT / "results/bidding").iterdir())
    comparison.main(list(map(str, records)))
    printed = [part.strip() for part in capsys.readouterr().out.split("\n\n")]
    found = [part for part in printed if part.startswith("|")]
    page = (ROOT / "docs/results/bidding.md").read_text()
    assert len(records) == 3
    assert len(found) == 4
    assert all(table in page for table in found)
