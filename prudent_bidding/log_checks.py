"""The documented columns of a log, and the checks of its rows."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from prudent_bidding.cache import before_in_day
from prudent_bidding.schema import AD, CATEGORY, DAYS, K_HIGH, K_LOW, USER

NAMED = 3  # rows that a complaint names; the others are counted
ROUNDING = 1e-3  # of a day's budget: what the rounded pay of its rows may add up to beyond it
BID_ROUNDING = 2e-3  # of a bid: its k and three predictions may have been in half precision
DAY = ("week", "day", "advertiser")  # what names one

Table = dict[str, np.ndarray]
RowName = Callable[[int], str]  # of a row's place in a table, as its owner finds it


class Refused(ValueError):
    """A log that cannot be imported, and the rows that are the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}. Nothing was written")


class Column(NamedTuple):
    low: float
    high: float
    whole: bool = False
    default: float | None = None  # None: the column is needed
    open_low: bool = False
    open_high: bool = False

    def holds(self, values: np.ndarray) -> np.ndarray:
        above = values > self.low if self.open_low else values >= self.low
        below = values < self.high if self.open_high else values <= self.high
        return above & below & ((values == np.floor(values)) | (not self.whole))

    def __str__(self) -> str:
        low, high = "above" if self.open_low else "from", "to below" if self.open_high else "to"
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} {low} {self.low:g} {high} {self.high:g}"


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


class Faults:
    """What is wrong with a table, column by column: the first rows at fault, and how many."""

    def __init__(self, named: RowName) -> None:
        self.named, self.found = named, list[str]()

    def add(self, what: str, wrong: np.ndarray, values: np.ndarray) -> None:
        rows = np.flatnonzero(wrong).tolist()
        if rows:
            shown = [f"{self.named(row)}: {str(values[row])[:40]!r}" for row in rows[:NAMED]]
            more = f", and {len(rows) - NAMED} more" if len(rows) > NAMED else ""
            self.found.append(
                f"{what} in {len(rows)} of {len(wrong)} rows ({', '.join(shown)}{more})"
            )

    def add_column(self, name: str, rule: Column, raw: np.ndarray) -> np.ndarray:
        """Check a column; returns it as numbers."""
        values, wrong = as_numbers(raw)
        self.add(f"{name} is not a number", wrong, raw)
        self.add(f"{name} is not {rule}", ~wrong & ~rule.holds(values), raw)
        return values

    def refuse(self, start: str = "") -> None:
        if self.found:
            raise Refused(start + "; ".join(self.found))


def check_columns(
    path: Path, found: Sequence[str], needed: Iterable[str], known: Iterable[str]
) -> None:
    missing = [name for name in needed if name not in found]
    if missing:
        raise Refused(f"{path} has no column {', '.join(missing)}; it has {', '.join(found)}")
    twice = [name for name in known if found.count(name) > 1]
    if twice:
        raise Refused(f"{path} has two columns {twice[0]}; leave one out")


def as_array(column: pa.ChunkedArray) -> np.ndarray:
    """Numbers where they are numbers, missing ones as NaN; else what stands there."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return np.array(column.to_pylist(), object)
    found: np.ndarray = pc.cast(column, pa.float64(), safe=False).to_numpy()
    return found


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


def checked_table(raw: Table, named: RowName, one_bid: bool = True) -> Table:
    """The columns as numbers, or one line that names the first rows at fault and counts all.

    `one_bid`: all requests of a record were bid for alike, so that k says what a win costs at most.
    """
    faults = Faults(named)
    count = len(next(iter(raw.values())))
    if not count:
        raise Refused("the log has no rows")
    table = {
        name: faults.add_column(name, rule, raw[name])
        if name in raw
        else np.full(count, rule.default)
        for name, rule in COLUMNS.items()
    }
    faults.refuse()
    check_outcomes(table, raw, one_bid, faults)
    for name in ("target_roi", "budget", "category", *AD, *CATEGORY):
        differs = differs_within(table, ("week", "advertiser"), name)
        faults.add(f"{name} is not the same in all of an advertiser's week", differs, table[name])
    paid = paid_so_far(table)
    over = paid > table["budget"] * (1 + ROUNDING)
    faults.add("pay is more than the budget, added up over the day,", over, paid)
    arm = differs_within(table, DAY, "arm")
    faults.add("arm is not the same in all of an advertiser's day", arm, table["arm"])
    faults.refuse()
    return table


def check_outcomes(table: Table, given: Collection[str], one_bid: bool, faults: Faults) -> None:
    """Nothing comes of a record without a win, and none costs more than was bid."""
    win, conv, pay, gmv = (table[name] for name in ("win", "conv", "pay", "gmv"))
    came = (pay > 0) | (conv > 0) | (gmv > 0)
    if "win" not in given:
        table["win"] = came.astype(float)
    else:
        unwon = (win == 0) & came
        faults.add("win is 0 where something was paid, converted or earned", unwon, win)
    if "win" in given and one_bid:
        # Multiplied by the target, which may be so small that a bid has no number.
        most = win * table["k"] * table["pctr"] * table["pcvr"] * table["pgmv"]
        dear = (win > 0) & (pay * table["target_roi"] > most * (1 + BID_ROUNDING))
        what = "more than its wins can cost (win * k * pctr * pcvr * pgmv / target_roi)"
        faults.add(f"pay is {what}", dear, pay)
    if "conv" in given:
        faults.add("conv is 0 where there is gmv", (conv == 0) & (gmv > 0), conv)
        faults.add("gmv is 0 where something was converted", (conv > 0) & (gmv == 0), gmv)


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
