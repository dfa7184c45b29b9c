"""What the rooms of this package hand to each other: files, their columns, and policies.

A data set is one folder:

    world.json                            the world: preset, seed, configuration and its checksum
    week-W/advertisers.parquet            ADVERTISERS, one row each, in the order of their slots
    week-W/day-D/block-B.parquet          ROWS, grouped by advertiser (in that order), then by t
    week-W/day-D/ledger-B.parquet         LEDGER, one row per advertiser of the block
    week-W/carried.parquet                CARRIED, what the next week's controllers know
    week-W/manifest.json                  written last: policies, seeds, rows, checksums
    oracle/week-W/day-D/block-B.parquet   ORACLE_ROWS, row by row beside block-B.parquet
    oracle/week-W/day-D/ledger-B.parquet  ORACLE_LEDGER, row by row beside ledger-B.parquet
    policies/SHA16.safetensors, .onnx     the networks that acted, by the start of their checksum

Days are 0 (Monday) to 6. The successor of a row is the next row, unless `done`. Each Parquet file
says what it is in the metadata of its schema (`prudent.kind`), so an oracle file is one wherever it
is moved to. No module of a learner reads those.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

DAYS = 7
K_LOW, K_HIGH = 0.5, 1.5  # the bid is k * predicted value / target ROI
USER_SIZE, AD_SIZE, CATEGORY_SIZE = 4, 4, 2

Columns = Mapping[str, str]  # NumPy types by name, in the order of the file

USER = tuple(f"user_{i}" for i in range(USER_SIZE))
AD = tuple(f"ad_{i}" for i in range(AD_SIZE))
CATEGORY = tuple(f"category_{i}" for i in range(CATEGORY_SIZE))

# `done` of a row.
GOES_ON, DAY_ENDED, BUDGET_SPENT = 0, 1, 2

ROWS: Columns = {
    "adv": "uint32",  # advertiser
    "day": "uint8",
    "t": "uint16",  # the advertiser's t-th record of the day
    "hour": "float16",  # of arrival, 0 to 24
    **dict.fromkeys(USER, "float16"),
    "log_pctr": "float16",  # predictions; what is stored is what was bid on
    "log_pcvr": "float16",
    "log_pgmv": "float16",
    "k": "float16",  # the action, as it was carried out
    "arm": "uint8",  # which of the manifest's policies chose it
    "win": "uint16",  # of `requests_per_record`
    "conv": "uint16",
    "pay": "float32",
    "gmv": "float32",
    # The full hour from which the GMV shows in the state; 0 at once, 24 not on this day.
    "seen": "uint8",
    "done": "uint8",
}
ORACLE_ROWS: Columns = {
    "exp_gmv": "float16",  # expected GMV of the wins, by the true rates
    "log_p0": "float16",  # log of the price that a bid of as much meets half the time
}
# Totals of an advertiser's day.
LEDGER: Columns = {
    "adv": "uint32",
    "arm": "uint8",
    "rows": "uint16",
    "win": "uint32",
    "conv": "uint32",
    "pay": "float64",
    "gmv": "float64",  # all of it, also what came late
    "fair_pay": "float64",  # predicted GMV of the wins over the target: their price at k = 1
    "k_sum": "float64",
    "exhausted": "uint8",  # 1: the budget was spent before the day ended
}
ORACLE_LEDGER: Columns = {"exp_gmv": "float64", "bias": "float32"}  # bias: log true / predicted
ADVERTISERS: Columns = {
    "adv": "uint32",
    "slot": "uint32",  # its place in the population; one that leaves is replaced in its slot
    "block": "uint16",
    "category": "uint8",
    "volume_decile": "uint8",
    "volume": "uint16",  # planned records on an average day
    "log_roi": "float32",  # target: GMV / pay
    "budget": "float64",  # of a day
    **dict.fromkeys(CATEGORY, "float32"),  # the category's place in a plane
    **dict.fromkeys(AD, "float32"),
}
# Discounted totals of all days so far, by which controllers judge predictions.
CARRIED: Columns = {"adv": "uint32", "pay": "float64", "gmv": "float64", "fair_pay": "float64"}

KINDS: Mapping[str, Columns] = {
    "rows": ROWS,
    "ledger": LEDGER,
    "advertisers": ADVERTISERS,
    "carried": CARRIED,
    "oracle-rows": ORACLE_ROWS,
    "oracle-ledger": ORACLE_LEDGER,
}
KIND_KEY, TASK_KEY = "prudent.kind", "prudent.task"  # in the metadata of a file's schema

WORLD, MANIFEST = "world.json", "manifest.json"


def week_folder(week: int) -> Path:
    return Path(f"week-{week}")


def day_folder(week: int, day: int) -> Path:
    return week_folder(week) / f"day-{day}"


def rows_file(week: int, day: int, block: int) -> Path:
    return day_folder(week, day) / f"block-{block}.parquet"


def ledger_file(week: int, day: int, block: int) -> Path:
    return day_folder(week, day) / f"ledger-{block}.parquet"


def advertisers_file(week: int) -> Path:
    return week_folder(week) / "advertisers.parquet"


def carried_file(week: int) -> Path:
    return week_folder(week) / "carried.parquet"


def oracle_file(beside: Path) -> Path:
    """The oracle's file for one of rows or ledgers, both relative to the data set."""
    return Path("oracle") / beside


# What a learned policy sees, in this order; `prudent_bidding.observation.observe` makes it.
OBSERVATION = (
    "hour_sin", "hour_cos", "time_left", "weekday_sin", "weekday_cos",
    "log_pctr", "log_pcvr", "log_pgmv", "log_fair_bid",
    "day_spend", "day_roi", "day_deficit", "week_deficit", "week_spend", "track_record",
    "log_budget", "log_roi", *CATEGORY, *AD, *USER,
)  # fmt: skip
OBSERVATION_SIZE = len(OBSERVATION)


class View(NamedTuple):
    """What a policy may look at when it decides, one entry per advertiser that has a record now.

    Only what a policy `needs` is filled in; the rest is None.
    """

    size: int
    observations: Any = None  # f32[N, OBSERVATION_SIZE]
    # GMV over predicted GMV of all wins of earlier days, drawn towards 1 while there are few.
    track_record: Any = None  # f32[N]
    # (target * pay - GMV) / (target * daily budget), of this week's days so far and today.
    week_deficit: Any = None  # f32[N]
    # Of the oracle: the lasting part of log(true / predicted). For upper references only.
    bias: Any = None  # f32[N]


class Policy(Protocol):
    """A fixed policy: the same for every advertiser, without memory of its own, without JAX."""

    @property
    def needs(self) -> frozenset[str]:
        """Names of fields of `View`."""
        ...

    def act(self, view: View, generator: np.random.Generator) -> np.ndarray:
        """The multipliers k, f32[N]; the simulator brings them into [K_LOW, K_HIGH]."""
        ...


# How a policy is named on the command line and in manifests; `policies.make_policy` reads it:
#   constant:0.85   incumbent   feedback:0.9   dual:1.0   informed:0.85
#   PATH            a file by `prudent export`, sampled as its algorithm explores
#   PATH@greedy     its mode
