"""AuctionNet's published logs, in which a row is one request and one advertiser.

The requests of a half-hour tick become one record. An advertiser's CPA target c becomes a target
ROI of 1 with conversions worth c each: paying at most c per conversion and earning at least what
was paid are the same promise.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from prudent_bidding.log_checks import (
    Column,
    Faults,
    Refused,
    Table,
    as_array,
    check_columns,
    checked_table,
)
from prudent_bidding.schema import DAYS, K_HIGH, K_LOW

COLUMNS = (
    *("deliveryPeriodIndex", "advertiserNumber", "advertiserCategoryIndex", "budget"),
    *("CPAConstraint", "timeStepIndex", "pValue", "bid", "xi", "cost", "isExposed"),
    *("conversionAction", "isEnd"),
)
KEYS = COLUMNS[:6]
TICK = ("deliveryPeriodIndex", "advertiserNumber", "timeStepIndex")  # what names one
TICKS = 48
AMOUNT, FLAG = Column(0.0, 1e15), Column(0, 1, whole=True)
RULES: Mapping[str, Column] = {
    **dict.fromkeys(COLUMNS, AMOUNT),
    **dict.fromkeys(("xi", "isExposed", "conversionAction", "isEnd"), FLAG),
    "timeStepIndex": Column(0, TICKS - 1, whole=True),
}


def read_auctionnet(paths: Sequence[Path], notes: list[str]) -> Table:
    """Half-hour records of the requests, in our columns."""
    parts = [tick_sums(path) for path in paths]
    check_apart(paths, parts)
    joined = pa.concat_tables(parts)
    raw = {name: joined.column(name).to_numpy().astype(float) for name in joined.column_names}
    # Once its budget is spent, an advertiser has ticks without a bid.
    over = (raw["isEnd"] > 0) & (raw["bid"] == 0)
    if over.any():
        notes.append(f"{over.sum():,} ticks are left out: their day had ended (isEnd 1, bid 0)")
        raw = {name: values[~over] for name, values in raw.items()}
    if not len(raw["bid"]):
        raise Refused("the log has no tick in which something was bid")
    period, value, cpa = raw["deliveryPeriodIndex"], raw["pValue"], raw["CPAConstraint"]
    first = period.min() // DAYS * DAYS
    k = np.divide(raw["bid"], value * cpa, out=np.full(len(cpa), K_LOW), where=value * cpa > 0)
    outside = int(np.sum((k < K_LOW) | (k > K_HIGH)))
    if outside:
        notes.append(
            f"{outside:,} of {len(k):,} records bid less than {K_LOW} or more than {K_HIGH} times "
            "the value at target; their k is taken as that bound"
        )
    table = {
        "week": (period - first) // DAYS,
        "day": (period - first) % DAYS,
        "hour": raw["timeStepIndex"] * (24.0 / TICKS),
        "advertiser": raw["advertiserNumber"],
        "target_roi": np.ones(len(k)),
        "budget": raw["budget"],
        "pctr": np.ones(len(k)),  # the log has the product of both only
        "pcvr": np.clip(value / np.maximum(raw["requests"], 1.0), 1e-9, 1.0),
        "pgmv": cpa,
        "k": np.clip(k, K_LOW, K_HIGH),
        "pay": raw["cost"],
        "gmv": raw["conversionAction"] * cpa,
        "win": np.minimum(raw["xi"], 65_535),
        "conv": np.minimum(raw["conversionAction"], 65_535),
        "category": raw["advertiserCategoryIndex"],
    }
    # The requests of a tick are summed up, each with a bid of its own.
    return checked_table(table, lambda row: tick_name(*(raw[n][row] for n in TICK)), one_bid=False)


def tick_name(period: float, advertiser: float, tick: float) -> str:
    return f"period {period:g}, advertiser {advertiser:g}, tick {tick:g}"


def check_apart(paths: Sequence[Path], parts: Sequence[pa.Table]) -> None:
    """Refuse a tick in two files: of a file and its copy all requests would count twice."""
    files = [
        part.select(TICK).append_column("file", pa.array(np.full(len(part), number)))
        for number, part in enumerate(parts)
    ]
    found = pa.concat_tables(files).group_by(TICK).aggregate([("file", "min"), ("file", "max")])
    shared = found.filter(pc.not_equal(found["file_min"], found["file_max"]))
    if len(shared):
        row = shared.sort_by([(name, "ascending") for name in TICK]).slice(0, 1).to_pylist()[0]
        others = f", and of {len(shared) - 1} more" if len(shared) > 1 else ""
        raise Refused(
            f"{paths[row['file_min']]} and {paths[row['file_max']]} both have rows of "
            f"{tick_name(*(row[name] for name in TICK))}{others}; what is in both would count "
            "twice. Put the rows of a tick into one file"
        )


def tick_sums(path: Path) -> pa.Table:
    """Totals of each (period, advertiser, tick) in one file, read in parts that fit memory."""
    parts, first = [], 0
    for batch in batches(path):
        parts.append(summed(with_requests(batch, path, first)))
        first += len(batch)
    if not parts:
        raise Refused(f"{path} has no rows")
    return summed(pa.concat_tables(parts))


def batches(path: Path) -> Iterable[pa.Table]:
    try:
        if path.suffix.lower() == ".csv":
            # Else the first of a file's parts would decide whether a column has whole numbers.
            types = pa_csv.ConvertOptions(column_types=dict.fromkeys(COLUMNS, pa.float64()))
            with pa_csv.open_csv(path, convert_options=types) as reader:
                for batch in reader:
                    yield pa.Table.from_batches([batch])
        else:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches():
                    yield pa.Table.from_batches([batch])
    except (OSError, pa.ArrowException) as error:
        raise Refused(f"{path} cannot be read ({' '.join(str(error).split())})") from None


def with_requests(table: pa.Table, path: Path, first: int) -> pa.Table:
    """Requests as numbers; `first` of the file's rows are before these."""
    check_columns(path, table.column_names, COLUMNS, COLUMNS)
    faults = Faults(lambda row: f"row {first + row + 1}")
    columns = {}
    for name, rule in RULES.items():
        column = table.column(name)
        if rule == FLAG and pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        columns[name] = faults.add_column(name, rule, as_array(column))
    faults.refuse(f"{path}: ")
    # `cost` is the price of a slot; it is paid where the ad is shown.
    columns["cost"] = columns["cost"] * columns["isExposed"]
    return pa.table({**columns, "requests": np.ones(len(table))})


def summed(table: pa.Table) -> pa.Table:
    values = [name for name in table.column_names if name not in KEYS]
    found = table.group_by(KEYS).aggregate([(name, "sum") for name in values])
    return found.rename_columns([name.removesuffix("_sum") for name in found.column_names])
