"""What the manifest of a finished week vouches for, and files held against it before they are read.

Of older simulated weeks it does not know the table of advertisers, which is then believed.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prudent_bidding.day import Known, nothing_known
from prudent_bidding.schema import (
    MANIFEST,
    advertisers_file,
    carried_file,
    ledger_file,
    rows_file,
    week_folder,
)
from prudent_bidding.shards import read_table

Table = dict[str, np.ndarray]


class DamagedWeek(ValueError):
    """Files of a week that are not there, not whole, or do not fit each other."""


class Shard(NamedTuple):
    """One day of one block, and the checksums of its files."""

    day: int
    block: int
    rows: str
    ledger: str
    oracle_ledger: str | None  # imported logs have no oracle


def read_manifest(data: Path, week: int) -> dict[str, Any]:
    path = data / week_folder(week) / MANIFEST
    if not path.exists():
        raise DamagedWeek(f"{path.parent} is not finished (there is no {MANIFEST})")
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found.get("shards"):
        raise DamagedWeek(f"{path} lists no files; restore it, or make the week anew")
    return found


def shards_of(data: Path, week: int) -> list[Shard]:
    """In the order in which they are packed."""
    entries = read_manifest(data, week)["shards"]
    try:
        return sorted(shard_of(entry) for entry in entries)
    except (KeyError, TypeError):
        path = data / week_folder(week) / MANIFEST
        raise DamagedWeek(f"{path} lacks checksums; restore it, or make the week anew") from None


def shard_of(entry: dict[str, Any]) -> Shard:
    """As `simulate` writes it, with its rows' checksum in front, or `importing`."""
    rows = entry if "sha256" in entry else entry["rows"]
    oracle = entry["oracle"][0]["sha256"] if entry.get("oracle") else None
    return Shard(entry["day"], entry["block"], rows["sha256"], entry["ledger"]["sha256"], oracle)


def check_whole(path: Path, sha256: str) -> None:
    """Refuse a file that is not the one which the manifest was written for."""
    advice = "restore it, or make the week anew"
    if not path.is_file():
        raise DamagedWeek(f"{path} is missing; {advice}")
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
            raise DamagedWeek(f"{path} was altered since its week was finished; {advice}")


def read_rows(data: Path, week: int, shard: Shard) -> Table:
    path = data / rows_file(week, shard.day, shard.block)
    check_whole(path, shard.rows)
    return read_table(path, "rows")


def read_ledger(data: Path, week: int, shard: Shard) -> Table:
    path = data / ledger_file(week, shard.day, shard.block)
    check_whole(path, shard.ledger)
    return read_table(path, "ledger")


def read_advertisers(data: Path, week: int) -> Table:
    path = data / advertisers_file(week)
    vouched = read_manifest(data, week).get("advertisers")
    if vouched:
        check_whole(path, vouched["sha256"])
    return read_table(path, "advertisers")


def known_at_start(
    data: Path, week: int, adv: np.ndarray, slots: np.ndarray, carried: str | None
) -> Known:
    """What is known of these advertisers when a week begins, from what the week before left, of
    which `carried` is the checksum. Newcomers have no past.
    """
    known = nothing_known(len(slots))
    if carried is None:
        return known
    path = data / carried_file(week - 1)
    check_whole(path, carried)
    before = read_table(path, "carried")
    same = before["adv"][slots] == adv
    gmv, fair, pay = (before[name][slots] * same for name in ("gmv", "fair_pay", "pay"))
    return known._replace(carried_gmv=gmv, carried_fair=fair, carried_pay=pay)
