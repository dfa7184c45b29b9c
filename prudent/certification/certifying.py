"""Fresh episodes, one after another, until the limit is proven or refuted."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prudent.certification.certificate import certificate, check_out, write_certificate
from prudent.certification.claims import Interval, claims, narrowed, no_evidence, verdict, weigh
from prudent.certification.question import (
    Point,
    Progress,
    Question,
    check_bound,
    checked_question,
    claimed_numbers,
    fresh_seed,
)
from prudent.certification.subject import Bound, Subject, Where, bound_of, subject_of
from prudent.settings.checks import checked
from prudent.tasks.adapter import AdaptedEnv, open_environment
from prudent.tasks.costs import Cost
from prudent.tasks.episodes import check_finite, episode_seed, run_episodes
from prudent.tasks.finding import Environment
from prudent.tasks.task import Task, check_step_cost

BETWEEN_POINTS = 1.05  # times as many episodes from one drawn interval to the next


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
        played = run_episodes(act, [environment], seeds, subject.accounting, check_cost)
    except SystemExit as stop:  # whose code would be taken for a verdict
        raise RuntimeError(f"the environment asked to end the process (code {stop.code})") from None
    check_finite(environment.name, played, seeds)
    return float(played.costs[0]), float(played.returns[0])
