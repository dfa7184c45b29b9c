"""Fresh episodes, one after another, until the limit is proven or refuted."""

import json
import math
import platform
import secrets
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import numpy as np

from prudent.certification.betting import fewest_to_prove
from prudent.certification.claims import (
    Claim,
    Evidence,
    Interval,
    Verdict,
    claims,
    narrowed,
    no_evidence,
    verdict,
    weigh,
)
from prudent.certification.subject import Bound, Subject, Where, bound_of, subject_of
from prudent.files import read_regular, status_of, to_json, write_atomically, writing
from prudent.settings.checks import checked
from prudent.tasks.adapter import AdaptedEnv, open_environment
from prudent.tasks.costs import Cost
from prudent.tasks.episodes import check_finite, episode_seed, run_episodes
from prudent.tasks.finding import Environment
from prudent.tasks.task import Task, check_step_cost

FORMAT = 1
LARGEST = 2**30  # bytes of a certificate
FINEST = 1e-9  # nearer to 0 or 1 nothing is asked
ROUNDING = 1e-9  # of the width between the bounds, by which a sum of costs may miss them
BETWEEN_POINTS = 1.05  # times as many episodes from one drawn interval to the next
PACKAGES = ("prudent", "numpy", "gymnasium", "mujoco", "jax", "jaxlib", "onnxruntime")


@dataclass(frozen=True)
class Numbers:
    """What `certify` may be handed that must be a number."""

    budget: float | None
    confidence: float
    share: float | None
    max_episodes: int
    max_cost: float | None
    min_cost: float | None
    step: int | None
    seed: int | None


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
    """Of so many episodes. What comes later is another one: Ctrl-C finds it whole.

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


Watch = Callable[[Question, Progress], object]


def certify(
    policy: str | Path,
    *,
    budget: float | None = None,
    confidence: float = 0.95,
    share: float | None = None,
    max_episodes: int = 1000,
    max_cost: float | None = None,
    min_cost: float | None = None,
    task: str | None = None,
    env: Environment | None = None,
    cost: Cost | None = None,
    step: int | None = None,
    seed: int | None = None,
    out: str | Path | None = None,
    watch: Watch = lambda question, progress: None,
) -> dict[str, Any]:
    """Whether a policy keeps a budget, proven on fresh episodes; see `docs/certify.md`.

    `policy` is a run's folder or an exported file. The claim is that its mean episode cost is at
    most `budget` (by default the run's own) and, with `share`, that at least that share of episodes
    cost at most as much. The result, which `out` also gets as JSON, has the `verdict`: `certified`,
    `refuted`, or `undecided` if `max_episodes` or Ctrl-C came first.

    Costs must have known bounds. Where the task does not declare what a step can cost, `max_cost`
    is the most that one episode can, in the unit of the budget, and `min_cost` the least, else 0.
    `task` or `env` name the environment of an exported policy, `env` and `cost` that of a run as
    for `evaluate`. `seed` decides the episodes; by default it is drawn and recorded. `watch` is
    called after each episode.
    """
    numbers = Numbers(budget, confidence, share, max_episodes, max_cost, min_cost, step, seed)
    budget, confidence, share, max_episodes, max_cost, min_cost, step, seed = astuple(
        checked(numbers)
    )
    if out is not None:
        check_out(Path(out))
    subject = subject_of(Path(policy), budget, step, Where(task, env, cost))
    limit = subject.accounting.constraint.budget
    bound = bound_of(subject, max_cost, min_cost)
    question = checked_question(Question(limit, confidence, share, max_episodes, bound))
    seed = fresh_seed(seed, subject)
    progress, stopped = nothing_seen(question), False
    with environment_of(subject.task) as environment:
        subject.check(environment)
        follows = follows_seed(environment, seed)
        try:
            for progress in episodes(subject, environment, question, seed):
                watch(question, progress)
        except KeyboardInterrupt:
            if not progress.episodes:
                raise
            stopped = True  # what was proven by then holds: the proof may stop at any time
        progress = measured(progress, question)
    content = certificate(subject, question, progress, seed, stopped, follows)
    if out is not None:
        write_certificate(content, Path(out))
    return content


@contextmanager
def environment_of(task: Task) -> Iterator[AdaptedEnv]:
    """For a proof, which is not lost if the environment cannot be closed after it."""
    environment = open_environment(task)
    try:
        yield environment
    except BaseException:
        with suppress(Exception):
            environment.close()
        raise
    try:
        environment.close()
    except Exception as error:
        warnings.warn(f"{task.name} could not be closed ({error!r})", stacklevel=3)


def follows_seed(environment: AdaptedEnv, seed: int) -> bool:
    """Whether an episode's seed decides how it begins. Where it does not, the environment draws
    from a generator of its own, and nobody can repeat its episodes or tell them from training's.
    """
    first, again = (environment.reset(episode_seed(seed, 0)) for _ in range(2))
    return bool(np.array_equal(first, again))


def write_certificate(content: dict[str, Any], path: Path) -> None:
    write_atomically(path, (to_json(content, indent=2) + "\n").encode())


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


def nothing_seen(question: Question) -> Progress:
    return Progress(0, [], [], [no_evidence() for _ in question.limits()], ())


def episodes(
    subject: Subject, environment: AdaptedEnv, question: Question, seed: int
) -> Iterator[Progress]:
    """After each episode what is known, up to the one that decides."""
    asked = claims(question.limits(), question.confidence)
    progress = nothing_seen(question)
    costs, returns = progress.all_costs, progress.all_returns
    for index in range(question.max_episodes):
        cost, gained = play(subject, environment, seed, index, question.bound)
        check_bound(cost, index, question.bound)
        numbers = claimed_numbers(np.array(cost), question)
        evidence = [weigh(*each) for each in zip(progress.evidence, asked, numbers, strict=True)]
        costs.append(cost)
        returns.append(gained)
        known = evidence, progress.points, verdict(evidence)
        progress = Progress(index + 1, costs, returns, *known)
        if not progress.points or index + 1 >= BETWEEN_POINTS * progress.points[-1].episodes:
            progress = measured(progress, question)
        yield progress
        if progress.verdict != "undecided":
            return


def measured(progress: Progress, question: Question) -> Progress:
    """With a point for the present."""
    points = progress.points
    if points and points[-1].episodes == progress.episodes:
        return progress
    costs = np.array(progress.costs)
    asked = claims(question.limits(), question.confidence)
    before = points[-1].intervals if points else [Interval(0.0, 1.0) for _ in asked]
    seen = zip(before, claimed_numbers(costs, question), asked, progress.evidence, strict=True)
    intervals = [narrowed(*each) for each in seen]
    within = float(np.mean(costs <= question.budget))
    now = Point(len(costs), float(np.mean(costs)), within, intervals)
    return progress._replace(points=(*points, now))


def play(
    subject: Subject, environment: AdaptedEnv, seed: int, index: int, bound: Bound
) -> tuple[float, float]:
    """Cost and return of one episode, the cost counted as the task counts it."""
    draws = np.random.default_rng((seed, index))

    def act(observations: np.ndarray, time: int) -> np.ndarray:
        number = int(draws.integers(2**31)) if subject.samples else 0
        return environment.to_unit(subject.act(observations[0], number))[None]

    def check_cost(cost: float) -> None:
        check_step_cost(environment.name, cost, bound.of_step)

    seeds = [episode_seed(seed, index)]
    try:
        found = run_episodes(act, [environment], seeds, subject.accounting, check_cost)
    except SystemExit as stop:  # whose code would be taken for a verdict
        raise RuntimeError(f"the environment asked to end the process (code {stop.code})") from None
    check_finite(environment.name, found, seeds)
    return float(found.costs[0]), float(found.returns[0])


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
    """As short as it can be said without rounding it."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


def statement(question: Question, found: Verdict, count: int, unit: str) -> str:
    budget = exact(question.budget)
    claim = f"the mean cost of an episode ({unit}) is at most {budget}"
    if question.share is not None:
        claim += f" and at least {exact(question.share)} of all episodes cost at most {budget}"
    sure = f"with confidence {exact(question.confidence)}"
    if found == "certified":
        return f"{sure}, {claim}"
    if found == "refuted":
        return f"{sure}, it is not so that {claim}"
    return f"{count} episode{'s' if count > 1 else ''} do not decide {sure} whether {claim}"


def needed_at_least(question: Question) -> int:
    """Episodes before anything can be certified, however well they go."""
    asked: list[Claim] = claims(question.limits(), question.confidence)
    return max(fewest_to_prove(claim.limit, claim.proving_error) for claim in asked)


def certificate(
    subject: Subject,
    question: Question,
    progress: Progress,
    seed: int,
    stopped: bool,
    follows_seed: bool,
) -> dict[str, Any]:
    """All of it, for JSON."""
    constraint, discount, horizon = subject.accounting
    costs, last = progress.costs, progress.points[-1]
    content: dict[str, Any] = {
        "format": FORMAT,
        "verdict": progress.verdict,
        "statement": statement(question, progress.verdict, len(costs), constraint.unit),
        "budget": question.budget,
        "unit": constraint.unit,
        "confidence": question.confidence,
        "share": question.share,
        "episodes": len(costs),
        "max_episodes": question.max_episodes,
        "interrupted": stopped,
        "cost": float(np.mean(costs)),
        "cost_interval": in_cost(question, last.intervals[0]),
        "within_budget": float(np.mean(np.array(costs) <= question.budget)),
        "bound": {name: getattr(question.bound, name) for name in ("low", "high", "source")},
        "actions": "sampled" if subject.samples else "greedy",
        "identical_episodes": all_alike(progress),
        "policy": subject.about,
        "environment": {
            "task": subject.task.name,
            "cost_source": subject.task.cost_source,
            "horizon": horizon,
            "discounted": constraint.discounted,
            "cost_discount": discount if constraint.discounted else None,
            "deterministic_reset": subject.task.deterministic_reset,
            "follows_seed": follows_seed,
        },
        "seed": seed,
        "seeds": [episode_seed(seed, index) for index in range(len(costs))],
        "costs": costs,
        "returns": progress.returns,
        "trail": [trail_point(each, question) for each in progress.points],
        "versions": versions(),
    }
    if question.share is not None:
        content["within_budget_interval"] = of_share(last.intervals[1])
    return content


def all_alike(progress: Progress) -> bool:
    """Then nothing is random, and they say no more than one of them."""
    different = {*zip(progress.costs, progress.returns, strict=True)}
    return progress.episodes > 1 and len(different) == 1


def trail_point(each: Point, question: Question) -> dict[str, Any]:
    line: dict[str, Any] = {
        "episodes": each.episodes,
        "cost": each.cost,
        "cost_interval": in_cost(question, each.intervals[0]),
        "within_budget": each.within_budget,
    }
    if question.share is not None:
        line["within_budget_interval"] = of_share(each.intervals[1])
    return line


def versions() -> dict[str, str]:
    """Of what took part: packages that are not imported did not."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            if package in sys.modules:
                found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def check_out(path: Path) -> None:
    """Before any episode: a result that cannot be written is told at once."""
    if path.suffix != ".json":
        raise ValueError(f"--out is {path}; a certificate is JSON, name it {path.stem}.json")
    if not path.parent.is_dir():
        raise ValueError(f"--out is {path}, but there is no folder {path.parent}")
    with writing(path):
        with TemporaryFile(dir=path.parent):
            pass  # it can be written there
        before = status_of(path)
    if before is not None and not is_certificate(path):
        raise ValueError(f"--out is {path}, which is no certificate; it is not overwritten")


def is_certificate(path: Path) -> bool:
    try:
        content = json.loads(read_regular(path, LARGEST))
        return {"verdict", "statement", "seeds"} <= content.keys()
    except (OSError, ValueError, AttributeError, RecursionError):
        return False
