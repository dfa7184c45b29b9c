"""The numbers of a simulated world, its presets, and the seeds of everything random in it."""

from dataclasses import asdict, dataclass, replace
from typing import Annotated, Literal

import numpy as np

from prudent.files import canonical_json, checksum
from prudent.settings.checks import (
    Count,
    CountOrZero,
    Finite,
    NotNegative,
    Positive,
    PositiveShare,
    Range,
    Share,
    check,
)

Price = Literal["first", "second"]
MarketKind = Literal["exogenous", "meanfield", "explicit"]
# What files have room for.
Byte = Annotated[int, Range(1, 2**8)]
Short = Annotated[int, Range(1, 2**16 - 1)]
Spreads = tuple[NotNegative, NotNegative, NotNegative]


@dataclass(frozen=True)
class World:
    """Everything that decides a world but its seed. Standard deviations end in `_sd`."""

    advertisers: Count = 47_244
    # Blocks have random numbers of their own, so this is part of what the data is.
    block_size: Count = 11_811
    requests_per_record: Short = 128
    # Planned records per advertiser and day. Those whose budget is spent bring fewer.
    volume: Positive = 203.0
    volume_sd: NotNegative = 1.0
    least_volume: Count = 8
    most_volume: Short = 1536

    categories: Byte = 20
    segments: Count = 8
    # log pCTR, log pCVR, log pGMV: means, and spreads by category, advertiser and request.
    log_means: tuple[Finite, Finite, Finite] = (-3.3, -3.2, 4.1)
    category_sds: Spreads = (0.5, 0.6, 0.6)
    advertiser_sds: Spreads = (0.6, 0.7, 0.6)
    request_sds: Spreads = (0.8, 0.7, 0.35)
    segment_sd: NotNegative = 0.2  # of a segment's effect on pCTR and on pCVR
    hour_sd: NotNegative = 0.1  # of an hour's
    most_pctr: PositiveShare = 0.5
    most_pcvr: PositiveShare = 0.6
    log_roi_mean: Finite = 1.3
    log_roi_sd: NotNegative = 0.5
    log_roi_range: tuple[Finite, Finite] = (0.2, 2.7)
    # The budget is what would be spent at k = 1, times exp of this mean and spread.
    log_budget_mean: Finite = -0.5
    log_budget_sd: NotNegative = 0.5

    # log(true / predicted): lasting, by (category, segment), by (category, hour), by record.
    bias_mean: Finite = -0.04
    bias_sd: NotNegative = 0.20
    segment_bias_sd: NotNegative = 0.20
    hour_bias_sd: NotNegative = 0.10
    record_bias_sd: NotNegative = 0.15

    market: MarketKind = "exogenous"
    price: Price = "first"
    reserve: NotNegative = 1e-5  # per request; bids below it win nothing
    steepness: Positive = 2.2  # beta of the win curve
    follows_value: Share = 0.7  # rho: how much prices follow the true value of a request
    price_level: Finite = 0.35  # log of the usual price over the usual fair bid
    price_sd: NotNegative = 0.3  # of an advertiser's own price level
    price_hour_sd: NotNegative = 0.05
    feedback: Finite = 0.5  # eta of `meanfield`: prices against yesterday's mean k
    rivals: Count = 8  # of `explicit`: bidders for one request
    slots: Count = 3  # of `explicit`, with `exposure` each
    exposure: tuple[Share, ...] = (1.0, 0.8, 0.6)

    gmv_shape: Positive = 3.0  # kappa: of the Gamma distribution of one order's value
    spent_share: PositiveShare = 0.999  # of the budget, at which a day ends
    delay_hours: NotNegative = 0.0  # median time until GMV shows; 0: at once
    late_share: Share = 0.1  # of GMV that takes far longer
    late_hours: Positive = 24.0  # its mean time

    # Changes from week to week.
    bias_drift: NotNegative = 0.08
    segment_bias_drift: NotNegative = 0.05
    price_drift: NotNegative = 0.10
    churn: Share = 0.03
    resets: Share = 0.05  # advertisers that change target and budget
    reset_sd: NotNegative = 0.2
    promotion_week: CountOrZero | None = None  # of more conversions at higher prices

    def __post_init__(self) -> None:
        check(self)
        low, high = self.log_roi_range
        if self.least_volume > self.most_volume or low > high:
            raise ValueError(
                f"volumes from {self.least_volume} to {self.most_volume}, log ROIs from {low} to "
                f"{high}: the first must not be above the second"
            )

    @property
    def blocks(self) -> int:
        return -(-self.advertisers // self.block_size)


STATIONARY = {
    "bias_drift": 0.0, "segment_bias_drift": 0.0, "price_drift": 0.0, "churn": 0.0, "resets": 0.0,
}  # fmt: skip
HARD = {
    "bias_drift": 0.16, "segment_bias_drift": 0.10, "price_drift": 0.20, "churn": 0.06,
    "resets": 0.10, "delay_hours": 2.0, "market": "meanfield", "promotion_week": 3,
}  # fmt: skip
PAPER = World()
SMALL = replace(PAPER, advertisers=4_724, block_size=2_362)
# `paper-data` and `paper` are one world; they differ in how much of it a learner reads.
PRESETS: dict[str, World] = {
    "smoke": replace(PAPER, advertisers=500, block_size=250),
    "small": SMALL,
    "paper-data": PAPER,
    "paper": PAPER,
    "stationary": replace(SMALL, **STATIONARY),  # type: ignore[arg-type]
    "hard": replace(SMALL, **HARD),  # type: ignore[arg-type]
}
# Raise it with every change of code that changes what a seed gives.
VERSION = 1
# Their checksums since they were set, by rule policies only (`prudent bidding calibrate`), before
# any learner was run in them. A change needs a new VERSION; what was learned before is void then.
FROZEN = {
    "smoke": "d8670d20567c32bd81eb3d7132f7fd769102a7d744406c67acb2cee2ea09e446",
    "small": "23487c95e710811ba17d3250bb26952bd6248c8aa630f3290e3bdb0d4a9a0363",
    "paper-data": "38dd8ce5fc8993d65beb0d2be52a046aa99b20ffeb4261c9fe4a42b62c5e3aeb",
    "paper": "38dd8ce5fc8993d65beb0d2be52a046aa99b20ffeb4261c9fe4a42b62c5e3aeb",
    "stationary": "feca092b02ba227247b5736ca1ae11cebfa104083822346689f4660bb3cb524d",
    "hard": "7363abfc4b712e897ae08e7cd415835f2ef7d8eafaefa03546cc4dcb93245fca",
}


def preset(name: str) -> World:
    if name not in PRESETS:
        raise ValueError(f"no world named {name!r}; there is: {', '.join(PRESETS)}")
    return PRESETS[name]


def world_hash(world: World) -> str:
    return checksum(canonical_json({"version": VERSION, **asdict(world)}))


# What a stream of random numbers is for.
POPULATION, CONTEXT, OUTCOME, POLICY, ASSIGNMENT, STRUCTURE = range(6)


def stream(
    purpose: int, root: int, week: int = 0, day: int = 0, block: int = 0
) -> np.random.Generator:
    """Random numbers for one purpose in one place: nothing that runs elsewhere moves them."""
    if not 0 <= root < 2**32:
        raise ValueError(f"the seed is {root}; a whole number from 0 to {2**32 - 1} is needed")
    sequence = np.random.SeedSequence([root, week, day, block], spawn_key=(purpose,))
    return np.random.Generator(np.random.SFC64(sequence))
