"""A week of a world written to disk: one task per day and block, on any engine.

A task is a pure function of the world, its place (week, day, block), the policies, and the ledgers
of the days before it, and writes its files atomically, the ledger last. A task whose ledger is
there and names it is done; so a killed simulation goes on where it was, and nothing is written
twice.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prudent.files import canonical_json, checksum, to_json, write_atomically, writing
from prudent.runs.lock import only_writer
from prudent_bidding import schema
from prudent_bidding.assignment import Assignment, assign, volume_deciles
from prudent_bidding.day import (
    Known,
    Plan,
    advertisers_of,
    next_known,
    simulate_day,
)
from prudent_bidding.manifest import DamagedWeek, known_at_start, read_manifest, shards_of
from prudent_bidding.observation import DECAY
from prudent_bidding.policies import GREEDY, make_policy, network_file, rule_numbers
from prudent_bidding.population import Week, make_week
from prudent_bidding.schema import DAYS, MANIFEST, WORLD, Policy
from prudent_bidding.shards import Written, read_note, read_table, write_table
from prudent_bidding.world import VERSION, World, world_hash

FORMAT = 1


class Order(NamedTuple):
    """A week that is to be simulated; what every one of its tasks is told."""

    folder: str  # the data set
    world: World
    seed: int
    week: int
    policies: tuple[str, ...]  # descriptions, files relative to the folder; the arms in order
    checksums: tuple[str | None, ...]  # of their files
    assignment: Assignment
    oracle_rows: bool
    carried: str | None  # checksum of what the week before left, if there is one


class Task(NamedTuple):
    order: Order
    day: int
    block: int


class Finished(NamedTuple):
    task: Task
    rows: Written
    ledger: Written
    oracle: tuple[Written, ...]
    skipped: bool  # it was there already


def task_key(task: Task) -> str:
    """Names everything that decides the bytes of a task."""
    order = task.order
    fields: dict[str, Any] = {
        "format": FORMAT,
        "world": world_hash(order.world),
        "seed": order.seed,
        "place": [order.week, task.day, task.block],
        "policies": list(map(policy_key, order.policies, order.checksums)),
        "assignment": order.assignment,
        "oracle_rows": order.oracle_rows,
        "carried": order.carried,
    }
    return checksum(canonical_json(fields))


def policy_key(description: str, sha: str | None) -> str | list[Any]:
    """Names all that a policy is, which for a rule is more than its description."""
    if sha:
        return sha + description[description.find(GREEDY) :] * (GREEDY in description)
    numbers = rule_numbers(description)
    return [description, *numbers] if numbers else description


def run_task(task: Task) -> Finished:
    """Simulate one day of one block, unless it was; the same on every engine."""
    done = finished(task)
    if done is not None:
        return done
    order, folder = task.order, Path(task.order.folder)
    week = make_week(order.world, order.seed, order.week)
    policies = load_policies(order.folder, order.policies, order.checksums)
    result = simulate_day(week, make_plan(week, task), policies)
    note: dict[str, Any] = {"task": task_key(task)}
    rows_path, ledger_path, oracle_paths = files_of(task)
    rows = write_table(folder / rows_path, "rows", result.rows, note)
    tables = {"oracle-ledger": result.oracle_ledger, "oracle-rows": result.oracle_rows}
    oracle = [
        write_table(folder / path, kind, tables[kind], note) for kind, path in oracle_paths.items()
    ]
    # Last, and with what it vouches for.
    note |= {"rows": list(rows), "oracle": [list(each) for each in oracle]}
    ledger = write_table(folder / ledger_path, "ledger", result.ledger, note)
    return Finished(task, rows, ledger, tuple(oracle), skipped=False)


def files_of(task: Task) -> tuple[Path, Path, dict[str, Path]]:
    """Rows, ledger and, by kind, the oracle's; relative to the data set."""
    place = (task.order.week, task.day, task.block)
    rows, ledger = schema.rows_file(*place), schema.ledger_file(*place)
    oracle = {"oracle-ledger": schema.oracle_file(ledger)}
    if task.order.oracle_rows:
        oracle["oracle-rows"] = schema.oracle_file(rows)
    return rows, ledger, oracle


def finished(task: Task) -> Finished | None:
    """What a task wrote, if it has and all of it is still there."""
    folder = Path(task.order.folder)
    rows_path, ledger_path, oracle_paths = files_of(task)
    note = read_note(folder / ledger_path)
    if note is None:
        return None
    if note.get("task") != task_key(task):
        raise ValueError(
            f"{folder / ledger_path} belongs to another simulation ({difference(task, note)}); "
            "choose another folder with --out"
        )
    rows, oracle = Written(*note["rows"]), tuple(Written(*each) for each in note["oracle"])
    paths = [rows_path, *oracle_paths.values()]
    if not all(map(is_whole, [folder / path for path in paths], [rows, *oracle])):
        return None
    content = (folder / ledger_path).read_bytes()
    advertisers = len(block_slots(task.order.world, task.block))
    ledger = Written(advertisers, len(content), checksum(content))
    if vouched_ledger(task) not in (None, ledger.sha256):
        return None
    return Finished(task, rows, ledger, oracle, skipped=True)


def difference(task: Task, note: dict[str, Any]) -> str:
    """Between a task and one that left another note in its place."""
    order = task.order
    other = task._replace(order=order._replace(oracle_rows=not order.oracle_rows))
    if note.get("task") == task_key(other):
        return f"written with {'--no-oracle-rows' if order.oracle_rows else '--oracle-rows'}"
    return "other policies, numbers of a rule, seed, world or week before"


def vouched_ledger(task: Task) -> str | None:
    """Its checksum by the week's manifest, where the week was finished before."""
    try:
        shards = shards_of(Path(task.order.folder), task.order.week)
    except DamagedWeek:
        return None
    return next((s.ledger for s in shards if (s.day, s.block) == (task.day, task.block)), None)


def is_whole(path: Path, written: Written) -> bool:
    return path.exists() and checksum(path.read_bytes()) == written.sha256


@lru_cache(maxsize=1)
def load_policies(
    folder: str, descriptions: tuple[str, ...], checksums: tuple[str | None, ...]
) -> list[Policy]:
    policies = []
    for description, expected in zip(descriptions, checksums, strict=True):
        if expected is not None:
            path = Path(folder) / description.removesuffix(GREEDY)
            if checksum(path.read_bytes()) != expected:
                raise ValueError(f"{path} was altered since the simulation began")
            description = str(Path(folder) / description)
        policies.append(make_policy(description))
    return policies


def block_slots(world: World, block: int) -> np.ndarray:
    start = block * world.block_size
    return np.arange(start, min(start + world.block_size, world.advertisers))


def make_plan(week: Week, task: Task) -> Plan:
    order, slots = task.order, block_slots(week.world, task.block)
    arms = assign(order.assignment, week, len(order.policies))[task.day][slots]
    known = known_before(week, task, slots)
    return Plan(task.day, task.block, slots, arms, known, price_shift(week, task))


def known_before(week: Week, task: Task, slots: np.ndarray) -> Known:
    """From what the week before left, and the ledgers of this week's days so far."""
    folder, number = Path(task.order.folder), task.order.week
    adv = week.advertisers.adv[slots]
    known = known_at_start(folder, number, adv, slots, task.order.carried)
    for day in range(task.day):
        path = folder / schema.ledger_file(number, day, task.block)
        known = next_known(known, read_table(path, "ledger"))
    return known


def price_shift(week: Week, task: Task) -> np.ndarray:
    """How yesterday's bids move today's prices, by category; needs every block of yesterday."""
    number, day = task.order.week, task.day - 1
    if day < 0:
        number, day = number - 1, DAYS - 1
    nothing_before = task.day == 0 and task.order.carried is None
    if week.world.market != "meanfield" or nothing_before:
        return np.zeros(week.world.categories)
    yesterday = make_week(week.world, week.seed, number)
    paths = [schema.ledger_file(number, day, block) for block in range(week.world.blocks)]
    tables = [read_table(Path(task.order.folder) / path, "ledger") for path in paths]
    return mean_field(week.world, yesterday.advertisers.category, tables)


def mean_field(
    world: World, category: np.ndarray, tables: Sequence[dict[str, np.ndarray]]
) -> np.ndarray:
    """Eta times log of the mean k of each category."""
    k_sum, rows = (
        np.bincount(category, np.concatenate([t[name] for t in tables]), world.categories)
        for name in ("k_sum", "rows")
    )
    mean = np.divide(k_sum, rows, out=np.ones(world.categories), where=rows > 0)
    return world.feedback * np.log(mean)


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
            os.makedirs((folder / name).parent, exist_ok=True)
        write_atomically(folder / name, content)
    return str(name) + (GREEDY if description.endswith(GREEDY) else ""), sha
