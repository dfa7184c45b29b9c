"""What is to be proven, and what is known of it so far."""

import math
import secrets
from typing import NamedTuple

import numpy as np

from prudent.certification.betting import fewest_to_prove
from prudent.certification.claims import Evidence, Interval, Verdict, claims
from prudent.certification.subject import Bound, Subject

FINEST = 1e-9  # nearer to 0 or 1 nothing is asked
ROUNDING = 1e-9  # of the width between the bounds, by which a sum of costs may miss them


class Question(NamedTuple):
    """What is to be proven, and how."""

    budget: float
    confidence: float
    share: float | None
    max_episodes: int
    bound: Bound

    def limits(self) -> list[float]:
        """Of the mean cost, as a part of what is possible; and of the share over the budget."""
        low, high = self.bound[:2]
        mean = (self.budget - low) / (high - low)
        return [mean] if self.share is None else [mean, 1.0 - self.share]


class Point(NamedTuple):
    """What was known after so many episodes."""

    episodes: int
    cost: float  # mean
    within_budget: float
    intervals: list[Interval]  # of the claims, in their own numbers


class Progress(NamedTuple):
    """What is known after so many episodes. Each episode makes a new one: Ctrl-C leaves it whole.

    They share their lists, of which the first `episodes` items are this one's.
    """

    episodes: int
    all_costs: list[float]
    all_returns: list[float]
    evidence: list[Evidence]  # of each claim
    points: tuple[Point, ...]
    verdict: Verdict = "undecided"

    @property
    def costs(self) -> list[float]:
        return self.all_costs[: self.episodes]

    @property
    def returns(self) -> list[float]:
        return self.all_returns[: self.episodes]


def checked_question(question: Question) -> Question:
    budget, confidence, share, max_episodes, (low, high, source, _) = question
    if not (0.5 <= confidence < 1.0):
        raise ValueError(f"--confidence is {confidence}; it must be at least 0.5 and below 1")
    if share is not None and not 0.0 < share < 1.0:
        raise ValueError(
            f"--share is {share}; it must be above 0 and below 1 (no number of episodes proves "
            "that all the others keep the budget as well)"
        )
    if max_episodes < 1:
        raise ValueError(f"--max-episodes is {max_episodes}; it must be at least 1")
    if not math.isfinite(budget):
        raise ValueError(f"--budget is {budget}; a finite number is needed")
    if budget >= high:
        raise ValueError(
            f"--budget is {budget:g}, but no episode can cost more than {high:g} ({source}): every "
            "policy keeps it, and there is nothing to prove"
        )
    if budget <= low:
        raise ValueError(
            f"--budget is {budget:g} and no episode can cost less than {low:g}: no number of "
            "episodes proves a mean of no more than that; allow a little"
        )
    for option, limit in zip(("--budget", "--share"), question.limits(), strict=False):
        if not FINEST < limit < 1.0 - FINEST:
            raise ValueError(
                f"{option} leaves a part of {limit:g} of what is possible, too near to 0 or 1 for "
                "any number of episodes to prove anything"
            )
    return question


def fresh_seed(seed: int | None, subject: Subject) -> int:
    """Of episodes that neither training nor evaluation has seen."""
    if seed is None:
        return 2**32 + secrets.randbits(50)  # above all runs' seeds, within what JSON can hold
    if seed < 0:
        raise ValueError(f"--seed is {seed}; it must be a whole number at least 0")
    if seed in subject.seeds_in_use:
        raise ValueError(
            f"--seed is {seed}, with whose episodes the policy was trained or evaluated; a "
            "certificate needs others"
        )
    return seed


def check_bound(cost: float, index: int, bound: Bound) -> None:
    low, high, source, _ = bound
    slack = ROUNDING * (high - low)
    if low - slack <= cost <= high + slack:
        return
    above = not cost < low
    raise ValueError(
        f"episode {index + 1} cost {cost:g}, {'more' if above else 'less'} than the "
        f"{high if above else low:g} said to be possible ({source}); nothing can be concluded: "
        f"give the true bound with {'--max-cost' if above else '--min-cost'}"
    )


def claimed_numbers(costs: np.ndarray, question: Question) -> list[np.ndarray]:
    """Episodes as the claims see them: the cost between its bounds, and 1 if over the budget."""
    low, high = question.bound[:2]
    # Only what rounding added to a bound is cut off here; `check_bound` refuses the rest.
    parts = np.minimum(np.maximum((costs - low) / (high - low), 0.0), 1.0)
    over = np.asarray(costs > question.budget, float)
    return [parts, over][: len(question.limits())]


def in_cost(question: Question, interval: Interval) -> Interval:
    low, high = question.bound[:2]
    return Interval(*(low + (high - low) * end for end in interval))


def of_share(interval: Interval) -> Interval:
    """From the share over the budget to that within."""
    return Interval(1.0 - interval.high, 1.0 - interval.low)


def exact(number: float) -> str:
    """The shortest text of the number that does not round it."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


def statement(question: Question, verdict: Verdict, count: int, unit: str) -> str:
    budget = exact(question.budget)
    claim = f"the mean cost of an episode ({unit}) is at most {budget}"
    if question.share is not None:
        claim += f" and at least {exact(question.share)} of all episodes cost at most {budget}"
    sure = f"with confidence {exact(question.confidence)}"
    if verdict == "certified":
        return f"{sure}, {claim}"
    if verdict == "refuted":
        return f"{sure}, it is not so that {claim}"
    return f"{count} episode{'s' if count > 1 else ''} do not decide {sure} whether {claim}"


def needed_at_least(question: Question) -> int:
    """Episodes before anything can be certified, however well they go."""
    asked = claims(question.limits(), question.confidence)
    return max(fewest_to_prove(claim.limit, claim.proving_error) for claim in asked)
