"""The benchmark says what was measured, beside its limit, and leaves nothing behind."""

import json
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO

import pytest

from prudent_bidding import bench
from prudent_bidding.world import PRESETS


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder, said = tmp_path_factory.mktemp("bench"), StringIO()
    with pytest.MonkeyPatch.context() as monkeypatch, redirect_stdout(said):
        measure(folder, monkeypatch)
    assert not list(folder.iterdir())
    return json.loads(said.getvalue())


def measure(folder, monkeypatch):
    monkeypatch.setitem(PRESETS, "smoke", replace(PRESETS["smoke"], advertisers=60, block_size=30))
    monkeypatch.setattr(bench, "ENVIRONMENTS", 64)
    monkeypatch.setattr(bench, "SAMPLED_ADVERTISERS", 150)
    arguments = ["--preset", "smoke", "--full", "--processes", "1", "--folder", str(folder)]
    bench.main([*arguments, "--json"])


def test_every_number_stands_beside_its_limit(measured):
    limits = measured["limits"]
    for name, extra in (("rule", 0.0), ("actor", limits["product_seconds_per_row"])):
        part = measured[name]
        needed = limits["random_seconds_per_row"] + limits["write_seconds_per_row"] + extra
        assert part["limit_rows_per_second"] == pytest.approx(1.0 / needed)
        assert part["limit_ratio"] == pytest.approx(
            part["rows_per_second"] / part["limit_rows_per_second"]
        )
        assert part["week_seconds"] == pytest.approx(51.2e6 / part["rows_per_second"])
    assert measured["environment"]["slots"] == 64
    sampling = measured["sampling"]
    assert sampling["advertisers"] == 180  # 60 at a time
    assert sampling["rows"] > 100_000
    assert sampling["limit_ratio"] == pytest.approx(
        sampling["transitions_per_second"] / sampling["limit_transitions_per_second"]
    )
    assert {run["policy"] for run in measured["full"]} == {"incumbent", "actor 256x256"}
    assert all(run["rows"] > 10_000 and run["all_bytes"] > 0 for run in measured["full"])
    assert measured["worker_bytes"] > 1e7


def test_whole_weeks_stand_beside_their_limit_and_their_goals(measured):
    limits, goals = measured["limits"], measured["goals"]
    needed = limits["random_seconds_per_row"] + limits["write_seconds_per_row"]
    both = (needed, needed + limits["product_seconds_per_row"])
    for run, per_row in zip(measured["full"], both, strict=True):
        assert run["limit_seconds"] == pytest.approx(run["rows"] * per_row)  # one process
        assert run["limit_ratio"] == pytest.approx(run["limit_seconds"] / run["clock_seconds"])
        scale = 4 * 51.2e6 / run["rows"]
        assert run["four_weeks_seconds"] == pytest.approx(scale * run["clock_seconds"])
        assert run["four_weeks_bytes"] == pytest.approx(scale * run["all_bytes"])
        assert run["largest_worker_bytes"] > 1e7  # this process does all the work
    per_row = measured["sampling"]["cache_bytes_per_row"]
    assert per_row == pytest.approx(40.0, rel=1e-3)
    assert measured["four_weeks_cache_bytes"] == pytest.approx(4 * 51.2e6 * per_row)
    names = ("four_weeks_seconds", "four_weeks_bytes", "four_weeks_cache_bytes")
    assert [goals[name] for name in names] == [900.0, 5e9, 9e9]


def test_numbers_are_printed_beside_their_goals(measured, capsys):
    bench.show(measured)
    text = capsys.readouterr().out
    for goal in ("130", "210", "22", "200,000", "1,000", "900", "5", "9"):
        assert f"(goal {goal})" in text


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(RuntimeError, match=f"{tmp_path}/nowhere cannot be written: No such file"):
        bench.main(["--preset", "smoke", "--folder", str(tmp_path / "nowhere")])
