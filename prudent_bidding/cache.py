"""A logged week packed into one memory-mapped file, from which minibatches are drawn.

`week-W.rows` has PACKED records in the order of the shards (40 bytes each, day by day, advertiser
by advertiser, so the successor of a row is the next one unless it is the last of its day), and
`week-W.json`, written last, says what it was packed from. It is made again where it is missing, was
altered, or where the week itself was written anew.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from prudent.files import checksum, replacing, to_json, write_all, write_atomically, writing
from prudent_bidding.manifest import (
    DamagedWeek,
    Table,
    read_advertisers,
    read_ledger,
    read_rows,
    shards_of,
)
from prudent_bidding.schema import MANIFEST, USER, week_folder

PACKED = np.dtype(
    [
        ("place", "<u4"),  # of the advertiser in its week's table
        ("pay", "<f4"),
        ("gmv", "<f4"),
        ("day_pay", "<f4"),  # before this row
        ("day_gmv", "<f4"),  # what showed of it by then
        ("hour", "<f2"),
        ("user", "<f2", (len(USER),)),
        ("log_p", "<f2", (3,)),  # pCTR, pCVR, pGMV
        ("k", "<f2"),
        ("arm", "u1"),
        ("day_and_done", "u1"),  # day + 8 * done
    ]
)
FORMAT = 1  # of the cache
HOURS = 24
ROWS_AT_ONCE = 65_536  # where delayed GMV is counted hour by hour


def before_in_day(values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """f64, the sum of an advertiser's earlier values of the day; `lengths` of its advertisers."""
    total = np.cumsum(values, dtype=np.float64) - values
    lengths = lengths[lengths > 0]
    starts = np.cumsum(lengths) - lengths
    return total - np.repeat(total[starts], lengths)


def shown_before(rows: Table, lengths: np.ndarray) -> np.ndarray:
    """f64, what shows of an advertiser's GMV of the day when a row arrives."""
    if not rows["seen"].any():
        return before_in_day(rows["gmv"], lengths)
    found = np.empty(len(rows["gmv"]))
    for start, stop, days in whole_days(lengths[lengths > 0]):
        gmv, seen = rows["gmv"][start:stop], rows["seen"][start:stop]
        shows = np.zeros(stop - start)
        for hour in np.unique(seen[seen < HOURS]).tolist():
            counted = before_in_day(np.where(seen == hour, gmv, 0.0), days)
            shows += np.where(rows["hour"][start:stop] >= hour, counted, 0.0)
        found[start:stop] = shows
    return found


def whole_days(lengths: np.ndarray) -> Iterator[tuple[int, int, np.ndarray]]:
    """Parts of about ROWS_AT_ONCE rows that cut no advertiser's day: start, stop, lengths."""
    ends = np.cumsum(lengths)
    first, start = 0, 0
    while first < len(lengths):
        last = max(first + 1, int(np.searchsorted(ends, start + ROWS_AT_ONCE, side="right")))
        stop = int(ends[last - 1])
        yield start, stop, lengths[first:last]
        first, start = last, stop


def places_of(adv: np.ndarray, advertisers: np.ndarray) -> np.ndarray:
    """Where these advertisers stand in the week's table."""
    order = np.argsort(advertisers)
    at = np.minimum(np.searchsorted(advertisers, adv, sorter=order), len(order) - 1)
    places = order[at]
    if not np.array_equal(advertisers[places], adv):
        unknown = adv[advertisers[places] != adv][0]
        raise DamagedWeek(f"advertiser {unknown} is not in the week's advertisers.parquet")
    return places


def pack(rows: Table, ledger: Table, advertisers: np.ndarray) -> np.ndarray:
    """A shard as PACKED records."""
    lengths = ledger["rows"].astype(np.int64)
    if not np.array_equal(np.repeat(ledger["adv"], lengths), rows["adv"]):
        raise DamagedWeek("rows and ledger of a shard are not of the same advertisers")
    packed = np.empty(len(rows["adv"]), PACKED)
    packed["place"] = np.repeat(places_of(ledger["adv"], advertisers), lengths)
    for name in ("pay", "gmv", "hour", "k", "arm"):
        packed[name] = rows[name]
    packed["day_pay"] = before_in_day(rows["pay"], lengths)
    packed["day_gmv"] = shown_before(rows, lengths)
    packed["user"] = np.stack([rows[name] for name in USER], axis=1)
    packed["log_p"] = np.stack([rows[f"log_p{name}"] for name in ("ctr", "cvr", "gmv")], axis=1)
    packed["day_and_done"] = rows["day"] + 8 * rows["done"]
    return packed


def build_cache(data: Path, week: int, cache: Path) -> Path:
    """Pack a week unless that was done already; returns the file of its rows."""
    path, about = cache / f"week-{week}.rows", cache / f"week-{week}.json"
    shards = shards_of(data, week)
    source = checksum((data / week_folder(week) / MANIFEST).read_bytes())
    if is_fresh(path, about, source):
        return path
    with writing(cache):
        cache.mkdir(parents=True, exist_ok=True)
    advertisers = read_advertisers(data, week)["adv"]
    digest, size = hashlib.sha256(), 0
    with replacing(path) as descriptor:

        def write(content: bytes) -> None:
            write_all(descriptor, content)
            digest.update(content)

        for shard in shards:
            packed = pack(read_rows(data, week, shard), read_ledger(data, week, shard), advertisers)
            write(packed.tobytes())
            size += len(packed)
        write(bytes(PACKED.itemsize))  # an empty row, so that the last one has a successor too
        about.unlink(missing_ok=True)
    facts = {"format": FORMAT, "rows": size, "source": source, "sha256": digest.hexdigest()}
    write_atomically(about, (to_json(facts) + "\n").encode())
    return path


def is_fresh(path: Path, about: Path, source: str) -> bool:
    """Whether the cache is whole and packed from the week as it is now."""
    try:
        facts = json.loads(about.read_bytes())
        if (facts["format"], facts["source"]) != (FORMAT, source):
            return False
        if path.stat().st_size != (facts["rows"] + 1) * PACKED.itemsize:
            return False
        with path.open("rb") as file:
            return bool(hashlib.file_digest(file, "sha256").hexdigest() == facts["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
