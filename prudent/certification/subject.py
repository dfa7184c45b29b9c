"""What is certified: a policy, of a run or from a file, in an environment that charges it."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prudent.api import load
from prudent.policies.exported import DamagedPolicy, ExportedPolicy, load_exported
from prudent.runs.folder import read_run
from prudent.settings.run import Constraint
from prudent.tasks.adapter import AdaptedEnv, describe_spaces
from prudent.tasks.costs import Cost
from prudent.tasks.episodes import EVALUATION_SEED, Accounting, accounting_of
from prudent.tasks.finding import (
    Environment,
    check_runs_no_code,
    check_same_environment,
    environment_name,
    find_task,
    recorded_cost,
    task_of,
)
from prudent.tasks.task import Task, step_range


class Where(NamedTuple):
    """How the environment was named, if it was."""

    task: str | None = None
    env: Environment | None = None
    cost: Cost | None = None


class Subject(NamedTuple):
    act: Callable[[np.ndarray, int], np.ndarray]  # flat observation, random number -> action
    samples: bool  # whether the random number matters
    task: Task
    accounting: Accounting
    check: Callable[[AdaptedEnv], None]  # that the policy fits this environment
    about: dict[str, Any]  # the policy, for the record
    seeds_in_use: frozenset[int]  # by training and evaluation


def subject_of(path: Path, budget: float | None, step: int | None, where: Where) -> Subject:
    if path.is_dir():
        return of_run(path, budget, step, where)
    if not path.is_file():  # a pipe would never end
        raise ValueError(f"{path} is neither a run's folder nor an exported policy")
    if step is not None:
        raise ValueError("--step picks a snapshot of a run; an exported file holds one policy only")
    return of_exported(path, budget, where)


def of_run(folder: Path, budget: float | None, step: int | None, where: Where) -> Subject:
    stored = read_run(folder)
    run = stored.run
    if where.task is not None:
        raise ValueError(f"--task is for exported policies; the run was trained on {run.task}")
    task = task_of(run, where.env, where.cost)
    policy = load(folder, step=step)
    from prudent.policies.export import checksum_of_policy

    samples = task.deterministic_reset
    about = {
        "from": "run",
        "algorithm": run.algorithm,
        "task": run.task,
        "preset": run.preset,
        "seed": run.seed,
        "step": policy.step,
        "checksum": checksum_of_policy(policy, run),
    }
    return Subject(
        act=policy.sample if samples else lambda observation, number: policy(observation),
        samples=samples,
        task=task,
        accounting=with_budget(accounting_of(run), budget),
        check=lambda environment: check_same_environment(environment, stored),
        about=about,
        seeds_in_use=frozenset({run.seed, EVALUATION_SEED}),
    )


def of_exported(path: Path, budget: float | None, where: Where) -> Subject:
    policy = load_exported(path)
    about = policy.about
    try:
        trained = Constraint(float(about["budget"].split()[0]), about["discounted"] == "True")
        accounting = Accounting(trained, float(about["cost_discount"]), int(about["horizon"]))
        seed = int(about["seed"])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise DamagedPolicy(
            f"{path} does not say how cost was counted ({error!r}); export the policy again"
        ) from None
    accounting = with_budget(accounting, budget)
    task = task_of_exported(about, accounting, where)
    if task.deterministic_reset:
        raise ValueError(
            f"every episode of {task.name} starts alike and an exported policy acts greedily, so "
            "that all episodes would be one; certify the run, whose actions can be sampled"
        )
    return Subject(
        act=lambda observation, number: policy(observation),
        samples=False,
        task=task,
        accounting=accounting._replace(horizon=task.horizon),
        check=lambda environment: check_spaces_match(policy, environment),
        about={"from": path.name, **about, "checksum": policy.checksum},
        seeds_in_use=frozenset({seed, EVALUATION_SEED}),
    )


def with_budget(accounting: Accounting, budget: float | None) -> Accounting:
    if budget is None:
        return accounting
    return accounting._replace(constraint=Constraint(budget, accounting.constraint.discounted))


def task_of_exported(about: Mapping[str, str], accounting: Accounting, where: Where) -> Task:
    """By default where it was trained; as with runs, only if that name cannot run foreign code."""
    if where.task is not None and where.env is not None:
        raise ValueError("name a --task or an --env, not both")
    given = where.env if where.task is None else where.task
    named = about["task"] if given is None else given
    if given is None:
        check_runs_no_code("policy", about["task"])
    limits: dict[str, Any] = {
        "budget": accounting.constraint.budget,
        "horizon": accounting.horizon,
        "discounted": accounting.constraint.discounted,
        "negative_costs": accounting.constraint.budget < 0.0,
        "cost_range": exported_range(about),
    }
    cost = recorded_cost(named, about["cost"]) if where.cost is None else where.cost
    if isinstance(named, str):
        return find_task(named, None, cost=cost, **limits)
    return find_task(environment_name(named), named, cost=cost, **limits)


def exported_range(about: Mapping[str, str]) -> tuple[float, float] | None:
    """What whoever trained said that a step can cost."""
    if "cost_range" not in about:
        return None
    try:
        least, largest = map(float, about["cost_range"].split())
    except ValueError:
        raise DamagedPolicy(
            f"the policy's range of costs is {about['cost_range']!r}, not two numbers; export it "
            "again"
        ) from None
    return least, largest


def check_spaces_match(policy: ExportedPolicy, environment: AdaptedEnv) -> None:
    """That an environment has the spaces that the policy was made for."""
    actual, known = describe_spaces(environment), policy.spaces
    size = math.prod(known.observation_shape)
    if environment.observation_size != size:
        raise ValueError(
            f"{environment.name} has observations of {environment.observation_size} numbers, the "
            f"policy was trained on {size}"
        )
    expected: dict[str, Any] = {"action_shape": list(known.action_shape)}
    if known.action_bounds is not None:
        low, high = (bound.tolist() for bound in known.action_bounds)
        expected |= {"action_low": low, "action_high": high}
    for name, value in expected.items():
        if actual[name] != value:
            raise ValueError(
                f"{environment.name} is not the policy's environment: {name.replace('_', ' ')} is "
                f"{actual[name]}, the policy's {value}"
            )


class Bound(NamedTuple):
    """Between these lies the cost of every episode that can be."""

    low: float
    high: float
    source: str
    of_step: tuple[float | None, float | None] = (None, None)  # where it follows from these


def bound_of(subject: Subject, max_cost: float | None, min_cost: float | None) -> Bound:
    """From what a step can cost, counted as the budget is, unless given outright."""
    constraint, discount, horizon = subject.accounting
    least, most = step_range(subject.task)
    if max_cost is None and not math.isfinite(most):
        raise ValueError(
            f"{subject.task.name} does not say what a step can cost at most, and nothing can be "
            "proven of costs without a bound; give the most that one episode can cost "
            f"(--max-cost, {constraint.unit})"
        )
    low, high = constraint.of_episode((least, most), discount, horizon)
    low = low if min_cost is None else min_cost
    high = high if max_cost is None else max_cost
    if low == -math.inf:
        raise ValueError(
            f"{subject.task.name} does not say what a step can cost at least, which may be below "
            f"0; give the least that one episode can cost (--min-cost, {constraint.unit})"
        )
    options = {"--max-cost": max_cost, "--min-cost": min_cost}
    given = [name for name, value in options.items() if value is not None]
    source = " and ".join(given) or f"a step costs {least:g} to {most:g}, at most {horizon} of them"
    if not -math.inf < low < high < math.inf:
        raise ValueError(
            f"an episode is said to cost at least {low:g} and at most {high:g}; two finite numbers "
            "are needed, the second the larger (--min-cost, --max-cost)"
        )
    of_step = least if min_cost is None else None, most if max_cost is None else None
    return Bound(low, high, source, of_step)
