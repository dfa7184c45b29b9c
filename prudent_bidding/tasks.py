"""One day of one block, simulated and written: what every engine calls.

A task is a pure function of the world, its place (week, day, block), the policies, and the ledgers
of the days before it, and writes its files atomically, the ledger last. A task whose ledger is
there and names it is done; so a killed simulation goes on where it was, and nothing is written
twice.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prudent.files import canonical_json, checksum
from prudent_bidding import schema
from prudent_bidding.assignment import Assignment, assign
from prudent_bidding.day import Known, Plan, next_known, simulate_day
from prudent_bidding.manifest import DamagedWeek, known_at_start, shards_of
from prudent_bidding.policies import GREEDY, make_policy, rule_numbers
from prudent_bidding.population import Week, make_week
from prudent_bidding.schema import DAYS, Policy
from prudent_bidding.shards import Written, read_note, read_table, write_table
from prudent_bidding.world import World, world_hash

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
