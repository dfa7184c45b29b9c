"""Who wins a request and what it costs.

A record stands for M alike requests. In the markets `exogenous` and `meanfield` the price p that a
bid must exceed is log-logistic about p0, so that

    P(win) = 1 / (1 + (p0 / bid)^beta)

and prices follow the true value of a request: what the predictions overrate is won more often. In
`explicit` the rivals are other advertisers of the same category, each bidding by its own policy.
"""

from typing import NamedTuple

import numpy as np

from prudent_bidding.world import World

PRICE_DRAWS = 4  # second price: prices drawn per record, one in each quarter of their distribution


class Cleared(NamedTuple):
    win_probability: np.ndarray  # [N], of each of a record's requests
    price: np.ndarray  # [N], per request won


def clear(
    world: World,
    log_bid: np.ndarray,
    log_p0: np.ndarray,
    category: np.ndarray,
    generator: np.random.Generator,
) -> Cleared:
    if world.market == "explicit":
        return clear_among_rivals(world, log_bid, category, generator)
    bid = np.exp(log_bid)
    probability = 1.0 / (1.0 + np.exp(world.steepness * (log_p0 - log_bid)))
    probability = np.where(bid < world.reserve, np.float32(0.0), probability)
    if world.price == "first":
        return Cleared(probability, bid)
    return Cleared(probability, second_price(world, probability, log_p0, generator))


def second_price(
    world: World, win_probability: np.ndarray, log_p0: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Mean of p given p < bid, by the inverse of its distribution at one point of each stratum."""
    draws = 1 if world.requests_per_record == 1 else PRICE_DRAWS
    uniform = generator.random((draws, len(log_p0)), dtype=np.float32)
    strata = (np.arange(draws, dtype=np.float32)[:, None] + uniform) / np.float32(draws)
    level = np.maximum(strata * win_probability[None], np.finfo(np.float32).tiny)
    log_price = log_p0 + np.log(level / (1.0 - level)) / world.steepness
    return np.maximum(np.exp(log_price), world.reserve).mean(axis=0)


def clear_among_rivals(
    world: World, log_bid: np.ndarray, category: np.ndarray, generator: np.random.Generator
) -> Cleared:
    """Groups of `rivals` at random within a category; the highest bids get the slots."""
    group = random_groups(category, world.rivals, generator)
    order = np.lexsort((-log_bid, group))
    ranked_group, ranked_bid = group[order], np.exp(log_bid[order])
    first = np.flatnonzero(np.diff(ranked_group, prepend=-1))  # of each group
    rank = np.arange(len(order)) - np.repeat(first, np.diff(first, append=len(order)))
    followed = np.append(ranked_group[1:] == ranked_group[:-1], False)
    next_bid = np.where(followed, np.append(ranked_bid[1:], 0.0), 0.0)
    price = ranked_bid if world.price == "first" else np.maximum(next_bid, world.reserve)
    exposure = np.append(world.exposure[: world.slots], 0.0)
    shown = exposure[np.minimum(rank, len(exposure) - 1)] * (ranked_bid >= world.reserve)
    cleared = np.empty((2, len(order)), np.float32)
    cleared[:, order] = shown, price
    return Cleared(*cleared)


def random_groups(category: np.ndarray, size: int, generator: np.random.Generator) -> np.ndarray:
    """Group numbers: `size` members at most, all of one category. [N] -> [N]."""
    order = np.lexsort((generator.random(len(category)), category))
    ranked = category[order]
    first = np.flatnonzero(np.diff(ranked, prepend=-1))
    rank = np.arange(len(order)) - np.repeat(first, np.diff(first, append=len(order)))
    starts = rank % size == 0  # a new category begins with rank 0, so with a group of its own
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(starts) - 1
    return group
