"""A log of one's own becomes a data set, or is refused with its rows and nothing written."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from prudent_bidding.dataset import HistoricalDataset
from prudent_bidding.engines import in_this_process
from prudent_bidding.importing import import_logs
from prudent_bidding.manifest import read_rows, shards_of
from prudent_bidding.metrics import clusters_of, metrics_of, read_days, value_of
from prudent_bidding.schema import (
    AD,
    CATEGORY,
    OBSERVATION,
    USER,
    advertisers_file,
    carried_file,
    rows_file,
)
from prudent_bidding.shards import read_table
from prudent_bidding.simulate import make_order, simulate_week
from prudent_bidding.world import PRESETS

TRACK_RECORD = OBSERVATION.index("track_record")


def log(**changes):
    """Two advertisers, two days; rows out of order on purpose."""
    table = {
        "week": [0] * 6, "day": [0, 0, 0, 1, 1, 0], "hour": [9.0, 8.0, 7.5, 1.0, 2.0, 20.0],
        "advertiser": [7, 7, 3, 7, 3, 3], "target_roi": [2.0, 2.0, 4.0, 2.0, 4.0, 4.0],
        "budget": [100.0, 100.0, 50.0, 100.0, 50.0, 50.0], "pctr": [0.1] * 6, "pcvr": [0.2] * 6,
        "pgmv": [50.0] * 6, "k": [1.0, 0.75, 1.25, 1.0, 1.0, 1.0],
        "pay": [10.0, 5.0, 8.0, 0.0, 2.0, 42.0], "gmv": [31.0, 0.0, 40.0, 0.0, 4.0, 100.0],
    }  # fmt: skip
    return {**table, **changes}


# Just enough wins for what `log` pays: its bids are 0.5, 0.375, 0.3125, 0.5, 0.25, 0.25.
WINS, CONVERSIONS = [20, 14, 26, 0, 8, 168], [1, 0, 2, 0, 1, 3]


def written(path, table):
    pq.write_table(pa.table(table), path)
    return path


def test_rows_arrive_in_order_of_day_advertiser_and_hour(tmp_path):
    said = import_logs([written(tmp_path / "log.parquet", log())], tmp_path / "data")
    assert said == [f"{tmp_path / 'data'}: 6 rows of 2 advertisers, weeks 0"]
    rows = read_table(tmp_path / "data" / rows_file(0, 0, 0), "rows")
    assert rows["adv"].tolist() == [3, 3, 7, 7]
    assert rows["hour"].tolist() == [7.5, 20.0, 8.0, 9.0]
    assert rows["t"].tolist() == [0, 1, 0, 1]
    assert rows["done"].tolist() == [0, 2, 0, 1]  # 50 of a budget of 50: spent
    assert rows["win"].tolist() == [1, 1, 1, 1]
    people = read_table(tmp_path / "data" / advertisers_file(0), "advertisers")
    np.testing.assert_allclose(np.exp(people["log_roi"]), [4.0, 2.0], rtol=1e-6)


def test_a_learner_can_read_it_and_metrics_are_those_of_the_log(tmp_path):
    import_logs([written(tmp_path / "log.parquet", log())], tmp_path / "data")
    history = HistoricalDataset(tmp_path / "data", [0])
    found = history.draw(5, 4, np.random.default_rng(0), "advertiser_balanced")
    assert np.isfinite(found.observation).all()
    days = read_days(tmp_path / "data", 0)
    sums = metrics_of(days, clusters_of(days), 1)
    assert value_of(sums["pay"]) == pytest.approx(67.0)
    # Advertiser 3: 144 of 4 * 52 due; 7: 31 of 2 * 15, which is met.
    assert value_of(sums["vio_week"]) == pytest.approx(0.5)
    assert value_of(sums["depth"]) == pytest.approx((208 - 144) / (208 + 30))


def simulated(folder, weeks, **changes):
    """Weeks of a small world in which advertisers come and go."""
    world = replace(PRESETS["smoke"], advertisers=30, block_size=15, volume=15.0, churn=0.2)
    for week in weeks:
        order = make_order(folder, replace(world, **changes), 0, week, ["incumbent"])
        simulate_week(order, in_this_process)
    return folder


def as_log(folder, week):
    """A simulated week as its platform would log it."""
    parts = [read_rows(folder, week, shard) for shard in shards_of(folder, week)]
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    people = read_table(folder / advertisers_file(week), "advertisers")
    by_adv = np.argsort(people["adv"])
    place = by_adv[np.searchsorted(people["adv"], rows["adv"], sorter=by_adv)]
    return {
        "week": np.full(len(place), week),
        "hour": np.minimum(rows["hour"].astype(float), 23.9999),  # half precision may say 24
        "advertiser": rows["adv"],
        "target_roi": np.exp(people["log_roi"].astype(float))[place],
        **{name: people[name][place] for name in ("budget", "category", *AD, *CATEGORY)},
        **{f"p{n}": np.exp(rows[f"log_p{n}"].astype(float)) for n in ("ctr", "cvr", "gmv")},
        **{name: rows[name] for name in ("day", "k", "arm", "win", "conv", "pay", "gmv", *USER)},
    }


def observed(folder, week):
    """What was seen in a week, by day, advertiser and time."""
    (logged,) = HistoricalDataset(folder, [week]).weeks
    adv = logged.advertisers["adv"][logged.rows["place"]]
    order = np.lexsort((adv, logged.rows["day_and_done"] & 7))
    return adv[order], logged.observations(logged.rows)[order]


def test_imported_weeks_know_what_the_simulator_knew(tmp_path):
    """The track record goes on from week to week, for those who stay; newcomers have none."""
    world = simulated(tmp_path / "world", range(2))
    logs = [written(tmp_path / f"week-{week}.parquet", as_log(world, week)) for week in range(2)]
    import_logs(logs, tmp_path / "data")
    for week in range(2):
        (adv, seen), (other, expected) = (observed(f, week) for f in (tmp_path / "data", world))
        assert np.array_equal(adv, other)
        np.testing.assert_allclose(seen, expected, rtol=1e-6, atol=1e-6)
    newcomers = adv >= 30
    monday = seen[:, 3] == 0.0
    assert newcomers.any()
    assert np.all(seen[monday & newcomers, TRACK_RECORD] == 0.0)
    assert np.all(seen[monday & ~newcomers, TRACK_RECORD] != 0.0)
    old, new = (read_table(f / carried_file(1), "carried") for f in (world, tmp_path / "data"))
    at = np.searchsorted(new["adv"], old["adv"])
    for name in ("pay", "gmv", "fair_pay"):
        np.testing.assert_allclose(new[name][at], old[name])


def test_what_is_known_fades_over_weeks_that_are_not_in_the_log(tmp_path):
    """GMV of 40 on day 1 of week 1 has 0.9^5 left when the week ends, and 0.9^12 after another."""
    rows = log(week=[1, 1, 1, 3, 3, 1], day=[1, 1, 1, 0, 0, 1], gmv=[40.0, 0, 0, 0, 0, 0])
    import_logs([written(tmp_path / "log.parquet", rows)], tmp_path / "data")
    for week, days in ((1, 5), (2, 12), (3, 19)):
        carried = read_table(tmp_path / "data" / carried_file(week), "carried")
        assert carried["adv"].tolist() == [3, 7]
        np.testing.assert_allclose(carried["gmv"], [0.0, 40.0 * 0.9**days])
    first, last = (
        json.loads((tmp_path / f"data/week-{week}/manifest.json").read_text()) for week in (1, 3)
    )
    assert first["carried_in"] is None
    assert last["carried_in"] is not None
    _, seen = observed(tmp_path / "data", 3)
    assert np.all(seen[:, TRACK_RECORD] != 0.0)


def test_a_slot_is_one_advertiser_in_all_weeks(tmp_path):
    rows = log(week=[0, 0, 1, 2, 2, 1], advertiser=[5, 9, 9, 5, 9, 3])
    rows |= {"target_roi": [2.0] * 6, "budget": [100.0] * 6}
    import_logs([written(tmp_path / "log.parquet", rows)], tmp_path / "data")
    for week, slots in enumerate(({5: 1, 9: 2}, {3: 0, 9: 2}, {5: 1, 9: 2})):
        people = read_table(tmp_path / "data" / advertisers_file(week), "advertisers")
        assert dict(zip(people["adv"].tolist(), people["slot"].tolist(), strict=True)) == slots


def test_csv_and_parquet_give_the_same_files(tmp_path):
    import_logs([written(tmp_path / "log.parquet", log())], tmp_path / "one")
    pa_csv.write_csv(pa.table(log()), tmp_path / "log.csv")
    import_logs([tmp_path / "log.csv"], tmp_path / "two")
    for name in (rows_file(0, 0, 0), rows_file(0, 1, 0), advertisers_file(0)):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"pay": [1.0, -5.0, 0.0, 0.0, 0.0, 0.0]}, r"pay is not a number from 0 .*row 2: '-5.0'"),
        ({"hour": [9.0, 8.0, 25.0, 1.0, 24.0, -1.0]}, r"hour .* in 3 of 6 rows \(row 3: '25.0'"),
        ({"k": [2.0] * 6}, r"k is not .* 0.5 to 1.5 in 6 of 6 rows .*and 3 more"),
        ({"gmv": list("1x2345")}, r"gmv is not a number in 1 of 6 rows \(row 2: 'x'"),
        ({"pctr": [None, 0.1, 0.1, 0.1, 0.1, 0.1]}, r"pctr is not a number in 1 of 6"),
        ({"pcvr": [0.0] * 6}, r"pcvr is not a number above 0"),
        ({"day": [0, 0, 0, 7, 1, 0]}, r"day is not a whole number from 0 to 6 .*row 4"),
        ({"advertiser": [7, 7.5, 3, 7, 3, 3]}, r"advertiser is not a whole number"),
        ({"budget": [100.0, 90.0, 50.0, 100.0, 50.0, 50.0]}, r"budget is not the same .*row 2"),
        ({"pay": [1000.0, 0, 0, 0, 0, 0]}, r"pay is more than the budget.* in 1 of 6 rows"),
        ({"pay": [0, 0, 8.0, 0, 2.0, 49.0]}, r"pay .* added up over the day, .*row 6: '57.0'"),
        ({"win": [2, 0, 1, 0, 1, 1]}, r"win is 0 where something was paid, .* \(row 2: '0.0'\)"),
        ({"win": WINS, "conv": [1, 0, 2, 1, 1, 3]}, r"win is 0 .* in 1 of 6 rows \(row 4"),
        ({"win": WINS, "gmv": [31.0, 0, 40, 7, 4, 100]}, r"win is 0 .* in 1 of 6 rows \(row 4"),
        ({"win": [20, 13, 26, 0, 8, 168]}, r"pay .* wins can cost .* 1 of 6 rows \(row 2: '5.0'\)"),
        ({"win": WINS, "pay": [10.03, 5, 8, 0, 2, 39]}, r"pay .* 1 of 6 rows \(row 1: '10.03'\)"),
        ({"conv": [0, 0, 2, 0, 1, 3]}, r"conv is 0 where there is gmv in 1 of 6 rows \(row 1"),
        ({"conv": [1, 1, 2, 0, 1, 3]}, r"gmv is 0 where .* converted in 1 of 6 rows \(row 2"),
        ({"k": [True] * 6}, r"k is not a number in 6 of 6 rows \(row 1: 'True'"),
        ({"gmv": ["1_0", "0", "40", "0", "4", "100"]}, r"gmv is not a number .*\(row 1: '1_0'\)"),
        ({"arm": [0, 1, 0, 0, 0, 0]}, r"arm is not the same in all of an advertiser's day"),
    ],
)  # fmt: skip
def test_impossible_rows_are_named_and_nothing_is_written(tmp_path, changes, complaint):
    path = written(tmp_path / "log.parquet", log(**changes))
    with pytest.raises(ValueError, match=complaint) as refused:
        import_logs([path], tmp_path / "data")
    assert "Nothing was written" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.parquet"]


def test_wins_pay_what_was_bid_give_or_take_rounding(tmp_path):
    changes = {"win": WINS, "conv": CONVERSIONS, "pay": [10.019, 5.0, 8.0, 0.0, 2.0, 42.0]}
    import_logs([written(tmp_path / "log.parquet", log(**changes))], tmp_path / "data")
    rows = read_table(tmp_path / "data" / rows_file(0, 0, 0), "rows")
    assert rows["win"].tolist() == [26, 168, 14, 20]


def test_without_wins_whatever_came_of_a_record_was_won(tmp_path):
    """In a market of second prices a win may be free."""
    path = written(tmp_path / "log.parquet", log(gmv=[31.0, 0, 40, 7, 4, 100]))
    import_logs([path], tmp_path / "data")
    rows = read_table(tmp_path / "data" / rows_file(0, 1, 0), "rows")
    assert rows["win"].tolist() == [1, 1]
    assert rows["pay"].tolist() == [2.0, 0.0]


@pytest.mark.parametrize(
    "changes",
    [
        {"delay_hours": 2.0, "market": "meanfield"},
        {"price": "second"},
        {"market": "explicit", "price": "second", "requests_per_record": 1},
        {"requests_per_record": 1, "reserve": 0.02},
    ],
)
def test_rows_of_every_market_of_ours_are_possible(tmp_path, changes):
    rows = as_log(simulated(tmp_path / "world", [0], **changes), 0)
    assert rows["win"].any()
    said = import_logs([written(tmp_path / "log.parquet", rows)], tmp_path / "data")
    assert len(said) == 1


def test_columns_that_are_not_read_are_told(tmp_path):
    one, other = tmp_path / "one.parquet", tmp_path / "other.parquet"
    written(one, log(Win=[0] * 6, conversions=[9] * 6))
    written(other, log(week=[1] * 6, Win=[0] * 6, note=["mine"] * 6))
    said = import_logs([one, other], tmp_path / "data")
    assert said[0] == ("columns not read, since none of these is known: Win, conversions, note")
    assert len(said) == 2


def test_several_faults_are_told_at_once(tmp_path):
    bad = log(pay=[-1.0] * 6, gmv=[-1.0] * 6)
    with pytest.raises(ValueError, match=r"pay .* gmv "):
        import_logs([written(tmp_path / "log.parquet", bad)], tmp_path / "data")


def test_missing_columns_files_and_rows_are_told(tmp_path):
    short = {name: values for name, values in log().items() if name not in ("pay", "k")}
    with pytest.raises(ValueError, match="has no column k, pay; it has week, day"):
        import_logs([written(tmp_path / "log.parquet", short)], tmp_path / "data")
    with pytest.raises(ValueError, match="there is no file"):
        import_logs([tmp_path / "none.csv"], tmp_path / "data")
    (tmp_path / "text.parquet").write_text("no parquet")
    with pytest.raises(ValueError, match="cannot be read"):
        import_logs([tmp_path / "text.parquet"], tmp_path / "data")
    empty = pa.table(log()).slice(0, 0)
    pq.write_table(empty, tmp_path / "empty.parquet")
    with pytest.raises(ValueError, match="has no rows"):
        import_logs([tmp_path / "empty.parquet"], tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_an_hour_is_below_24(tmp_path):
    hours = [9.0, 8.0, 7.5, 1.0, 2.0, 23.99995]
    import_logs([written(tmp_path / "log.parquet", log(hour=hours))], tmp_path / "data")
    with pytest.raises(ValueError, match=r"hour is not a number from 0 to below 24 .*'24.0'"):
        import_logs([written(tmp_path / "log.parquet", log(hour=[24.0] * 6))], tmp_path / "two")


def test_rows_count_once_and_are_found_in_their_file(tmp_path):
    one, other = (tmp_path / name for name in ("one.parquet", "other.parquet"))
    written(one, log())
    with pytest.raises(ValueError, match=r"one.parquet is named twice; its rows would count twice"):
        import_logs([one, tmp_path], tmp_path / "data")
    written(other, log(week=[1] * 6, gmv=[0.0, 0.0, -1.0, 0.0, 0.0, 0.0]))
    with pytest.raises(ValueError, match=rf"gmv .* in 1 of 12 rows \({other} row 3: '-1.0'\)"):
        import_logs([one, other], tmp_path / "data")


def test_what_a_folder_holds_besides_is_told(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    pa_csv.write_csv(pa.table(log()), folder / "a.csv")
    pa_csv.write_csv(pa.table(log(week=[1] * 6)), folder / "b.CSV")
    (folder / "c.csv.gz").write_bytes(b"packed")
    said = import_logs([folder], tmp_path / "data")
    assert said[0] == f"{folder}: not read, since it ends in neither .parquet nor .csv: c.csv.gz"
    assert said[1].endswith("12 rows of 2 advertisers, weeks 0, 1")
    for name in ("a.csv", "b.CSV"):
        (folder / name).unlink()
    with pytest.raises(ValueError, match=r"neither .*: c.csv.gz; a log is needed"):
        import_logs([folder], tmp_path / "two")


def test_a_column_twice_is_refused(tmp_path):
    for name, table, layout in (
        ("pay", log(), "prudent"),
        ("cost", auctionnet(), "auctionnet"),
    ):
        columns = [*table.items(), (name, table[name])]
        twice = pa.Table.from_arrays([pa.array(v) for _, v in columns], [n for n, _ in columns])
        pa_csv.write_csv(twice, tmp_path / "log.csv")
        with pytest.raises(ValueError, match=f"log.csv has two columns {name}; leave one out"):
            import_logs([tmp_path / "log.csv"], tmp_path / "data", layout)


def test_a_folder_that_holds_something_is_left_alone(tmp_path):
    path = written(tmp_path / "log.parquet", log())
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match="is there already"):
        import_logs([path], tmp_path / "data")
    assert (tmp_path / "data" / "mine.txt").read_text() == "mine"


def test_a_kill_while_it_writes_leaves_no_data_set(tmp_path, monkeypatch):
    from prudent_bidding import importing

    def killed(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(importing, "write_day", killed)
    with pytest.raises(KeyboardInterrupt):
        import_logs([written(tmp_path / "log.parquet", log())], tmp_path / "data")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.parquet"]


def auctionnet(**changes):
    """Two requests of one tick and one of the next, for one advertiser."""
    table = {
        "deliveryPeriodIndex": [7, 7, 7], "advertiserNumber": [4, 4, 4],
        "advertiserCategoryIndex": [1, 1, 1], "budget": [2000.0] * 3, "CPAConstraint": [100.0] * 3,
        "timeStepIndex": [3, 3, 4], "remainingBudget": [2000.0, 2000.0, 1990.0],
        "pvIndex": [0, 1, 0], "pValue": [0.01, 0.03, 0.02], "pValueSigma": [0.0] * 3,
        "bid": [1.2, 3.6, 0.2], "xi": [1, 1, 0], "adSlot": [1, 2, 0], "cost": [0.8, 1.2, 0.0],
        "isExposed": [1, 1, 0], "conversionAction": [0, 1, 0], "leastWinningCost": [0.1] * 3,
        "isEnd": [0, 0, 0],
    }  # fmt: skip
    return {**table, **changes}
