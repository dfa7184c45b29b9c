"""Proof by betting: is the mean of numbers between 0 and 1 at most m, or is it above?

Bet against a claim about the mean, at odds that would be fair if it were exactly m: each number x
that arrives multiplies what was staked by a payoff whose mean would then be 1,

    against "the mean is above m"      (1 - x) / (1 - m)      which pays where numbers are small
    against "the mean is at most m"    x / m                  which pays where they are large

With a fraction c of the capital staked on it and the rest kept, the capital is multiplied by
1 + c (payoff - 1). If the claim bet against is true, the capital is a nonnegative supermartingale
that begins at 1, so by Ville's inequality the probability that it *ever* reaches 1/error is at most
`error`. It is therefore allowed to look after each number and to stop when one likes.

The fractions are those of Waudby-Smith and Ramdas, "Estimating means of bounded random variables by
betting" (JRSS B, 2024), in their diversified form: the capital is divided once among fixed
fractions and each part bets its own. What the whole then stakes depends on the past alone, as it
must, and follows the best of the fractions without being told which that is. Since every part grows
with m, the m that are not yet disproved are an interval, and its ends are a confidence sequence.
Numbers that are 0 or 1 are no special case: their mean is the share of ones.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

BISECTIONS = 40


class Bets(NamedTuple):
    """What pays, and how the capital is divided."""

    payoff: Callable[[np.ndarray, float], np.ndarray]  # numbers, m -> what multiplies a stake
    fractions: np.ndarray  # [D], of its own part that each part stakes
    log_parts: np.ndarray  # [D], logarithms of the parts at the beginning, together 1


def diversified(
    payoff: Callable[[np.ndarray, float], np.ndarray], all_in: float = 0.0, count: int = 32
) -> Bets:
    """Equal parts at the quantiles of the arcsine law, dense where little or nearly all is staked,
    beside a part `all_in` that stakes all it has.
    """
    fractions = np.sin(0.5 * np.pi * (np.arange(count) + 0.5) / count) ** 2
    parts = np.full(count, (1.0 - all_in) / count)
    if all_in:
        fractions, parts = np.append(fractions, 1.0), np.append(parts, all_in)
    return Bets(payoff, fractions, np.log(parts))


# Most costs are far below the largest there can be; then the best bet on small ones stakes all.
ON_SMALL = diversified(lambda values, mean: (1.0 - values) / (1.0 - mean), all_in=0.5)
ON_LARGE = diversified(lambda values, mean: values / mean)


def growth(values: np.ndarray, mean: float, bets: Bets) -> np.ndarray:
    """Logarithm of what each part is multiplied by: [...] -> [..., D]."""
    with np.errstate(divide="ignore"):  # all was staked, and is lost
        return np.log1p(bets.fractions * (bets.payoff(values, mean)[..., None] - 1.0))


def log_total(log_parts: np.ndarray) -> np.ndarray:
    """Of all parts together, some of which still have something: [..., D] -> [...]."""
    largest = log_parts.max(axis=-1, keepdims=True)
    return np.log(np.exp(log_parts - largest).sum(axis=-1)) + largest[..., 0]


def log_capital(values: np.ndarray, mean: float, bets: Bets) -> float:
    """After [T] numbers."""
    return float(log_total(bets.log_parts + growth(values, mean, bets).sum(axis=0)))


def upper_bound(values: np.ndarray, error: float) -> float:
    """The least m for which [T] numbers prove that the mean is at most m; 1 if there is none."""
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        proven = log_capital(values, middle, ON_SMALL) >= -np.log(error)
        low, high = (low, middle) if proven else (middle, high)
    return high


def lower_bound(values: np.ndarray, error: float) -> float:
    """The largest m for which they prove that the mean is above m; 0 if there is none."""
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        proven = log_capital(values, middle, ON_LARGE) >= -np.log(error)
        low, high = (middle, high) if proven else (low, middle)
    return low


def fewest_to_prove(mean: float, error: float) -> int:
    """How many numbers it takes to prove a mean of at most `mean` if every one of them is 0."""
    each = growth(np.zeros(()), mean, ON_SMALL)

    def enough(count: int) -> bool:
        return bool(log_total(ON_SMALL.log_parts + count * each) >= -np.log(error))

    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
