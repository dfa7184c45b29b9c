"""The claims that a certificate is about, and what episodes say of them.

A certificate says that *all* its claims hold. With one claim or two, each is proven at the full
`error` = 1 - confidence: if the whole is false then some claim is, and to certify it that very
claim would have to be proven, which happens with probability `error` at most. Refuting is the other
way round: the whole is refuted as soon as one claim is, and if all of them are true each could be
refuted in error, so these probabilities add up and each claim gets its share of `error`. In sum: a
false certificate has probability `error` at most, and so has a false refutation. They cannot both
threaten, since a policy keeps its budget or does not.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from prudent.certification.betting import (
    ON_LARGE,
    ON_SMALL,
    growth,
    log_total,
    lower_bound,
    upper_bound,
)

Verdict = Literal["certified", "refuted", "undecided"]


class Claim(NamedTuple):
    """That the mean of some numbers between 0 and 1 is at most `limit`, itself inside (0, 1)."""

    limit: float
    proving_error: float
    refuting_error: float


class Evidence(NamedTuple):
    """What the numbers so far say of a claim. Leading axes, if any, are several such worlds."""

    for_it: np.ndarray  # [..., D], logarithms of capital that bets on small numbers
    against_it: np.ndarray  # [..., D], on large ones
    proven: np.ndarray  # [...], now or at any time before
    refuted: np.ndarray  # [...]


def claims(limits: Sequence[float], confidence: float) -> list[Claim]:
    error = 1.0 - confidence
    return [Claim(limit, error, error / len(limits)) for limit in limits]


def no_evidence(shape: tuple[int, ...] = ()) -> Evidence:
    small, large = (
        np.broadcast_to(bets.log_parts, (*shape, len(bets.log_parts)))
        for bets in (ON_SMALL, ON_LARGE)
    )
    return Evidence(small, large, np.zeros(shape, bool), np.zeros(shape, bool))


def weigh(evidence: Evidence, claim: Claim, value: np.ndarray) -> Evidence:
    """With one more number, [...]."""
    for_it = evidence.for_it + growth(value, claim.limit, ON_SMALL)
    against_it = evidence.against_it + growth(value, claim.limit, ON_LARGE)
    return Evidence(
        for_it,
        against_it,
        evidence.proven | (log_total(for_it) >= -np.log(claim.proving_error)),
        evidence.refuted | (log_total(against_it) >= -np.log(claim.refuting_error)),
    )


def verdict(all_evidence: Sequence[Evidence]) -> Verdict:
    """Of all claims together; in doubt the cautious one."""
    if any(evidence.refuted for evidence in all_evidence):
        return "refuted"
    if all(evidence.proven for evidence in all_evidence):
        return "certified"
    return "undecided"


class Interval(NamedTuple):
    """Each end is wrong, ever, with no more than its claim's probability of error."""

    low: float
    high: float


def narrowed(before: Interval, values: np.ndarray, claim: Claim, evidence: Evidence) -> Interval:
    """By all [T] numbers so far. What was proven once stays so."""
    low = max(before.low, lower_bound(values, claim.refuting_error))
    high = min(before.high, upper_bound(values, claim.proving_error))
    if evidence.proven:
        high = min(high, claim.limit)
    if evidence.refuted:
        low = max(low, claim.limit)
    return Interval(low, high)
