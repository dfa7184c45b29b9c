"""The benchmark says what was measured, beside its limit, and leaves nothing behind."""

import json
from dataclasses import replace

import pytest

from prudent.bidding import bench
from prudent.bidding.world import PRESETS


@pytest.fixture
def measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(PRESETS, "smoke", replace(PRESETS["smoke"], advertisers=60, block_size=30))
    monkeypatch.setattr(bench, "ENVIRONMENTS", 64)
    monkeypatch.setattr(bench, "SAMPLED_ROWS", 100_000)
    folder = str(tmp_path)
    arguments = ["--preset", "smoke", "--full", "--processes", "1", "--folder", folder, "--json"]
    bench.main(arguments)
    assert not list(tmp_path.iterdir())
    return json.loads(capsys.readouterr().out)


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
    assert sampling["rows"] >= 100_000
    assert sampling["limit_ratio"] == pytest.approx(
        sampling["transitions_per_second"] / sampling["limit_transitions_per_second"]
    )
    assert {run["policy"] for run in measured["full"]} == {"incumbent", "actor 256x256"}
    assert all(run["rows"] > 10_000 and run["all_bytes"] > 0 for run in measured["full"])
    assert measured["worker_bytes"] > 1e7
