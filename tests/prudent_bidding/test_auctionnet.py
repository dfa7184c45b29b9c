"""AuctionNet's requests become records, or are refused by file, row and tick."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from test_importing import auctionnet, log, written

from prudent_bidding.auctionnet import COLUMNS as AUCTIONNET
from prudent_bidding.importing import import_logs
from prudent_bidding.schema import (
    advertisers_file,
    rows_file,
)
from prudent_bidding.shards import read_table


def test_auctionnet_ticks_become_records(tmp_path):
    """Bids are 1.2 times value at the target of 100, then 0.1 times, which is no k of ours."""
    assert set(AUCTIONNET) <= set(auctionnet())
    pa_csv.write_csv(pa.table(auctionnet()), tmp_path / "period-7.csv")
    said = import_logs([tmp_path / "period-7.csv"], tmp_path / "data", "auctionnet")
    assert said[0].startswith("1 of 2 records bid less than 0.5 or more than 1.5 times")
    rows = read_table(tmp_path / "data" / rows_file(0, 0, 0), "rows")
    assert rows["hour"].tolist() == [1.5, 2.0]
    np.testing.assert_allclose(rows["k"], [1.2, 0.5], atol=1e-3)
    np.testing.assert_allclose(rows["pay"], [2.0, 0.0])
    np.testing.assert_allclose(rows["gmv"], [100.0, 0.0])
    np.testing.assert_allclose(np.exp(rows["log_pcvr"].astype(float)), [0.02, 0.02], rtol=2e-3)
    people = read_table(tmp_path / "data" / advertisers_file(0), "advertisers")
    assert people["log_roi"].tolist() == [0.0]


def test_auctionnet_is_paid_for_what_was_shown(tmp_path):
    """The second request of tick 3 was won for 1.2 and not shown."""
    path = written(tmp_path / "period-7.parquet", auctionnet(isExposed=[1, 0, 0]))
    import_logs([path], tmp_path / "data", "auctionnet")
    rows = read_table(tmp_path / "data" / rows_file(0, 0, 0), "rows")
    np.testing.assert_allclose(rows["pay"], [0.8, 0.0])
    assert rows["win"].tolist() == [2, 0]
    unsaid = {name: values for name, values in auctionnet().items() if name != "isExposed"}
    with pytest.raises(ValueError, match="has no column isExposed"):
        import_logs([written(tmp_path / "old.parquet", unsaid)], tmp_path / "two", "auctionnet")


def test_auctionnet_bids_of_a_tick_differ(tmp_path):
    """Its one win costs 3, more than the mean bid of 2.4: that is possible. Flags may be True."""
    changes = {"xi": [False, True, False], "isExposed": [0, 1, 0], "cost": [0.0, 3.0, 0.0]}
    path = written(tmp_path / "period-7.parquet", auctionnet(**changes))
    import_logs([path], tmp_path / "data", "auctionnet")
    rows = read_table(tmp_path / "data" / rows_file(0, 0, 0), "rows")
    assert rows["win"].tolist() == [1, 0]
    path = written(tmp_path / "odd.parquet", auctionnet(bid=[True] * 3))
    with pytest.raises(ValueError, match=r"bid is not a number in 3 of 3 rows \(row 1: 'True'"):
        import_logs([path], tmp_path / "two", "auctionnet")


def test_auctionnet_days_end_with_the_budget(tmp_path):
    """Ticks after it have no bid; one that is the last of a day and was bid in stays."""
    changes = {"bid": [1.2, 3.6, 0.0], "isEnd": [0, 1, 1]}
    path = written(tmp_path / "period-7.parquet", auctionnet(**changes))
    said = import_logs([path], tmp_path / "data", "auctionnet")
    assert said[0] == "1 ticks are left out: their day had ended (isEnd 1, bid 0)"
    rows = read_table(tmp_path / "data" / rows_file(0, 0, 0), "rows")
    assert rows["hour"].tolist() == [1.5]
    assert rows["done"].tolist() == [1]
    path = written(tmp_path / "odd.parquet", auctionnet(isEnd=[0, 2, 0]))
    with pytest.raises(
        ValueError, match=r"isEnd is not a whole number from 0 to 1 in 1 of 3 rows \(row 2"
    ):
        import_logs([path], tmp_path / "two", "auctionnet")


def test_auctionnet_numbers_may_look_whole_for_a_megabyte(tmp_path):
    count = 40_000
    table = {name: np.resize(values, count) for name, values in auctionnet().items()}
    table |= {name: np.zeros(count, int) for name in ("xi", "isExposed", "conversionAction")}
    table["cost"] = np.zeros(count, int)
    pa_csv.write_csv(pa.table(table), tmp_path / "log.csv")
    with (tmp_path / "log.csv").open("a") as file:
        file.write("7,4,1,2000,100,5,1990,0,0.02,0,0.2,1,1,0.5,1,0,0.1,0\n")
    import_logs([tmp_path / "log.csv"], tmp_path / "data", "auctionnet")
    rows = read_table(tmp_path / "data" / rows_file(0, 0, 0), "rows")
    assert rows["pay"].tolist() == [0.0, 0.0, 0.5]


def test_auctionnet_rows_and_ticks_are_named(tmp_path):
    late = written(tmp_path / "late.parquet", auctionnet(timeStepIndex=[3, 3, 48]))
    told = r"timeStepIndex is not a whole number from 0 to 47 in 1 of 3 rows \(row 3: '48.0'\)"
    with pytest.raises(ValueError, match=told):
        import_logs([late], tmp_path / "data", "auctionnet")
    dear = written(tmp_path / "dear.parquet", auctionnet(cost=[0.8, 2010.0, 0.0]))
    told = r"pay is more than the budget.*\(period 7, advertiser 4, tick 3: '2010.8'"
    with pytest.raises(ValueError, match=told):
        import_logs([dear], tmp_path / "data", "auctionnet")


def test_auctionnet_ticks_of_two_files_are_refused(tmp_path):
    """A copy of a file would count twice, even where its budget or its category was changed."""
    one, copy = tmp_path / "period-7.parquet", tmp_path / "period-7 (1).parquet"
    written(one, auctionnet())
    for changes in ({}, {"budget": [2500.0] * 3}):
        written(copy, auctionnet(**changes))
        told = (
            rf"^{re.escape(f'{one} and {copy}')} both have rows of period 7, advertiser 4, tick 3"
            r", and of 1 more; .* twice\. .* Nothing was written$"
        )
        with pytest.raises(ValueError, match=told):
            import_logs([one, copy], tmp_path / "data", "auctionnet")
    assert not (tmp_path / "data").exists()
    written(copy, auctionnet(timeStepIndex=[5, 5, 6]))  # another part of the same day
    import_logs([one, copy], tmp_path / "data", "auctionnet")
    rows = read_table(tmp_path / "data" / rows_file(0, 0, 0), "rows")
    np.testing.assert_allclose(rows["pay"], [2.0, 0.0, 2.0, 0.0])


def test_auctionnet_without_its_columns_is_refused(tmp_path):
    path = written(tmp_path / "log.parquet", log())
    with pytest.raises(ValueError, match=r"has no column deliveryPeriodIndex.*; it has week, day"):
        import_logs([path], tmp_path / "data", "auctionnet")
    path = written(tmp_path / "bad.parquet", auctionnet(cost=[-1.0, 0.0, 0.0]))
    with pytest.raises(ValueError, match=r"cost is not a number from 0 to .* in 1 of 3 rows"):
        import_logs([path], tmp_path / "data", "auctionnet")
