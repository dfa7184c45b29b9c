"""Somebody's own log as a data set: checked row by row, then written whole or not at all.

`COLUMNS` are those of our own format, `AUCTIONNET` those of AuctionNet's published logs, in which a
row is one request and one advertiser; there, the requests of a half-hour tick become one record.
An advertiser's CPA target c becomes a target ROI of 1 with conversions worth c each: paying at most
c per conversion and earning at least what was paid are the same promise.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from prudent.files import new_folder, to_json, write_atomically
from prudent_bidding import schema
from prudent_bidding.assignment import volume_deciles
from prudent_bidding.dataset import before_in_day
from prudent_bidding.day import Known, next_known, nothing_known
from prudent_bidding.observation import DECAY
from prudent_bidding.schema import AD, CATEGORY, DAYS, K_HIGH, K_LOW, MANIFEST, USER, WORLD
from prudent_bidding.shards import Written, read_table, write_table
from prudent_bidding.simulate import write_known

NAMED = 3  # rows that a complaint names; the others are counted
SUFFIXES = (".parquet", ".csv")
ROUNDING = 1e-3  # of a day's budget: what the rounded pay of its rows may add up to beyond it
BID_ROUNDING = 2e-3  # of a bid: its k and three predictions may have been in half precision
FORMAT = 1


class Column(NamedTuple):
    low: float
    high: float
    whole: bool = False
    default: float | None = None  # None: the column is needed
    open_low: bool = False
    open_high: bool = False


MONEY = Column(0.0, 3e38)
NUMBER = Column(-6e4, 6e4, default=0.0)
COLUMNS: Mapping[str, Column] = {
    "week": Column(0, 10_000, whole=True),
    "day": Column(0, DAYS - 1, whole=True),  # 0 is Monday
    "hour": Column(0.0, 24.0, open_high=True),  # when the record arrived
    "advertiser": Column(0, 2**32 - 1, whole=True),
    "target_roi": Column(0.0, 1e6, open_low=True),  # GMV / pay; one per advertiser and week
    "budget": Column(0.0, 1e15, open_low=True),  # of a day; one per advertiser and week
    "pctr": Column(0.0, 1.0, open_low=True),  # predictions
    "pcvr": Column(0.0, 1.0, open_low=True),
    "pgmv": Column(0.0, 1e9, open_low=True),
    "k": Column(K_LOW, K_HIGH),  # bid = k * pctr * pcvr * pgmv / target_roi
    "pay": MONEY,
    "gmv": MONEY,
    "win": Column(0, 65_535, whole=True, default=0.0),  # without it: 1 where something came of it
    "conv": Column(0, 65_535, whole=True, default=0.0),
    "arm": Column(0, 255, whole=True, default=0.0),
    "category": Column(0, 255, whole=True, default=0.0),
    **dict.fromkeys((*USER, *AD, *CATEGORY), NUMBER),
}
AUCTIONNET = (
    *("deliveryPeriodIndex", "advertiserNumber", "advertiserCategoryIndex", "budget"),
    *("CPAConstraint", "timeStepIndex", "pValue", "bid", "xi", "cost", "isExposed"),
    *("conversionAction", "isEnd"),
)
AUCTIONNET_KEYS = AUCTIONNET[:6]
TICK = ("deliveryPeriodIndex", "advertiserNumber", "timeStepIndex")  # what names one
TICKS = 48
AMOUNT, FLAG = Column(0.0, 1e15), Column(0, 1, whole=True)
REQUEST: Mapping[str, Column] = {
    "timeStepIndex": Column(0, TICKS - 1, whole=True),
    **dict.fromkeys(("xi", "isExposed", "conversionAction", "isEnd"), FLAG),
}

Table = dict[str, np.ndarray]
RowName = Callable[[int], str]  # of a row's place in a table, as its owner finds it


class Refused(ValueError):
    """A log that cannot be imported, and the rows that are the reason."""


def import_logs(logs: Sequence[Path], out: Path, layout: str = "prudent") -> list[str]:
    """Check the files and write a data set; returns what there is to say about it."""
    notes: list[str] = []
    paths = files_of(logs, notes)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise Refused(f"{out} is there already; choose another folder with --out")
    table = from_auctionnet(paths, notes) if layout == "auctionnet" else from_files(paths, notes)
    order = in_time(table)
    table = {name: values[order] for name, values in table.items()}
    with new_folder(out) as folder:
        weeks = write_weeks(folder, table, [path.name for path in paths])
    return [
        *notes,
        f"{out}: {len(order):,} rows of {len(np.unique(table['advertiser'])):,} advertisers, "
        f"weeks {', '.join(map(str, weeks))}",
    ]


def files_of(logs: Sequence[Path], notes: list[str]) -> list[Path]:
    found: list[Path] = []
    for log in logs:
        if log.is_dir():
            inside = sorted(p for p in log.iterdir() if not p.name.startswith("."))
            found += [p for p in inside if suffix_of(p) in SUFFIXES]
            others = [p.name for p in inside if suffix_of(p) not in SUFFIXES]
            if others:
                endings = " nor ".join(SUFFIXES)
                notes.append(
                    f"{log}: not read, since it ends in neither {endings}: {others[0]}"
                    + (f", and {len(others) - 1} more" if others[1:] else "")
                )
        elif log.is_file():
            found.append(log)
        else:
            raise Refused(f"there is no file {log}")
    if not found:
        told = "".join(f"{note}; " for note in notes)
        raise Refused(f"{told}a log is needed: Parquet or CSV files, or a folder of them")
    real = [path.resolve() for path in found]
    twice = [path for path, place in zip(found, real, strict=True) if real.count(place) > 1]
    if twice:
        raise Refused(f"{twice[0]} is named twice; its rows would count twice. Nothing was written")
    return found


def suffix_of(path: Path) -> str:
    return path.suffix.lower()


def read_arrow(path: Path) -> pa.Table:
    """As it is; a CSV's columns in the types that they look like."""
    try:
        if suffix_of(path) == ".csv":
            return pa_csv.read_csv(path)
        with pq.ParquetFile(path) as file:
            return file.read()
    except (OSError, pa.ArrowException) as error:
        raise Refused(f"{path} cannot be read ({' '.join(str(error).split())})") from None


def from_files(paths: Sequence[Path], notes: list[str]) -> Table:
    """The documented columns of all files, one behind the other, checked."""
    parts, lengths, unread = [], [], dict[str, None]()
    needed = [name for name, column in COLUMNS.items() if column.default is None]
    for path in paths:
        table = read_arrow(path)
        check_columns(path, table.column_names, needed, COLUMNS)
        parts.append({n: table.column(n) for n in COLUMNS if n in table.column_names})
        lengths.append(len(table))
        unread |= dict.fromkeys(name for name in table.column_names if name not in COLUMNS)
    if len({frozenset(part) for part in parts}) > 1:
        raise Refused("the files have different columns; give them the same. Nothing was written")
    if unread:  # all are named: one may be a slip of the pen for a column that may be missing
        notes.append(f"columns not read, since none of these is known: {', '.join(unread)}")
    raw = {name: np.concatenate([as_array(part[name]) for part in parts]) for name in parts[0]}
    return checked_table(raw, by_file(paths, np.array(lengths)))


def check_columns(
    path: Path, found: Sequence[str], needed: Iterable[str], known: Iterable[str]
) -> None:
    missing = [name for name in needed if name not in found]
    if missing:
        raise Refused(
            f"{path} has no column {', '.join(missing)}; it has {', '.join(found)}. "
            "Nothing was written"
        )
    twice = [name for name in known if found.count(name) > 1]
    if twice:
        raise Refused(f"{path} has two columns {twice[0]}; leave one out. Nothing was written")


def by_number(row: int) -> str:
    return f"row {row + 1}"


def by_file(paths: Sequence[Path], lengths: np.ndarray) -> RowName:
    ends = np.cumsum(lengths)

    def named(row: int) -> str:
        at = int(np.searchsorted(ends, row, side="right"))
        number = by_number(row - int(ends[at] - lengths[at]))
        return number if len(paths) == 1 else f"{paths[at]} {number}"

    return named


def as_array(column: pa.ChunkedArray) -> np.ndarray:
    """Numbers where they are numbers, missing ones as NaN; else what stands there."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return np.array(column.to_pylist(), object)
    found: np.ndarray = pc.cast(column, pa.float64(), safe=False).to_numpy()
    return found


def checked_table(raw: Table, named: RowName, one_bid: bool = True) -> Table:
    """The columns as numbers, or one line that names the first rows at fault and counts all.

    `one_bid`: all requests of a record were bid for alike, so that k says what a win costs at most.
    """
    faults: list[str] = []
    table: Table = {}
    count = len(next(iter(raw.values())))
    if not count:
        raise Refused("the log has no rows. Nothing was written")

    def complain_of(name: str, what: str, wrong: np.ndarray, values: np.ndarray) -> None:
        complain(faults, f"{name} is {what}", wrong, values, named)

    for name, rule in COLUMNS.items():
        if name not in raw:
            table[name] = np.full(count, rule.default)
            continue
        values, wrong_type = as_numbers(raw[name])
        complain_of(name, "not a number", wrong_type, raw[name])
        known = ~wrong_type
        outside = known & ~within(values, rule)
        complain_of(name, f"not {described(rule)}", outside, raw[name])
        table[name] = values
    if not faults:
        check_outcomes(table, raw, one_bid, complain_of)
        for name in ("target_roi", "budget", "category", *AD, *CATEGORY):
            differs = differs_within(table, ("week", "advertiser"), name)
            complain_of(name, "not the same in all of an advertiser's week", differs, table[name])
        paid = paid_so_far(table)
        over = paid > table["budget"] * (1 + ROUNDING)
        complain_of("pay", "more than the budget, added up over the day,", over, paid)
        arm = differs_within(table, DAY, "arm")
        complain_of("arm", "not the same in all of an advertiser's day", arm, table["arm"])
    if faults:
        raise Refused("; ".join(faults) + ". Nothing was written")
    return table


def check_outcomes(
    table: Table,
    given: Collection[str],
    one_bid: bool,
    complain_of: Callable[[str, str, np.ndarray, np.ndarray], None],
) -> None:
    """Nothing comes of a record without a win, and none costs more than was bid."""
    win, conv, pay, gmv = (table[name] for name in ("win", "conv", "pay", "gmv"))
    came = (pay > 0) | (conv > 0) | (gmv > 0)
    if "win" not in given:
        table["win"] = came.astype(float)
    else:
        unwon = (win == 0) & came
        complain_of("win", "0 where something was paid, converted or earned", unwon, win)
    if "win" in given and one_bid:
        # Multiplied by the target, which may be so small that a bid has no number.
        most = win * table["k"] * table["pctr"] * table["pcvr"] * table["pgmv"]
        dear = (win > 0) & (pay * table["target_roi"] > most * (1 + BID_ROUNDING))
        what = "more than its wins can cost (win * k * pctr * pcvr * pgmv / target_roi)"
        complain_of("pay", what, dear, pay)
    if "conv" in given:
        complain_of("conv", "0 where there is gmv", (conv == 0) & (gmv > 0), conv)
        complain_of("gmv", "0 where something was converted", (conv > 0) & (gmv == 0), gmv)


def as_numbers(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """f64, and where there is no number; Python's True and "1_0" are none in a log."""
    if column.dtype != object:
        return column, ~np.isfinite(column)
    values = np.full(len(column), np.nan)
    for row, entry in enumerate(column.tolist()):
        if isinstance(entry, bool) or "_" in str(entry):
            continue
        try:
            values[row] = float(entry)
        except (TypeError, ValueError):
            continue
    return values, ~np.isfinite(values)


def within(values: np.ndarray, rule: Column) -> np.ndarray:
    above = values > rule.low if rule.open_low else values >= rule.low
    found = above & (values < rule.high if rule.open_high else values <= rule.high)
    return found & (values == np.floor(values)) if rule.whole else found


def described(rule: Column) -> str:
    kind = "a whole number" if rule.whole else "a number"
    low, high = "above" if rule.open_low else "from", "to below" if rule.open_high else "to"
    return f"{kind} {low} {rule.low:g} {high} {rule.high:g}"


def complain(
    faults: list[str], what: str, wrong: np.ndarray, values: np.ndarray, named: RowName
) -> None:
    rows = np.flatnonzero(wrong)
    if not len(rows):
        return
    shown = ", ".join(f"{named(row)}: {str(values[row])[:40]!r}" for row in rows[:NAMED].tolist())
    more = f", and {len(rows) - NAMED} more" if len(rows) > NAMED else ""
    faults.append(f"{what} in {len(rows)} of {len(wrong)} rows ({shown}{more})")


DAY = ("week", "day", "advertiser")  # what names one


def in_time(table: Table) -> np.ndarray:
    """The order of days of advertisers and of the hours in them."""
    return np.lexsort((table["hour"], *(table[key] for key in reversed(DAY))))


def begins(table: Table, keys: Sequence[str], order: np.ndarray) -> np.ndarray:
    """Where, in this order, a row has other keys than the one before."""
    found = np.zeros(len(order), bool)
    found[0] = True
    for key in keys:
        values = table[key][order]
        found[1:] |= values[1:] != values[:-1]
    return found


def paid_so_far(table: Table) -> np.ndarray:
    """What an advertiser's day has come to, each row included."""
    order = in_time(table)
    lengths = np.diff(np.append(np.flatnonzero(begins(table, DAY, order)), len(order)))
    pay = table["pay"][order]
    found = np.empty(len(order))
    found[order] = before_in_day(pay, lengths) + pay
    return found


def differs_within(table: Table, keys: Sequence[str], name: str) -> np.ndarray:
    """Rows whose value is not that of the first row with the same keys."""
    order = np.lexsort(tuple(table[key] for key in reversed(keys)))
    first = np.maximum.accumulate(np.where(begins(table, keys, order), np.arange(len(order)), 0))
    values = table[name][order]
    wrong = np.zeros(len(order), bool)
    wrong[order] = values != values[first]
    return wrong


def from_auctionnet(paths: Sequence[Path], notes: list[str]) -> Table:
    """Half-hour records of AuctionNet's requests, in our columns."""
    parts = [tick_sums(path) for path in paths]
    check_apart(paths, parts)
    joined = pa.concat_tables(parts)
    raw = {name: joined.column(name).to_numpy().astype(float) for name in joined.column_names}
    # From when its budget is spent an advertiser has ticks in which nobody bids for it.
    over = (raw["isEnd"] > 0) & (raw["bid"] == 0)
    if over.any():
        notes.append(f"{over.sum():,} ticks are left out: their day had ended (isEnd 1, bid 0)")
        raw = {name: values[~over] for name, values in raw.items()}
    if not len(raw["bid"]):
        raise Refused("the log has no tick in which something was bid. Nothing was written")
    period, tick = raw["deliveryPeriodIndex"], raw["timeStepIndex"]
    first = period.min() // DAYS * DAYS
    value, bids = raw["pValue"], raw["bid"]
    cpa = raw["CPAConstraint"]
    k = np.divide(bids, value * cpa, out=np.full(len(bids), K_LOW), where=value * cpa > 0)
    outside = int(np.sum((k < K_LOW) | (k > K_HIGH)))
    if outside:
        notes.append(
            f"{outside:,} of {len(k):,} records bid less than {K_LOW} or more than {K_HIGH} times "
            "the value at target; their k is taken as that bound"
        )
    requests = np.maximum(raw["requests"], 1.0)
    table = {
        "week": (period - first) // DAYS,
        "day": (period - first) % DAYS,
        "hour": tick * (24.0 / TICKS),
        "advertiser": raw["advertiserNumber"],
        "target_roi": np.ones(len(k)),
        "budget": raw["budget"],
        "pctr": np.ones(len(k)),  # the log has the product of both only
        "pcvr": np.clip(value / requests, 1e-9, 1.0),
        "pgmv": cpa,
        "k": np.clip(k, K_LOW, K_HIGH),
        "pay": raw["cost"],
        "gmv": raw["conversionAction"] * cpa,
        "win": np.minimum(raw["xi"], 65_535),
        "conv": np.minimum(raw["conversionAction"], 65_535),
        "category": raw["advertiserCategoryIndex"],
    }
    return checked_table(
        table,
        lambda row: tick_name(*(raw[name][row] for name in TICK)),
        one_bid=False,  # the requests of a tick are summed up
    )


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
            "twice. Put the rows of a tick into one file. Nothing was written"
        )


def tick_sums(path: Path) -> pa.Table:
    """Totals of each (period, advertiser, tick) in one file, read in parts that fit memory."""
    parts, first = [], 0
    for batch in batches(path):
        parts.append(summed(with_requests(batch, path, first)))
        first += len(batch)
    if not parts:
        raise Refused(f"{path} has no rows. Nothing was written")
    return summed(pa.concat_tables(parts))


def batches(path: Path) -> Iterable[pa.Table]:
    try:
        if suffix_of(path) == ".csv":
            # Else the first of a file's parts would decide whether a column has whole numbers.
            types = pa_csv.ConvertOptions(column_types=dict.fromkeys(AUCTIONNET, pa.float64()))
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
    check_columns(path, table.column_names, AUCTIONNET, AUCTIONNET)
    faults: list[str] = []
    columns = {}
    for name in AUCTIONNET:
        rule = REQUEST.get(name, AMOUNT)
        column = table.column(name)
        if rule == FLAG and pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        found = as_array(column)
        values, wrong = as_numbers(found)
        outside = ~wrong & ~within(values, rule)
        for what, rows in (("a number", wrong), (described(rule), outside)):
            complain(
                faults, f"{name} is not {what}", rows, found, lambda row: by_number(first + row)
            )
        columns[name] = values
    if faults:
        raise Refused(f"{path}: {'; '.join(faults)}. Nothing was written")
    # `cost` is the price of a slot; it is paid where the ad is shown.
    columns["cost"] = columns["cost"] * columns["isExposed"]
    return pa.table({**columns, "requests": np.ones(len(table))})


def summed(table: pa.Table) -> pa.Table:
    values = [name for name in table.column_names if name not in AUCTIONNET_KEYS]
    found = table.group_by(AUCTIONNET_KEYS).aggregate([(name, "sum") for name in values])
    names = [name.removesuffix("_sum") for name in found.column_names]
    return found.rename_columns(names)


def write_weeks(folder: Path, table: Table, sources: Sequence[str]) -> list[int]:
    """Files of every week; rows come in the order of week, day, advertiser and hour."""
    content = {"format": FORMAT, "imported": list(sources)}
    write_atomically(folder / WORLD, (to_json(content, indent=2) + "\n").encode())
    weeks = np.unique(table["week"]).astype(int).tolist()
    everybody = np.unique(table["advertiser"]).astype(np.uint32)  # an advertiser's place: its slot
    known, carried_in = nothing_known(len(everybody)), None
    for place, week in enumerate(weeks):
        left_out = week - 1 - weeks[place - 1] if place else 0
        if left_out:  # the next week looks for what it is told in the one before
            known = Known(*(DECAY ** (DAYS * left_out) * column for column in known))
            carried_in = write_known(folder, week - 1, everybody, known).sha256
        chosen = table["week"] == week
        part = {name: values[chosen] for name, values in table.items()}
        manifest = write_week(folder, week, part, everybody)
        known = known_after(folder, manifest, everybody, known)
        carried_out = write_known(folder, week, everybody, known).sha256
        manifest |= {"carried_in": carried_in, "carried_out": carried_out}
        text = (to_json(manifest, indent=1) + "\n").encode()
        write_atomically(folder / schema.week_folder(week) / MANIFEST, text)
        carried_in = carried_out
    return weeks


def known_after(
    folder: Path, manifest: dict[str, Any], everybody: np.ndarray, known: Known
) -> Known:
    """With all days of a week, as the simulator adds them up; days without a row are past too."""
    written = [shard["day"] for shard in manifest["shards"]]
    for day in range(DAYS):
        total = {name: np.zeros(len(everybody)) for name in ("pay", "gmv", "fair_pay")}
        if day in written:
            ledger = read_table(folder / schema.ledger_file(manifest["week"], day, 0), "ledger")
            slot = np.searchsorted(everybody, ledger["adv"])
            for name, values in total.items():
                values[slot] = ledger[name]
        known = next_known(known, total)
    return known


def write_week(folder: Path, week: int, table: Table, everybody: np.ndarray) -> dict[str, Any]:
    """Its files but for what it carries on; returns what its manifest says of them."""
    adv, first, rows = np.unique(table["advertiser"], return_index=True, return_counts=True)
    days = np.unique(table["day"]).astype(int).tolist()
    volume = np.minimum(rows / len(days), 65_535)
    people = {name: table[name][first] for name in ("budget", "category", *CATEGORY, *AD)}
    advertisers = write_table(
        folder / schema.advertisers_file(week),
        "advertisers",
        typed(
            {
                **people,
                "adv": adv,
                "slot": np.searchsorted(everybody, adv),
                "block": np.zeros(len(adv)),
                "volume_decile": volume_deciles(volume),
                "volume": volume,
                "log_roi": np.log(table["target_roi"][first]),
            },
            "advertisers",
        ),
        {},
    )
    shards = []
    for day in days:
        chosen = table["day"] == day
        part = {name: values[chosen] for name, values in table.items()}
        shards.append(write_day(folder, week, day, part))
    return {
        "format": FORMAT,
        "week": week,
        "imported": True,
        "rows": sum(shard["rows"]["rows"] for shard in shards),
        "shards": shards,
        "advertisers": advertisers._asdict(),
    }


def write_day(folder: Path, week: int, day: int, table: Table) -> dict[str, Any]:
    adv, owner, length = np.unique(table["advertiser"], return_inverse=True, return_counts=True)
    start = np.cumsum(length) - length
    if length.max() > np.iinfo(np.uint16).max:
        raise Refused(
            f"advertiser {adv[length.argmax()]:.0f} has {length.max()} rows on day {day} of week "
            f"{week}; at most {np.iinfo(np.uint16).max} can be told apart. Nothing was written"
        )
    last = start + length - 1
    done = np.full(len(owner), schema.GOES_ON)
    done[last] = schema.DAY_ENDED
    spent = np.bincount(owner, table["pay"]) >= 0.999 * table["budget"][start]
    done[last[spent]] = schema.BUDGET_SPENT
    rows = {
        "adv": table["advertiser"],
        "day": table["day"],
        "t": np.arange(len(owner)) - start[owner],
        "hour": table["hour"],
        **{name: table[name] for name in USER},
        **{f"log_p{name}": np.log(table[f"p{name}"]) for name in ("ctr", "cvr", "gmv")},
        **{name: table[name] for name in ("k", "arm", "win", "conv", "pay", "gmv")},
        "seen": np.zeros(len(owner)),
        "done": done,
    }
    ledger = {
        "adv": adv,
        "arm": table["arm"][start],
        "rows": length,
        **{name: np.bincount(owner, table[name]) for name in ("win", "conv", "pay", "gmv")},
        "fair_pay": np.bincount(owner, table["pay"] / table["k"]),
        "k_sum": np.bincount(owner, table["k"]),
        "exhausted": spent,
    }
    place = (week, day, 0)
    found: dict[str, Written] = {
        "rows": write_table(folder / schema.rows_file(*place), "rows", typed(rows, "rows"), {}),
        "ledger": write_table(
            folder / schema.ledger_file(*place), "ledger", typed(ledger, "ledger"), {}
        ),
    }
    return {"day": day, "block": 0, **{name: w._asdict() for name, w in found.items()}}


def typed(table: Table, kind: str) -> Table:
    return {name: table[name].astype(dtype) for name, dtype in schema.KINDS[kind].items()}
