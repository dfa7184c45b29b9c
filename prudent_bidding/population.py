"""The advertisers of a week, and what drifts from week to week.

Week w is week 0 with the changes of weeks 1 to w, each drawn from a stream of its own: any week can
be made without simulating those before it. An advertiser's number is its slot plus, for those that
came later, the week of their coming times the number of slots.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from prudent_bidding.schema import AD_SIZE, CATEGORY_SIZE
from prudent_bidding.traffic import Traffic, draw_traffic
from prudent_bidding.world import POPULATION, STRUCTURE, World, stream

# Of the largest categories in AuctionNet's counts; the others share what is left, unequally.
LARGEST_SHARES = (0.076, 0.071, 0.061, 0.051, 0.046, 0.039)
PROMOTION = (np.log(1.30), np.log(1.25))  # conversions, prices
MEANS = 3  # log pCTR, log pCVR, log pGMV


class Advertisers(NamedTuple):
    """One entry per slot."""

    adv: np.ndarray  # u32
    category: np.ndarray  # int64
    volume: np.ndarray  # int64, planned records on an average day
    means: np.ndarray  # [A, MEANS], of log pCTR, log pCVR, log pGMV
    log_roi: np.ndarray
    budget_factor: np.ndarray
    bias: np.ndarray  # lasting part of log(true / predicted), by advertiser
    log_price: np.ndarray  # m_a: the usual log price of its requests
    ad: np.ndarray  # [A, AD_SIZE]


class Structure(NamedTuple):
    """What categories (C), segments (G) and hours have in common, in one week."""

    category: np.ndarray  # [C, CATEGORY_SIZE], a place in a plane
    segment_effect: np.ndarray  # [2, C, G], on log pCTR and log pCVR
    hour_effect: np.ndarray  # [2, C, 24]
    segment_bias: np.ndarray  # [C, G]
    hour_bias: np.ndarray  # [C, 24]
    price: np.ndarray  # [C], log
    price_hour: np.ndarray  # [C, 24], log
    lift: float  # of log true conversions, in a promotion
    ad: np.ndarray  # [C, AD_SIZE], where the category's ads are
    means: np.ndarray  # [C, MEANS]


class Week(NamedTuple):
    """All that a week's days have in common."""

    world: World
    seed: int
    week: int
    advertisers: Advertisers
    structure: Structure
    traffic: Traffic
    budget: np.ndarray  # [A], of a day


@lru_cache(maxsize=2)
def make_week(world: World, seed: int, week: int) -> Week:
    structure = draw_structure(world, seed)
    advertisers = draw_advertisers(world, structure, stream(POPULATION, seed), 0)
    for number in range(1, week + 1):
        generator = stream(POPULATION, seed, number)
        structure = drifted(world, structure, generator, number)
        advertisers = moved_on(world, structure, advertisers, generator, number)
    if week and week == world.promotion_week:
        structure = promoted(structure)
    budget = advertisers.budget_factor * usual_spend(world, advertisers)
    return Week(world, seed, week, advertisers, structure, draw_traffic(world, seed), budget)


def draw_structure(world: World, seed: int) -> Structure:
    generator = stream(STRUCTURE, seed)
    normal = generator.standard_normal
    c, g = world.categories, world.segments
    return Structure(
        category=normal((c, CATEGORY_SIZE)),
        segment_effect=world.segment_sd * normal((2, c, g)),
        hour_effect=world.hour_sd * normal((2, c, 24)),
        segment_bias=centred(world.segment_bias_sd * normal((c, g))),
        hour_bias=centred(world.hour_bias_sd * normal((c, 24))),
        price=np.zeros(c),
        price_hour=world.price_hour_sd * normal((c, 24)),
        lift=0.0,
        ad=normal((c, AD_SIZE)),
        means=np.array(world.log_means) + np.array(world.category_sds) * normal((c, MEANS)),
    )


def centred(bias: np.ndarray) -> np.ndarray:
    """Without a common part, [C, ...]: that is `bias_mean`, whatever the seed."""
    return bias - np.average(bias.mean(axis=1), weights=category_shares(len(bias)))


def category_shares(count: int) -> np.ndarray:
    shares = np.array(LARGEST_SHARES[:count])
    tail = 0.95 ** np.arange(count - len(shares))
    if len(tail):
        shares = np.concatenate([shares, (1.0 - shares.sum()) * tail / tail.sum()])
    return shares / shares.sum()


def draw_advertisers(
    world: World, structure: Structure, generator: np.random.Generator, week: int
) -> Advertisers:
    """A whole population, as it would be if all came in this week."""
    count = world.advertisers
    normal = generator.standard_normal
    category = generator.choice(world.categories, count, p=category_shares(world.categories))
    scale = world.volume / np.exp(0.5 * world.volume_sd**2)
    volume = np.rint(scale * np.exp(world.volume_sd * normal(count)))
    means = structure.means[category] + np.array(world.advertiser_sds) * normal((count, MEANS))
    log_roi = world.log_roi_mean + world.log_roi_sd * normal(count)
    log_roi = np.clip(log_roi, *world.log_roi_range)
    return Advertisers(
        adv=(np.arange(count) + week * count).astype(np.uint32),
        category=category,
        volume=np.clip(volume, world.least_volume, world.most_volume).astype(np.int64),
        means=means,
        log_roi=log_roi,
        budget_factor=np.exp(world.log_budget_mean + world.log_budget_sd * normal(count)),
        bias=world.bias_mean + world.bias_sd * normal(count),
        log_price=means.sum(1) - log_roi + world.price_level + world.price_sd * normal(count),
        ad=structure.ad[category] + 0.5 * normal((count, AD_SIZE)),
    )


def drifted(
    world: World, structure: Structure, generator: np.random.Generator, week: int
) -> Structure:
    normal = generator.standard_normal
    segment_bias = structure.segment_bias + world.segment_bias_drift * normal(
        structure.segment_bias.shape
    )
    price = structure.price + world.price_drift * normal(structure.price.shape)
    return structure._replace(segment_bias=segment_bias, price=price)


def promoted(structure: Structure) -> Structure:
    lift, price = PROMOTION
    return structure._replace(lift=float(lift), price=structure.price + price)


def moved_on(
    world: World,
    structure: Structure,
    before: Advertisers,
    generator: np.random.Generator,
    week: int,
) -> Advertisers:
    """The population one week later: drift, new targets and budgets, newcomers."""
    count = world.advertisers
    bias = before.bias + world.bias_drift * generator.standard_normal(count)
    changes = generator.random(count) < world.resets
    steps = world.reset_sd * generator.standard_normal((2, count)) * changes
    log_roi = np.where(
        changes, np.clip(before.log_roi + steps[0], *world.log_roi_range), before.log_roi
    )
    stayed = before._replace(
        bias=bias, log_roi=log_roi, budget_factor=before.budget_factor * np.exp(steps[1])
    )
    leaves = generator.random(count) < world.churn
    newcomers = draw_advertisers(world, structure, generator, week)
    merged = [
        np.where(leaves.reshape(-1, *[1] * (old.ndim - 1)), new, old)
        for old, new in zip(stayed, newcomers, strict=True)
    ]
    return Advertisers(*merged)


def usual_spend(world: World, advertisers: Advertisers) -> np.ndarray:
    """What each would spend on an average day at k = 1 without a budget, by quadrature.

    With z the deviation of a request's log predicted value from its advertiser's mean, e that of
    log(true / predicted), both normal: pay = exp(z + mean - log roi) * P(win).
    """
    value_sd = np.sqrt(np.sum(np.square(world.request_sds)) + 2.0 * world.segment_sd**2)
    error_sd = np.sqrt(world.segment_bias_sd**2 + world.hour_bias_sd**2 + world.record_bias_sd**2)
    value_nodes, value_weights = np.polynomial.hermite_e.hermegauss(15)
    error_nodes, error_weights = np.polynomial.hermite_e.hermegauss(5)
    fair = advertisers.means.sum(1) - advertisers.log_roi  # [A]
    rho, total = world.follows_value, np.zeros(len(fair))
    for z, value_weight in zip(value_sd * value_nodes, value_weights, strict=True):
        for e, error_weight in zip(error_sd * error_nodes, error_weights, strict=True):
            true = fair + z + advertisers.bias + e
            log_p0 = (1.0 - rho) * advertisers.log_price + rho * (true + world.price_level)
            win = 1.0 / (1.0 + np.exp(world.steepness * (log_p0 - fair - z)))
            total += value_weight * error_weight * np.exp(fair + z) * win
    total /= value_weights.sum() * error_weights.sum()
    return total * advertisers.volume * world.requests_per_record
