"""What a log says about its action, on logs whose every effect is known."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prudent_bidding import command
from prudent_bidding.importing import import_logs
from prudent_bidding.inspection import inspect

BUDGET, ROI, EFFECT = 100.0, 2.0, 0.8  # a unit of k pays so much more per record
ADVERTISERS, DAYS, RECORDS = 60, 7, 30


def made(folder, *, reaction=0.0, exploration=0.1, seed=0):
    """A log whose policy bids `reaction` more for each unit that an advertiser is better."""
    generator = np.random.default_rng(seed)
    shape = (ADVERTISERS, DAYS, RECORDS)
    quality = generator.normal(0.0, 0.1, (ADVERTISERS, 1, 1))
    daily = generator.normal(0.0, 0.05, (ADVERTISERS, DAYS, 1))
    k = 0.9 + reaction * quality + (exploration > 0.0) * daily
    k = np.clip(k + exploration * generator.normal(size=shape), 0.5, 1.5).astype(np.float16)
    pay = 1.0 + EFFECT * (k.astype(float) - 0.9)
    gmv = ROI * (1.0 + quality + generator.normal(0.0, 0.2, shape)).clip(0.0)
    advertiser, day, record = np.indices(shape)
    columns = {
        "week": 0 * day, "day": day, "hour": record * 24.0 / RECORDS, "advertiser": advertiser,
        "target_roi": np.full(shape, ROI), "budget": np.full(shape, BUDGET),
        "pctr": np.full(shape, 0.02), "pcvr": np.full(shape, 0.05), "pgmv": np.full(shape, 60.0),
        "k": k.astype(float), "pay": pay, "gmv": gmv,
    }  # fmt: skip
    folder.mkdir(exist_ok=True)
    path = folder / "log.parquet"
    pq.write_table(pa.table({name: values.ravel() for name, values in columns.items()}), path)
    import_logs([path], folder / "data")
    return folder / "data"


def close(slope, value):
    return abs(slope["value"] - value) < 4.0 * slope["error"]


def test_a_log_that_explores_blindly_says_what_k_does(tmp_path):
    found = inspect(made(tmp_path), 0)
    assert found["records"] == ADVERTISERS * DAYS * RECORDS
    assert found["days"] == ADVERTISERS * DAYS
    assert found["mean_k"] == pytest.approx(0.9, abs=0.01)
    assert found["deviation_of_k_within_days"] == pytest.approx(0.1, rel=0.05)
    for name in ("pay", "deficit"):
        for which in ("within_days", "between_days"):
            assert close(found[name][which], EFFECT / BUDGET)
    assert "warning" not in found


def test_a_policy_that_reacts_hides_the_effect_between_days_only(tmp_path):
    found = inspect(made(tmp_path, reaction=2.0), 0)
    assert close(found["deficit"]["within_days"], EFFECT / BUDGET)
    # Better advertisers have 2 more k and 1 less deficit for each unit: 0.8 - 1/2, days apart.
    assert found["deficit"]["between_days"]["value"] < 0.5 * EFFECT / BUDGET
    assert "bids more where it goes well" in found["warning"]


def test_the_error_is_that_of_repeated_logs(tmp_path):
    slopes = [
        inspect(made(tmp_path / str(seed), seed=seed), 0)["deficit"]["within_days"]
        for seed in range(12)
    ]
    scatter = np.std([slope["value"] for slope in slopes], ddof=1)
    assert 0.5 < scatter / np.mean([slope["error"] for slope in slopes]) < 2.0


def test_a_log_without_exploration_is_told(tmp_path, capsys):
    data = made(tmp_path, exploration=0.0)
    command.main(["inspect", str(data)])
    said = capsys.readouterr().out
    assert "note: k hardly varies within days (standard deviation 0.000)" in said
    command.main(["inspect", str(data), "--json"])
    assert "pay" not in json.loads(capsys.readouterr().out)


def test_days_of_one_mean_k_tell_nothing_between_them(tmp_path, capsys):
    """Every day has the same 0.75 and 1.25: within days there is a slope, between them none."""
    count = 6 * 2
    columns = {
        "week": [0] * count, "day": np.repeat(np.arange(6), 2), "hour": [1.0, 2.0] * 6,
        "advertiser": [3] * count, "target_roi": [ROI] * count, "budget": [BUDGET] * count,
        "pctr": [0.02] * count, "pcvr": [0.05] * count, "pgmv": [60.0] * count,
        "k": [0.75, 1.25] * 6, "pay": [1.0, 2.0] * 6, "gmv": [0.0] * count,
    }  # fmt: skip
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    import_logs([tmp_path / "log.parquet"], tmp_path / "data")
    command.main(["inspect", str(tmp_path / "data")])
    said = capsys.readouterr().out.splitlines()
    assert said[2].split()[3] == "+2000"  # 0.1 more k: 0.2 more of 100
    assert said[3] == "  pay      between days  cannot be told: all have the same mean k"
    command.main(["inspect", str(tmp_path / "data"), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["deficit"]["between_days"] is None
    assert "warning" not in found


def test_the_words_have_the_numbers(tmp_path, capsys):
    data = made(tmp_path)
    found = inspect(data, 0)
    command.main(["inspect", str(data)])
    said = capsys.readouterr().out.splitlines()
    value = found["pay"]["within_days"]["value"]
    assert said[2].split()[:4] == ["pay", "within", "days", f"{value * 1e5:+.0f}"]


def test_a_week_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match="week-3"):
        inspect(made(tmp_path), 3)
