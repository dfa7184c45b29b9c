"""What a week's deployment came to, arm by arm, from its ledgers; with clustered intervals.

An advertiser's days are not independent of each other, so intervals come from a bootstrap that
draws advertisers, each with all of its days. The same draws serve all arms, so that differences
between arms are paired by advertiser.

The deployment is the evaluation. Only this module reads the oracle's files, and only after the
fact; what it returns goes into tables, not to learners.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prudent_bidding.cache import places_of
from prudent_bidding.forms import FORMS
from prudent_bidding.manifest import check_whole, read_advertisers, read_ledger, shards_of
from prudent_bidding.schema import ledger_file, oracle_file
from prudent_bidding.shards import read_oracle

LEAST_SPEND = 0.01  # of the budget: below it an ROI has no meaning
TOLERANCES = (0.05, 0.10)
PARTS = 256  # there are no more arms than that
LEVEL, RESAMPLES = 0.95, 999
WEIGHTS_AT_ONCE = 2**22  # numbers of one part of the bootstrap's weights


class Days(NamedTuple):
    """Advertiser-days of one week, all arms; [N] each."""

    adv: np.ndarray
    arm: np.ndarray
    day: np.ndarray
    roi: np.ndarray  # the target
    budget: np.ndarray
    pay: np.ndarray
    gmv: np.ndarray
    rows: np.ndarray
    win: np.ndarray
    k_sum: np.ndarray
    exhausted: np.ndarray
    # Days of an advertiser that are judged together. Where a policy had all days, they are judged
    # in the parts that arms of another data set had: a rate over seven days has less noise than
    # one over two, and would look better for nothing.
    part: np.ndarray
    expected_gmv: np.ndarray | None = None  # of the oracle, where there is one


def read_days(data: Path, week: int, parts_of: Path | None = None) -> Days:
    """All ledgers of a week; `parts_of` is a data set of the same world whose arms are parts."""
    table = read_advertisers(data, week)
    shards = shards_of(data, week)
    others = shards if parts_of is None else shards_of(parts_of, week)
    mismatch = f"{parts_of} is no data set of the same world as {data}"
    if [shard[:2] for shard in others] != [shard[:2] for shard in shards]:
        raise ValueError(mismatch)
    parts: list[dict[str, np.ndarray]] = []
    for shard, other in zip(shards, others, strict=True):
        ledger = read_ledger(data, week, shard)
        place = places_of(ledger["adv"], table["adv"])
        divided = ledger if parts_of is None else read_ledger(parts_of, week, other)
        if not np.array_equal(divided["adv"], ledger["adv"]):
            raise ValueError(mismatch)
        found = {
            **ledger,
            "part": divided["arm"],
            "day": np.full(len(place), shard.day),
            "roi": np.exp(table["log_roi"][place].astype(np.float64)),
            "budget": table["budget"][place],
        }
        if shard.oracle_ledger is not None:
            path = data / oracle_file(ledger_file(week, shard.day, shard.block))
            check_whole(path, shard.oracle_ledger)
            found["expected_gmv"] = read_oracle(path, "oracle-ledger")["exp_gmv"]
        parts.append(found)
    columns = [name for name in Days._fields if all(name in part for part in parts)]
    return Days(**{name: np.concatenate([part[name] for part in parts]) for name in columns})


class Sums(NamedTuple):
    """A metric as sum of `over` / sum of `under` of advertisers; a plain sum where that is None."""

    over: np.ndarray  # [advertisers]
    under: np.ndarray | None


class Measured(NamedTuple):
    value: float
    interval: tuple[float, float] | None  # 95 %, of advertisers drawn anew


class Units(NamedTuple):
    """Totals of an advertiser's days that are judged together; [N] each."""

    cluster: np.ndarray  # which advertiser, from 0
    roi: np.ndarray
    budget: np.ndarray  # of all days in the arm
    pay: np.ndarray
    gmv: np.ndarray
    expected_gmv: np.ndarray | None


def broken(units: Units, gmv: np.ndarray, tolerance: float = 0.0) -> np.ndarray:
    """Whose GMV falls short of the target for what was paid."""
    return (gmv < (1.0 - tolerance) * units.roi * units.pay).astype(float)


def of_arm(days: Days, arm: int) -> Days:
    chosen = days.arm == arm
    return Days(*(None if column is None else column[chosen] for column in days))  # type: ignore[arg-type]


def clusters_of(days: Days) -> np.ndarray:
    """All advertisers of the week, in order: every arm's sums stand in it."""
    return np.unique(days.adv)


def units_of(days: Days, clusters: np.ndarray, by_day: bool = False) -> Units:
    """Totals of each part of an advertiser's week, or of each of its days."""
    cluster = np.searchsorted(clusters, days.adv)
    if by_day:
        return Units(cluster, days.roi, days.budget, days.pay, days.gmv, days.expected_gmv)
    keys, at = np.unique(cluster * PARTS + days.part, return_inverse=True)
    present = keys // PARTS

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(at, values, len(present))

    roi = np.zeros(len(present))
    roi[at] = days.roi
    expected = None if days.expected_gmv is None else total(days.expected_gmv)
    return Units(present, roi, total(days.budget), total(days.pay), total(days.gmv), expected)


def metrics_of(days: Days, clusters: np.ndarray, requests_per_record: int) -> dict[str, Sums]:
    """Every metric of one arm's days, as sums over advertisers."""
    week, day = units_of(days, clusters), units_of(days, clusters, by_day=True)

    def over(units: Units, above: np.ndarray, below: np.ndarray | None = None) -> Sums:
        total = partial(np.bincount, units.cluster, minlength=len(clusters))
        return Sums(total(above), None if below is None else total(below))

    def share(units: Units, gmv: np.ndarray, tolerance: float = 0.0) -> Sums:
        spends = (units.pay >= LEAST_SPEND * units.budget).astype(float)
        return over(units, spends * broken(units, gmv, tolerance), spends)

    due, each, rows = week.roi * week.pay, np.ones(len(days.adv)), days.rows.astype(float)
    found: dict[str, Sums] = {
        "pay": over(day, days.pay),
        "pay_per_day": over(day, days.pay, each),
        "vio_week": share(week, week.gmv),
        "vio_day": share(day, day.gmv),
        **{f"vio_week_{t:.0%}": share(week, week.gmv, t) for t in TOLERANCES},
        "depth": over(week, np.maximum(due - week.gmv, 0.0), due),
        "roi_ratio": over(week, week.gmv, due),
        # What each form of the constraint limits, over the days as they were.
        **{
            name: over(
                day,
                form.step_cost(days.pay, days.gmv, days.roi, days.budget),
                days.pay if name == "ratio" else each,
            )
            for name, form in FORMS.items()
        },
        "utilisation": over(day, days.pay, days.budget),
        "exhausted": over(day, days.exhausted, each),
        "win_rate": over(day, days.win, rows * requests_per_record),
        "mean_k": over(day, days.k_sum, rows),
    }
    if week.expected_gmv is not None:
        found["vio_exp"] = share(week, week.expected_gmv)
    return found


def quotient(over: Any, under: Any) -> Any:
    """NaN where the denominator is 0."""
    if under is None:
        return over
    return np.divide(over, under, out=np.full(np.shape(over), np.nan), where=np.asarray(under) > 0)


def value_of(sums: Sums) -> float:
    under = None if sums.under is None else float(sums.under.sum())
    return float(quotient(float(sums.over.sum()), under))


def replicates(
    metrics: Sequence[Mapping[str, Sums]], generator: np.random.Generator, resamples: int
) -> list[dict[str, np.ndarray]]:
    """Every metric of every arm, [resamples], under the same draws of advertisers."""
    size = len(next(iter(metrics[0].values())).over)
    at_once = max(1, WEIGHTS_AT_ONCE // max(1, size))
    found: list[dict[str, list[np.ndarray]]] = [{name: [] for name in arm} for arm in metrics]
    for start in range(0, resamples, at_once):
        draws = generator.integers(size, size=(min(at_once, resamples - start), size))
        weights = np.stack([np.bincount(row, minlength=size) for row in draws]).astype(float)
        for arm, kept in zip(metrics, found, strict=True):
            for name, (over, under) in arm.items():
                below = None if under is None else weights @ under
                kept[name].append(quotient(weights @ over, below))
    return [{name: np.concatenate(parts) for name, parts in kept.items()} for kept in found]


def interval_of(values: np.ndarray) -> tuple[float, float] | None:
    known = values[np.isfinite(values)]
    if len(known) < len(values) or len(known) < 2:
        return None  # in some draws no advertiser counts: the interval has no meaning
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def measured(
    metrics: Sequence[Mapping[str, Sums]],
    generator: np.random.Generator,
    resamples: int = RESAMPLES,
) -> list[dict[str, Measured]]:
    """Values with intervals; metrics that no advertiser counts for are left out."""
    drawn = replicates(metrics, generator, resamples)
    found = []
    for arm, values in zip(metrics, drawn, strict=True):
        numbers = {name: value_of(sums) for name, sums in arm.items()}
        found.append(
            {
                name: Measured(number, interval_of(values[name]))
                for name, number in numbers.items()
                if np.isfinite(number)
            }
        )
    return found


def relative_difference(
    metrics: Sequence[Mapping[str, Sums]],
    name: str,
    reference: int,
    generator: np.random.Generator,
    resamples: int = RESAMPLES,
) -> list[Measured | None]:
    """A metric of each arm over that of the reference arm, minus 1; paired by advertiser. None
    where that has no meaning, since one of them is undefined or the reference's is 0.
    """
    drawn = replicates([{name: arm[name]} for arm in metrics], generator, resamples)
    base, base_value = drawn[reference][name], value_of(metrics[reference][name])
    values = [float(quotient(value_of(arm[name]), base_value)) - 1.0 for arm in metrics]
    return [
        Measured(value, interval_of(quotient(own[name], base) - 1.0))
        if np.isfinite(value)
        else None
        for value, own in zip(values, drawn, strict=True)
    ]


def evaluate_week(
    data: Path,
    week: int,
    arms: Sequence[str],
    requests_per_record: int,
    seed: int = 0,
    parts_of: Path | None = None,
) -> dict[str, dict[str, Measured]]:
    """Metrics of a week by arm. Of several arms the last is the one that pay is compared with."""
    days = read_days(data, week, parts_of)
    clusters = clusters_of(days)
    sums = [metrics_of(of_arm(days, a), clusters, requests_per_record) for a in range(len(arms))]
    found = dict(zip(arms, measured(sums, generator_for(seed, week, 0xB007)), strict=True))
    if len(arms) > 1:
        generator = generator_for(seed, week, 0xDE17A)
        changes = relative_difference(sums, "pay_per_day", len(arms) - 1, generator)
        for name, change in zip(arms, changes, strict=True):
            if change is not None:
                found[name]["pay_change"] = change
    return found


def generator_for(*purpose: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(purpose))


def to_json(metrics: Mapping[str, Measured]) -> dict[str, Any]:
    return {
        name: {"value": found.value, "interval": list(found.interval) if found.interval else None}
        for name, found in metrics.items()
    }
