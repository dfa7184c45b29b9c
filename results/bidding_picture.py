"""The picture of docs/bidding.md: `python results/bidding_picture.py docs/figures/bidding.png`.

Everything in it comes from the simulator: one record, one advertiser's day, one week of policies.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from prudent_bidding.calibration import measure
from prudent_bidding.day import Plan, nothing_known, simulate_day
from prudent_bidding.kernel import Records, settle
from prudent_bidding.policies import make_policy
from prudent_bidding.population import make_week
from prudent_bidding.schema import K_HIGH, K_LOW
from prudent_bidding.world import OUTCOME, PRESETS, stream

WORLD = replace(PRESETS["smoke"], advertisers=300, block_size=300)
ADVERTISER = 12
CONSTANTS = (0.6, 0.75, 0.9, 1.05, 1.2)
OTHERS = ("incumbent", "feedback:0.9", "informed:0.85")


def draw(path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    draw_bid(axes[0])
    draw_day(axes[1])
    draw_week(axes[2])
    figure.savefig(path, dpi=110)


def draw_bid(axis: Any) -> None:
    """One usual record, bid on many times at each k."""
    repeats = 4000
    of_one = [np.full(repeats, x, np.float32) for x in (-3.0, -2.65, 0.003, 0.0)]
    half = [np.full(repeats, x, np.float16) for x in (-3.3, -3.2, 5.0)]
    record = Records(np.zeros(repeats, np.float16), np.zeros((repeats, 4)), *half, *of_one)
    k = np.linspace(K_LOW, K_HIGH, 21)
    found = []
    for value in k:
        at = np.full(repeats, value, np.float32)
        plenty, category = np.full(repeats, 1e9), np.zeros(repeats, np.int64)
        outcome = settle(WORLD, record, category, at, plenty, stream(OUTCOME, 0))
        found.append((outcome.win.mean(), outcome.pay.mean(), outcome.expected_gmv.mean()))
    win, pay, gmv = np.array(found).T
    axis.plot(k, win / WORLD.requests_per_record, label="share of requests won")
    axis.plot(k, pay / pay.max(), label="pay, of the most")
    axis.plot(k, gmv / pay / (gmv / pay)[10], label="ROI over that at k = 1")
    axis.set(xlabel="k, the multiple of the fair bid", title="one record, 128 requests")
    axis.legend(fontsize=8)


def draw_day(axis: Any) -> None:
    """One advertiser under two constants, from the same records."""
    week = make_week(WORLD, 0, 0)
    count = WORLD.advertisers
    plan = Plan(
        0, 0, np.arange(count), np.zeros(count, np.uint8), nothing_known(count), np.zeros(20)
    )
    for k, colour in (("0.8", "tab:blue"), ("1.2", "tab:red")):
        rows = simulate_day(week, plan, [make_policy(f"constant:{k}")]).rows
        mine = rows["adv"] == ADVERTISER
        hour, pay = rows["hour"][mine].astype(float), np.cumsum(rows["pay"][mine])
        due = np.exp(week.advertisers.log_roi[ADVERTISER]) * week.budget[ADVERTISER]
        axis.plot(hour, pay / week.budget[ADVERTISER], colour, label=f"pay / budget, k = {k}")
        gmv = np.cumsum(rows["gmv"][mine]) / due
        axis.plot(hour, gmv, colour, ls=":", label="GMV / (target * budget)")
    axis.axhline(1.0, color="grey", lw=0.8)
    axis.set(xlabel="hour", xlim=(0, 24), title="one advertiser's day")
    axis.legend(fontsize=8)


def draw_week(axis: Any) -> None:
    """What all advertisers together paid, and for how many the target was missed."""
    points = [measure(WORLD, 0, f"constant:{k}") for k in CONSTANTS]
    pay = [point["pay"] for point in points]
    missed = [100.0 * point["violated"] for point in points]
    axis.plot(missed, pay, "o-", color="grey", label="constant k")
    for k, x, y in zip(CONSTANTS, missed, pay, strict=True):
        axis.annotate(f"{k:g}", (x, y), textcoords="offset points", xytext=(5, -9), fontsize=8)
    for name in OTHERS:
        point = measure(WORLD, 0, name)
        axis.plot(100.0 * point["violated"], point["pay"], "s", label=name)
    axis.set(xlabel="advertisers below their target, % of the week", ylabel="pay per advertiser")
    axis.set(title=f"a week, {WORLD.advertisers} simulated advertisers")
    axis.legend(fontsize=8)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
