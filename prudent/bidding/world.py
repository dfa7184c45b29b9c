"""The numbers of a simulated world, its presets, and the seeds of everything random in it."""

from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np

from prudent.files import canonical_json, checksum

Price = Literal["first", "second"]
MarketKind = Literal["exogenous", "meanfield", "explicit"]


@dataclass(frozen=True)
class World:
    """Everything that decides a world but its seed. Standard deviations end in `_sd`."""

    advertisers: int = 47_244
    # Blocks have random numbers of their own, so this is part of what the data is.
    block_size: int = 11_811
    requests_per_record: int = 128
    # Planned records per advertiser and day. Those whose budget is spent bring fewer.
    volume: float = 203.0
    volume_sd: float = 1.0
    least_volume: int = 8
    most_volume: int = 1536

    categories: int = 20
    segments: int = 8
    # log pCTR, log pCVR, log pGMV: means, and spreads by category, advertiser and request.
    log_means: tuple[float, float, float] = (-3.3, -3.2, 4.1)
    category_sds: tuple[float, float, float] = (0.5, 0.6, 0.6)
    advertiser_sds: tuple[float, float, float] = (0.6, 0.7, 0.6)
    request_sds: tuple[float, float, float] = (0.8, 0.7, 0.35)
    segment_sd: float = 0.2  # of a segment's effect on pCTR and on pCVR
    hour_sd: float = 0.1  # of an hour's
    most_pctr: float = 0.5
    most_pcvr: float = 0.6
    log_roi_mean: float = 1.3
    log_roi_sd: float = 0.5
    log_roi_range: tuple[float, float] = (0.2, 2.7)
    # The budget is what would be spent at k = 1, times exp of this mean and spread.
    log_budget_mean: float = -0.5
    log_budget_sd: float = 0.5

    # log(true / predicted): lasting, by (category, segment), by (category, hour), by record.
    bias_mean: float = -0.04
    bias_sd: float = 0.20
    segment_bias_sd: float = 0.20
    hour_bias_sd: float = 0.10
    record_bias_sd: float = 0.15

    market: MarketKind = "exogenous"
    price: Price = "first"
    reserve: float = 1e-5  # per request; bids below it win nothing
    steepness: float = 2.2  # beta of the win curve
    follows_value: float = 0.7  # rho: how much prices follow the true value of a request
    price_level: float = 0.35  # log of the usual price over the usual fair bid
    price_sd: float = 0.3  # of an advertiser's own price level
    price_hour_sd: float = 0.05
    feedback: float = 0.5  # eta of `meanfield`: prices against yesterday's mean k
    rivals: int = 8  # of `explicit`: bidders for one request
    slots: int = 3  # of `explicit`, with `exposure` each
    exposure: tuple[float, ...] = (1.0, 0.8, 0.6)

    gmv_shape: float = 3.0  # kappa: of the Gamma distribution of one order's value
    spent_share: float = 0.999  # of the budget, at which a day ends
    delay_hours: float = 0.0  # median time until GMV shows; 0: at once
    late_share: float = 0.1  # of GMV that takes far longer
    late_hours: float = 24.0  # its mean time

    # Changes from week to week.
    bias_drift: float = 0.08
    segment_bias_drift: float = 0.05
    price_drift: float = 0.10
    churn: float = 0.03
    resets: float = 0.05  # advertisers that change target and budget
    reset_sd: float = 0.2
    promotion_week: int | None = None  # of more conversions at higher prices

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
