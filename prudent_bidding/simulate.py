"""A week of a world written to disk, on any engine, with the manifest that vouches for it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from prudent.files import checksum, to_json, write_atomically, writing
from prudent.runs.lock import only_writer
from prudent_bidding import schema
from prudent_bidding.assignment import Assignment, volume_deciles
from prudent_bidding.day import Known, advertisers_of
from prudent_bidding.manifest import DamagedWeek, read_manifest
from prudent_bidding.observation import DECAY
from prudent_bidding.policies import GREEDY, make_policy, network_file
from prudent_bidding.population import Week, make_week
from prudent_bidding.schema import DAYS, MANIFEST, WORLD
from prudent_bidding.shards import Written, write_table
from prudent_bidding.tasks import (
    FORMAT,
    Finished,
    Order,
    Task,
    block_slots,
    files_of,
    is_whole,
    known_before,
)
from prudent_bidding.world import VERSION, World, world_hash

Chain = Sequence[Task]  # each of which needs the one before
Stage = Sequence[Chain]  # which needs all of the stage before
# An engine: stages -> what their tasks did, as it is done.
Engine = Callable[[Sequence[Stage]], Iterator[Finished]]
Tell = Callable[[Finished], None]


def simulate_week(
    order: Order, engine: Engine, tell: Tell = lambda finished: None
) -> dict[str, Any]:
    """Write a week and its manifest, which is returned; what is there already is kept."""
    folder = Path(order.folder)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with only_writer(folder):
        advertisers = prepare_folder(order)
        done = []
        for result in engine(stages(order)):
            tell(result)
            done.append(result)
        return conclude(order, done, advertisers)


def stages(order: Order) -> list[Stage]:
    """A block's days follow each other. Where prices answer to everybody's bids, every block waits
    for the others at the end of each day.
    """
    blocks = range(order.world.blocks)
    if order.world.market == "meanfield":
        return [[[Task(order, day, block)] for block in blocks] for day in range(DAYS)]
    return [[[Task(order, day, block) for day in range(DAYS)] for block in blocks]]


def prepare_folder(order: Order) -> Written:
    """The world and the week's advertisers, unless they are there; returns the latter."""
    folder, sha = Path(order.folder), world_hash(order.world)
    content = {
        "format": FORMAT,
        "seed": order.seed,
        "world_version": VERSION,
        "world_sha256": sha,
        "world": asdict(order.world),
    }
    text = (to_json(content, indent=2) + "\n").encode()
    path = folder / WORLD
    if not path.exists():
        write_atomically(path, text)
    elif path.read_bytes() != text:
        raise ValueError(
            f"{folder} holds a data set of another world or seed; choose another folder with --out"
        )
    path = folder / schema.advertisers_file(order.week)
    try:
        vouched = read_manifest(folder, order.week).get("advertisers")
    except DamagedWeek:
        vouched = None
    if vouched and is_whole(path, Written(**vouched)):
        return Written(**vouched)
    table = advertiser_table(make_week(order.world, order.seed, order.week))
    return write_table(path, "advertisers", table, {"world": sha})


def advertiser_table(week: Week) -> dict[str, np.ndarray]:
    people, slots = week.advertisers, np.arange(week.world.advertisers)
    seen = advertisers_of(week, slots)
    return {
        "adv": people.adv,
        "slot": slots.astype(np.uint32),
        "block": (slots // week.world.block_size).astype(np.uint16),
        "category": people.category.astype(np.uint8),
        "volume_decile": volume_deciles(people.volume).astype(np.uint8),
        "volume": people.volume.astype(np.uint16),
        "log_roi": seen.log_roi,
        "budget": week.budget,
        **dict(zip(schema.CATEGORY, seen.category.T, strict=True)),
        **dict(zip(schema.AD, seen.ad.T, strict=True)),
    }


def conclude(order: Order, done: Sequence[Finished], advertisers: Written) -> dict[str, Any]:
    """What the next week is told, and the manifest: with it the week is complete."""
    folder = Path(order.folder)
    carried = write_carried(order)
    done = sorted(done, key=lambda result: (result.task.day, result.task.block))
    manifest = {
        "format": FORMAT,
        "world_sha256": world_hash(order.world),
        "seed": order.seed,
        "week": order.week,
        "assignment": order.assignment,
        "policies": [
            {"arm": arm, "policy": name, "sha256": sha}
            for arm, (name, sha) in enumerate(zip(order.policies, order.checksums, strict=True))
        ],
        "carried_in": order.carried,
        "carried_out": carried.sha256,
        "rows": sum(result.rows.rows for result in done),
        "row_bytes": sum(result.rows.bytes for result in done),
        "advertisers": advertisers._asdict(),
        "shards": [shard_entry(result) for result in done],
    }
    text = (to_json(manifest, indent=1) + "\n").encode()
    write_atomically(folder / schema.week_folder(order.week) / MANIFEST, text)
    return manifest


def shard_entry(result: Finished) -> dict[str, Any]:
    order, day, block = result.task
    rows_path, ledger_path, _ = files_of(result.task)
    return {
        "day": day,
        "block": block,
        "seed": [order.seed, order.week, day, block],
        "file": str(rows_path),
        **result.rows._asdict(),
        "ledger": {"file": str(ledger_path), **result.ledger._asdict()},
        "oracle": [written._asdict() for written in result.oracle],
    }


def write_carried(order: Order) -> Written:
    week = make_week(order.world, order.seed, order.week)
    parts = []
    for block in range(order.world.blocks):
        slots = block_slots(order.world, block)
        parts.append(known_before(week, Task(order, DAYS, block), slots))
    known = Known(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return write_known(Path(order.folder), order.week, week.advertisers.adv, known)


def write_known(folder: Path, week: int, adv: np.ndarray, known: Known) -> Written:
    """What is carried out of a week, in the order of slots."""
    table = {
        "adv": adv,
        "pay": known.carried_pay,
        "gmv": known.carried_gmv,
        "fair_pay": known.carried_fair,
    }
    return write_table(folder / schema.carried_file(week), "carried", table, {"decay": DECAY})


def make_order(
    folder: Path,
    world: World,
    seed: int,
    week: int,
    policies: Sequence[str],
    assignment: Assignment = "switchback",
    oracle_rows: bool = True,
) -> Order:
    """Checks the policies, and copies their files into the data set."""
    if not policies:
        raise ValueError("a policy is needed (--policy incumbent, constant:0.85, or a file)")
    if assignment == "isolated" and len(policies) > 1:
        raise ValueError("isolated arms have a data set each: give one policy at a time")
    names, checksums = zip(*(keep_policy(folder, name) for name in policies), strict=True)
    before = folder / schema.carried_file(week - 1)
    carried = checksum(before.read_bytes()) if week and before.exists() else None
    return Order(str(folder), world, seed, week, names, checksums, assignment, oracle_rows, carried)


def keep_policy(folder: Path, description: str) -> tuple[str, str | None]:
    """The description as the data set has it, and the checksum of its file."""
    make_policy(description)
    path = network_file(description)
    if path is None:
        return description, None
    content = path.read_bytes()
    sha = checksum(content)
    # By its suffix a file is known to be ONNX; any other is in safetensors.
    suffix = path.suffix if path.suffix == ".onnx" else ".safetensors"
    name = Path("policies") / f"{sha[:16]}{suffix}"
    if not (folder / name).exists():
        with writing(folder / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / name, content)
    return str(name) + (GREEDY if description.endswith(GREEDY) else ""), sha
