"""What rule policies do in a world, against the targets that its numbers were set to.

A world is set by policies that do not learn, and frozen (`world.FROZEN`) before any learner is run
in it.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from prudent.cli.options import read
from prudent.files import to_json
from prudent.settings.checks import CountOrZero
from prudent_bidding.day import Plan, next_known, nothing_known, simulate_day
from prudent_bidding.policies import make_policy
from prudent_bidding.population import Week, make_week
from prudent_bidding.schema import DAYS
from prudent_bidding.tasks import block_slots, mean_field
from prudent_bidding.world import World, preset, world_hash

# Of the incumbent's first week; means over seeds.
TARGETS = {
    "violated": (0.28, 0.34),
    "exhausted": (0.40, 0.60),
    "win_rate": (0.25, 0.35),
    "platform_roi": (0.95, 1.10),
}
LEAST_SPEND = 0.01  # of the budget; advertisers that spend less are not judged


class Totals(NamedTuple):
    """Of one week, by advertiser."""

    pay: np.ndarray
    gmv: np.ndarray
    expected_gmv: np.ndarray
    rows: np.ndarray
    win: np.ndarray
    k_sum: np.ndarray
    exhausted: np.ndarray  # days


def week_totals(week: Week, policy: str) -> Totals:
    """A week under one policy, nothing written. Every block, day by day."""
    world, acting = week.world, [make_policy(policy)]
    blocks = [block_slots(world, block) for block in range(world.blocks)]
    known = [nothing_known(len(slots)) for slots in blocks]
    sums = np.zeros((len(Totals._fields), world.advertisers))
    shift = np.zeros(world.categories)
    for day in range(DAYS):
        tables = []
        for block, slots in enumerate(blocks):
            arms = np.zeros(len(slots), np.uint8)
            done = simulate_day(week, Plan(day, block, slots, arms, known[block], shift), acting)
            known[block] = next_known(known[block], done.ledger)
            table = {**done.ledger, "expected_gmv": done.oracle_ledger["exp_gmv"]}
            sums[:, slots] += [table[name] for name in Totals._fields]
            tables.append(table)
        if world.market == "meanfield":
            shift = mean_field(world, week.advertisers.category, tables)
    return Totals(*sums)


def measure(world: World, seed: int, policy: str, number: int = 0) -> dict[str, float]:
    week = make_week(world, seed, number)
    with threadpool_limits(1):
        found = week_totals(week, policy)
    roi = np.exp(week.advertisers.log_roi)
    judged = found.pay >= LEAST_SPEND * DAYS * week.budget
    rows = found.rows.sum()
    return {
        "violated": float(np.mean((found.gmv < roi * found.pay)[judged])),
        "violated_expected": float(np.mean((found.expected_gmv < roi * found.pay)[judged])),
        "exhausted": float(found.exhausted.mean() / DAYS),
        "win_rate": float(found.win.sum() / rows / world.requests_per_record),
        "platform_roi": float(found.gmv.sum() / np.sum(roi * found.pay)),
        "mean_k": float(found.k_sum.sum() / rows),
        "pay": float(found.pay.mean()),
        "rows": float(rows),
    }


@dataclass(frozen=True)
class CalibrateOptions:
    preset: str = "small"
    seeds: tuple[CountOrZero, ...] = (0, 1, 2)
    policy: tuple[str, ...] = ("incumbent", "constant:0.7", "constant:0.85", "constant:1.0")
    json: bool = False


def main(arguments: list[str]) -> None:
    options = read(CalibrateOptions, "prudent bidding calibrate", arguments)
    for name in ("seeds", "policy"):
        if not getattr(options, name):
            raise ValueError(f"--{name} has no value; at least one is needed")
    world = preset(options.preset)
    results: dict[str, Any] = {"preset": options.preset, "world_sha256": world_hash(world)}
    for policy in options.policy:
        runs = [measure(world, seed, policy) for seed in options.seeds]
        means = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
        results[policy] = {"mean": means, "seeds": dict(zip(options.seeds, runs, strict=True))}
        if not options.json:
            numbers = ", ".join(f"{name} {value:.4g}" for name, value in means.items())
            print(f"{policy}: {numbers}", flush=True)
    if options.json:
        print(to_json(results, indent=2))
    elif "incumbent" in results:
        print_targets(results["incumbent"]["mean"])


def print_targets(means: dict[str, float]) -> None:
    for name, (low, high) in TARGETS.items():
        verdict = "met" if low <= means[name] <= high else "MISSED"
        print(f"incumbent, {name}: {means[name]:.3f}, target {low:g} to {high:g}: {verdict}")
