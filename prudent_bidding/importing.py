"""`prudent bidding import`: a log as a data set, checked row by row, written whole or not at all.

`log_checks.COLUMNS` are the columns of the documented format; `auctionnet` reads AuctionNet's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import tyro

from prudent.cli.options import read
from prudent.files import new_folder, to_json, write_atomically
from prudent_bidding import schema
from prudent_bidding.assignment import volume_deciles
from prudent_bidding.auctionnet import read_auctionnet
from prudent_bidding.day import Known, make_ledger, next_known, nothing_known
from prudent_bidding.log_checks import (
    COLUMNS,
    Refused,
    RowName,
    Table,
    as_array,
    check_columns,
    checked_table,
    in_time,
)
from prudent_bidding.observation import DECAY
from prudent_bidding.schema import AD, CATEGORY, DAYS, MANIFEST, USER, WORLD
from prudent_bidding.shards import write_table
from prudent_bidding.simulate import write_known

SUFFIXES = (".parquet", ".csv")
FORMAT = 1


def import_logs(logs: Sequence[Path], out: Path, layout: str = "prudent") -> list[str]:
    """Check the files and write a data set; returns what there is to say about it."""
    notes: list[str] = []
    paths = files_of(logs, notes)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise Refused(f"{out} is there already; choose another folder with --out")
    table = read_auctionnet(paths, notes) if layout == "auctionnet" else read_logs(paths, notes)
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
            found += [p for p in inside if p.suffix.lower() in SUFFIXES]
            others = [p.name for p in inside if p.suffix.lower() not in SUFFIXES]
            if others:
                more = f", and {len(others) - 1} more" if others[1:] else ""
                endings = " nor ".join(SUFFIXES)
                notes.append(
                    f"{log}: not read, since it ends in neither {endings}: {others[0]}{more}"
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
        raise Refused(f"{twice[0]} is named twice; its rows would count twice")
    return found


def read_logs(paths: Sequence[Path], notes: list[str]) -> Table:
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
        raise Refused("the files have different columns; give them the same")
    if unread:  # all are named: one may be a misspelt one that may be missing
        notes.append(f"columns not read, since none of these is known: {', '.join(unread)}")
    raw = {name: np.concatenate([as_array(part[name]) for part in parts]) for name in parts[0]}
    return checked_table(raw, row_in_file(paths, np.array(lengths)))


def read_arrow(path: Path) -> pa.Table:
    """As it is; a CSV's columns in the types that they look like."""
    try:
        if path.suffix.lower() == ".csv":
            return pa_csv.read_csv(path)
        with pq.ParquetFile(path) as file:
            return file.read()
    except (OSError, pa.ArrowException) as error:
        raise Refused(f"{path} cannot be read ({' '.join(str(error).split())})") from None


def row_in_file(paths: Sequence[Path], lengths: np.ndarray) -> RowName:
    ends = np.cumsum(lengths)

    def named(row: int) -> str:
        at = int(np.searchsorted(ends, row, side="right"))
        number = f"row {row - int(ends[at] - lengths[at]) + 1}"
        return number if len(paths) == 1 else f"{paths[at]} {number}"

    return named


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
        part = chosen(table, table["week"] == week)
        manifest, known = write_week(folder, week, part, everybody, known)
        carried_out = write_known(folder, week, everybody, known).sha256
        manifest |= {"carried_in": carried_in, "carried_out": carried_out}
        text = (to_json(manifest, indent=1) + "\n").encode()
        write_atomically(folder / schema.week_folder(week) / MANIFEST, text)
        carried_in = carried_out
    return weeks


def chosen(table: Table, rows: np.ndarray) -> Table:
    return {name: values[rows] for name, values in table.items()}


def write_week(
    folder: Path, week: int, table: Table, everybody: np.ndarray, known: Known
) -> tuple[dict[str, Any], Known]:
    """A week's files; returns its manifest but for what it carries on, and what is known after."""
    adv, first, rows = np.unique(table["advertiser"], return_index=True, return_counts=True)
    volume = np.minimum(rows / len(np.unique(table["day"])), 65_535)
    people = {
        **{name: table[name][first] for name in ("budget", "category", *CATEGORY, *AD)},
        "adv": adv,
        "slot": np.searchsorted(everybody, adv),
        "block": np.zeros(len(adv)),
        "volume_decile": volume_deciles(volume),
        "volume": volume,
        "log_roi": np.log(table["target_roi"][first]),
    }
    advertisers = write(folder / schema.advertisers_file(week), "advertisers", people)
    shards = []
    for day in range(DAYS):  # those without a row are past too
        total = {name: np.zeros(len(everybody)) for name in ("pay", "gmv", "fair_pay")}
        part = chosen(table, table["day"] == day)
        if len(part["day"]):
            shard, ledger = write_day(folder, week, day, part)
            shards.append(shard)
            slot = np.searchsorted(everybody, ledger["adv"])
            for name, values in total.items():
                values[slot] = ledger[name]
        known = next_known(known, total)
    manifest = {
        "format": FORMAT,
        "week": week,
        "imported": True,
        "rows": len(table["day"]),
        "shards": shards,
        "advertisers": advertisers,
    }
    return manifest, known


def write_day(folder: Path, week: int, day: int, table: Table) -> tuple[dict[str, Any], Table]:
    """A day's files; returns its entry in the manifest, and its ledger."""
    adv, owner, length = np.unique(table["advertiser"], return_inverse=True, return_counts=True)
    start = np.cumsum(length) - length
    if length.max() > np.iinfo(np.uint16).max:
        raise Refused(
            f"advertiser {adv[length.argmax()]:.0f} has {length.max()} rows on day {day} of week "
            f"{week}; at most {np.iinfo(np.uint16).max} can be told apart"
        )
    last = start + length - 1
    done = np.full(len(owner), schema.GOES_ON)
    spent = np.bincount(owner, table["pay"]) >= 0.999 * table["budget"][start]
    done[last] = np.where(spent, schema.BUDGET_SPENT, schema.DAY_ENDED)
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
    fair = table["pay"] / table["k"]
    ledger = make_ledger(adv, table["arm"][start], owner, length, rows, fair)
    place = (week, day, 0)
    entry = {
        "day": day,
        "block": 0,
        "rows": write(folder / schema.rows_file(*place), "rows", rows),
        "ledger": write(folder / schema.ledger_file(*place), "ledger", ledger),
    }
    return entry, ledger


def write(path: Path, kind: str, table: Table) -> dict[str, Any]:
    """With the types of its kind; returns what the manifest says of it."""
    typed = {name: table[name].astype(dtype) for name, dtype in schema.KINDS[kind].items()}
    return write_table(path, kind, typed, {})._asdict()


@dataclass(frozen=True)
class ImportOptions:
    log: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Parquet or CSV files (a folder: all of them in it)."""
    out: Path
    """A new folder for the data set."""
    format: Literal["prudent", "auctionnet"] = "prudent"
    """Whose columns: ours (docs/semi-batch.md) or AuctionNet's."""


def main(arguments: list[str]) -> None:
    options = read(ImportOptions, "prudent bidding import", arguments)
    for line in import_logs(options.log, options.out, options.format):
        print(line)
