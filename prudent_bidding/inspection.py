"""What a log can tell about its action: how k varies in it, and what pay and deficit do with k.

Two slopes are compared, each per record and per unit of k, money as a share of the day's budget:

    within    of records around the mean of their own day: the log's exploration
    between   of days around the mean of all: exploration, and whatever made the policy bid so

A policy that answers to results raises k where the return on spend is good. Then days with a high k
look cheap without k being the reason, the slopes differ, and a critic that cannot see why takes the
second for the first.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import tyro

from prudent.cli.options import read
from prudent.files import to_json
from prudent.settings.checks import CountOrZero
from prudent_bidding.cache import whole_days
from prudent_bidding.dataset import HistoricalDataset, Learning
from prudent_bidding.logged_week import LoggedWeek
from prudent_bidding.schema import K_HIGH, K_LOW

SPREAD = 0.02  # of k within days; below it a log hardly says what another k would do
SURELY = 2.0  # standard errors
SAME = 1e-6  # days' mean k is not told apart, and no slope is, below this deviation


class Slope(NamedTuple):
    """Per record and per unit of k, as a share of a day's budget."""

    value: float
    error: float  # of one standard deviation, advertisers taken as independent


class Days(NamedTuple):
    """A week's advertiser-days: sums over the records of each."""

    place: np.ndarray  # the advertiser's
    records: np.ndarray
    k: np.ndarray
    squared_k: np.ndarray
    pay: np.ndarray
    deficit: np.ndarray
    k_pay: np.ndarray
    k_deficit: np.ndarray


def sum_up(history: HistoricalDataset, week: LoggedWeek) -> Days:
    segments, parts = week.segments, []
    first = 0
    for start, stop, lengths in whole_days(segments.length):
        rows = history.read(week, np.arange(start, stop))
        day = np.repeat(np.arange(len(lengths)), lengths)
        k = rows.action[:, 0].astype(float) * (K_HIGH - K_LOW) / 2 + (K_HIGH + K_LOW) / 2
        weights = (k, k * k, rows.reward, rows.cost, k * rows.reward, k * rows.cost)
        sums = [np.bincount(day, values, len(lengths)) for values in weights]
        parts.append((segments.place[first : first + len(lengths)], lengths, *sums))
        first += len(lengths)
    return Days(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def slope(place: np.ndarray, spread: np.ndarray, together: np.ndarray) -> Slope:
    """Least squares from sums of squares of k and of its products, by day."""
    whole = spread.sum()
    value = together.sum() / whole
    off = np.bincount(place, together - value * spread)  # what an advertiser's days add up to
    return Slope(float(value), float(np.sqrt(np.square(off).sum()) / whole))


def within_days(days: Days, name: str) -> Slope:
    spread = days.squared_k - days.k**2 / days.records
    amount, product = getattr(days, name), getattr(days, f"k_{name}")
    return slope(days.place, spread, product - days.k * amount / days.records)


def between_days(days: Days, name: str) -> Slope | None:
    away = days.k / days.records - days.k.sum() / days.records.sum()
    if np.sum(days.records * away**2) < SAME**2 * days.records.sum():
        return None
    amount = getattr(days, name)
    around = amount - days.records * amount.sum() / days.records.sum()
    return slope(days.place, days.records * away**2, away * around)


def inspect(data: Path, number: int) -> dict[str, Any]:
    """What `prudent bidding inspect` says of a week."""
    history = HistoricalDataset(data, [number], learning=Learning(budget_units=1.0))
    days = sum_up(history, history.weeks[0])
    total = days.records.sum()
    inside = (days.squared_k - days.k**2 / days.records).sum() / total
    mean = days.k.sum() / total
    overall = days.squared_k.sum() / total - mean**2
    found: dict[str, Any] = {
        "week": number,
        "records": int(total),
        "days": len(days.records),
        "mean_k": float(mean),
        "deviation_of_k_within_days": float(np.sqrt(inside)),
        "deviation_of_k_between_days": float(np.sqrt(max(0.0, overall - inside))),
    }
    if inside < SPREAD**2:
        found["warning"] = (
            f"k hardly varies within days (standard deviation {np.sqrt(inside):.3f}): this log "
            "does not say what another k would do; deploy with exploration first"
        )
        return found
    for name in ("pay", "deficit"):
        inner, outer = within_days(days, name), between_days(days, name)
        between = None if outer is None else outer._asdict()
        found[name] = {"within_days": inner._asdict(), "between_days": between}
    # The last are of the deficit.
    if outer and inner.value - outer.value > SURELY * np.hypot(inner.error, outer.error):
        found["warning"] = (
            "days with a higher k have less deficit than k makes of it: the logged policy bids "
            "more where it goes well, and what learns from this log may take that for an effect "
            "of k, bid too much, and believe it is safe"
        )
    return found


@dataclass(frozen=True)
class InspectOptions:
    data: Annotated[Path, tyro.conf.Positional]
    """A data set's folder."""
    week: CountOrZero = 0
    json: bool = False


def main(arguments: list[str]) -> None:
    options = read(InspectOptions, "prudent bidding inspect", arguments)
    found = inspect(options.data, options.week)
    print(to_json(found, indent=2) if options.json else findings(found))


def findings(found: dict[str, Any]) -> str:
    lines = [
        f"week {found['week']}: {found['records']:,} records in {found['days']:,} days; k "
        f"{found['mean_k']:.3f}, standard deviation {found['deviation_of_k_within_days']:.3f} "
        f"within days and {found['deviation_of_k_between_days']:.3f} between them"
    ]
    if "pay" in found:
        lines.append("0.1 more k, in millionths of a day's budget per record:")
    for name in ("pay", "deficit"):
        for which, words in (("within_days", "within days"), ("between_days", "between days")):
            if name in found and found[name][which] is None:
                lines.append(f"  {name:8} {words:13} cannot be told: all have the same mean k")
            elif name in found:
                value, error = (found[name][which][part] * 1e5 for part in ("value", "error"))
                lines.append(f"  {name:8} {words:13} {value:+8.0f} ± {error:.0f}")
    if "warning" in found:
        lines.append(f"note: {found['warning']}")
    return "\n".join(lines)
