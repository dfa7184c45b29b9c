"""What the scatter of batches adds to the price of cost, where that has a closed form."""

import importlib
import json
import sys
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from test_frozen_policy import run_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(ROOT / "benchmarks"))  # where it finds the other script, run as one
    yield importlib.import_module("batch_noise")
    sys.path.remove(str(ROOT / "benchmarks"))


def test_prices_of_normal_estimates(script):
    """Means of n rows have deviation s / sqrt(n), and E max(0, cG) = c s (φ(z) - z Φ(-z))."""
    normal = NormalDist()
    quantiles = (np.arange(20_000) + 0.5) / 20_000
    estimates = np.array([1.0 + 2.0 * normal.inv_cdf(share) for share in quantiles])
    for batch in (4, 16):
        deviation = 2.0 / np.sqrt(batch)
        z = (2.0 - 1.0) / deviation
        over = normal.cdf(-z)
        found = script.prices(estimates, budget=2.0, multiplier=0.0, convexity=10.0, batch=batch)
        assert found.deviation == pytest.approx(deviation, rel=0.03)
        assert found.over == pytest.approx(over, rel=0.1)
        weight = 10.0 * deviation * (normal.pdf(z) - z * over)
        assert found.weight == pytest.approx(weight, rel=0.1)


def test_the_multiplier_counts(script):
    same = np.full(100, 3.0)
    assert script.prices(same, 2.0, 0.5, 10.0, 4) == (0.0, 1.0, 10.5)
    assert script.prices(same, 3.25, 0.5, 1.0, 4) == (0.0, 0.0, 0.25)
    assert script.prices(same, 5.0, 0.5, 1.0, 4) == (0.0, 0.0, 0.0)


def test_a_run_is_judged_at_its_snapshots(script, tmp_path):
    at_the_replay = {"dual_states": "replay", "dual_action": "buffer"}
    folder = run_of(tmp_path / "run", "cal", calibration="none", **at_the_replay)
    lines = list(script.lines_of(folder, [8, 16]))
    assert [(line["step"], line["batch"], line["trained_with"]) for line in lines] == [
        (30, 8, 8), (30, 16, 8),
    ]  # fmt: skip
    first, second = lines
    assert first["mean"] == second["mean"]
    assert first["multiplier"] > 0.0
    recorded = json.loads((folder / "progress.jsonl").read_text().splitlines()[-1])
    # Multiplier and estimate are what training had then: of 30 updates, on batches of 8.
    assert first["multiplier"] == pytest.approx(recorded["training"]["multiplier"], rel=0.02)
    assert first["mean"] == pytest.approx(recorded["training"]["cost_estimate"], abs=0.5)


@pytest.mark.slow
def test_what_has_no_such_price_is_refused(script, tmp_path):
    with pytest.raises(SystemExit, match="sac-lag"):
        next(script.lines_of(run_of(tmp_path / "a"), [8]))
    with pytest.raises(SystemExit, match="looks elsewhere than at the replay's actions"):
        next(script.lines_of(run_of(tmp_path / "b", "cal", dual_states="recent"), [8]))


LINE = {
    "algorithm": "cal", "task": "t", "seed": 1,
    "conservatism": 0.5, "convexity": 10.0, "cost_critics": 4, "trained_with": 12,
    "step": 1000, "budget": 2.0, "mean": 1.5, "multiplier": 0.0, "batch": 12,
    "deviation": 0.25, "over": 0.023, "weight": 0.021,
}  # fmt: skip


def test_the_table(script, tmp_path):
    path = tmp_path / "lines.jsonl"
    lines = [LINE, {**LINE, "batch": 48, "deviation": 0.125, "over": 0.0, "weight": 1.2e-5}]
    lines += [{**LINE, "step": 2000, "mean": 2.25, "weight": 2.6}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    name = "t, k = 0.5, c = 10, E = 4, batches of 12, seed 1"
    assert script.table([path]).splitlines()[2:] == [
        f"| {name} | 1,000 | 2 | 1.5 | 0.25 | 2.3% | 0.021 | 1.2e-05 | 0 |",
        f"| {name} | 2,000 | 2 | 2.25 | 0.25 | 2.3% | 2.6 | - | 2.5 |",
    ]
    with pytest.raises(SystemExit, match=r"two lines of t, k = 0\.5"):
        script.table([path, path])


def test_the_table_on_the_page_is_that_of_the_records(script):
    paths = sorted((ROOT / "results" / "batch_noise").glob("*.jsonl"))
    assert paths
    assert script.table(paths) in (ROOT / "docs" / "results" / "ablations.md").read_text()
