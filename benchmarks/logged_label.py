"""How the costs that learners take from a logged week compare with those by the oracle's rates.

    prudent bidding simulate --preset small --out DATA --oracle-rows
    python benchmarks/logged_label.py DATA

For each way to count a row's GMV: what 1 more k costs per record, between days; the mean cost where
the day's ROI so far is lowest and highest (a tenth of the records each); and the noise. The orders
of the whole week, and of this day and later ones, are what `calibrated` does not count, and why.
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from prudent_bidding.dataset import HistoricalDataset, Learning, LoggedWeek
from prudent_bidding.manifest import shards_of
from prudent_bidding.schema import DAYS, OBSERVATION, oracle_file, rows_file

AT_ONCE = 500_000
SEEN = OBSERVATION.index("day_roi")


def oracle_gmv(data: Path, week: int) -> np.ndarray:
    files = (oracle_file(rows_file(week, s.day, s.block)) for s in shards_of(data, week))
    parts = [pq.read_table(data / file)["exp_gmv"].to_numpy() for file in files]
    return np.concatenate(parts).astype(float)


def by_days(week: LoggedWeek, later_only: bool) -> np.ndarray:
    """GMV by predictions, and what whole days made of them: the week's, or this and later ones."""
    rows = week.rows
    fair = rows["pay"] / rows["k"].astype(float)
    where = (rows["day_and_done"] & 7).astype(int) * len(week.facts) + rows["place"]
    size = DAYS * len(week.facts)
    gmv, pay = (np.bincount(where, v, size).reshape(DAYS, -1) for v in (rows["gmv"], fair))
    if later_only:
        gmv, pay = (np.cumsum(totals[::-1], axis=0)[::-1] for totals in (gmv, pay))
    else:
        gmv, pay = (np.broadcast_to(totals.sum(axis=0), totals.shape) for totals in (gmv, pay))
    return fair * (gmv / np.maximum(pay, 1e-12)).ravel()[where]


def between_days(week: LoggedWeek, cost: np.ndarray) -> float:
    """Slope of a day's mean cost along its mean k, days weighed by their rows."""
    length = week.segments.length
    day = np.repeat(np.arange(len(length)), length)
    means = [np.bincount(day, v) / length for v in (week.rows["k"].astype(float), cost)]
    k, cost = (mean - np.average(mean, weights=length) for mean in means)
    return float(np.sum(length * k * cost) / np.sum(length * k * k))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--week", type=int, default=0)
    options = parser.parse_args()
    history = HistoricalDataset(options.data, [options.week], learning=Learning(gmv="calibrated"))
    (week,) = history.weeks
    rows = week.rows
    fair = rows["pay"] / rows["k"].astype(float)
    counted = {
        "oracle": oracle_gmv(options.data, options.week),
        "realised": rows["gmv"].astype(float),
        "orders of the week": by_days(week, later_only=False),
        "this day and later": by_days(week, later_only=True),
        "calibrated": fair * week.from_here_on,
    }
    log_roi, budget = week.facts[rows["place"], :2].T
    starts = range(0, len(rows), AT_ONCE)
    roi = np.concatenate([week.observations(rows[i : i + AT_ONCE])[:, SEEN] for i in starts])
    low, high = np.quantile(roi, [0.1, 0.9])
    unit = history.learning.budget_units / budget
    costs = {name: unit * (rows["pay"] - gmv / np.exp(log_roi)) for name, gmv in counted.items()}
    for name, cost in costs.items():
        ends = cost[roi <= low].mean(), cost[roi >= high].mean()
        print(
            f"{name:20} between days {between_days(week, cost):+.4f}   ROI low {ends[0]:+.4f} "
            f"high {ends[1]:+.4f}   noise {np.std(cost - costs['oracle']):.3f}"
        )


if __name__ == "__main__":
    main()
