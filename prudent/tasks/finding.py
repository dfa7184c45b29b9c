"""Which task is meant: named by whoever trains, or by the record of a run."""

import math
import operator
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any, SupportsIndex

import gymnasium

from prudent.settings.run import Constraint, Run
from prudent.tasks import TASKS
from prudent.tasks.adapter import AdaptedEnv, open_environment
from prudent.tasks.costs import Cost, cost_name, prepared
from prudent.tasks.custom import MakeEnvironment, named, source_of
from prudent.tasks.task import Task, range_complaint

# A function that makes an environment, an environment, a Gymnasium id or `module:callable`.
Environment = Callable[..., gymnasium.Env] | gymnasium.Env | str


def name_task(
    task: str | None,
    env: Environment | None,
    limits: tuple[float | None, int | None, bool | None],
    **how: Any,
) -> Task:
    """`limits` are budget, horizon and whether the cost is discounted."""
    if (task is None) == (env is None):
        raise ValueError("name either a task (`prudent list` shows them) or an env, and one only")
    name = task or env
    if isinstance(name, str):
        return find_task(name, None, *limits, **how)
    return find_task(environment_name(name), name, *limits, **how)


def find_task(
    name: str,
    make: MakeEnvironment | gymnasium.Env | None = None,
    budget: float | None = None,
    horizon: int | None = None,
    discounted: bool | None = None,
    cost: Cost | None = None,
    negative_costs: bool = False,
    cost_range: tuple[float, float] | None = None,
) -> Task:
    """A task by name, or made of an environment and a budget.

    `name` is one of ours, a Gymnasium id, `module:callable` or `module:id`; with `make`, a function
    that makes an environment or an environment itself, it is only a name. `cost` says where a
    step's cost comes from, if not from `info["cost"]`: the key of another entry of `info`, or a
    function of (observation, action, reward, terminated, truncated, info). A budget below 0 is
    taken for a mistake unless `negative_costs` says that costs can be negative.
    `cost_range` is the least and the largest cost that a step can have, where they are known.
    """
    if budget is not None:
        check_budget(name, budget, negative_costs)
    if cost_range is not None and (complaint := range_complaint(cost_range)):
        raise ValueError(f"{name}: {complaint} are needed")
    if horizon is not None:
        horizon = checked_horizon(name, horizon)
    if make is None and name in TASKS:
        return known_task(TASKS[name], budget, horizon, discounted, cost, cost_range)
    given = named(name) if make is None else make
    if budget is None:
        raise ValueError(
            f"{name}: a budget is needed (budget=..., --budget): the cost one episode may have, "
            "as a plain sum unless discounted"
        )
    source = source_of(name, given)
    check_not_longer(name, horizon, source.cut_at)
    horizon = horizon or source.time_limit
    if horizon is None:
        raise ValueError(
            f"{name}: a horizon is needed (horizon=..., --horizon): the steps after which an "
            "episode is cut; the environment does not say"
        )
    return Task(
        name,
        partial(prepared, source.make, name, cost),
        horizon,
        Constraint(budget, bool(discounted)),
        summary="" if cost is None else f"the cost is {cost_name(cost)}",
        cost_source=cost_name(cost),
        shared=source.shared,
        cost_range=(-math.inf, math.inf) if cost_range is None and negative_costs else cost_range,
    )


def unknown_task(name: str) -> Task:
    """Stands for a task of the user's own before its environment is made."""
    return Task(name, make=gymnasium.make, horizon=1, constraint=Constraint(0.0, False), summary="")


def check_budget(name: str, budget: Any, negative_costs: bool) -> None:
    if not isinstance(budget, Real) or not math.isfinite(budget):
        raise ValueError(f"{name}: the budget is {budget!r}, a finite number is needed")
    if budget < 0.0 and not negative_costs:
        raise ValueError(
            f"{name}: the budget is {budget:g}, below 0, which no policy keeps unless costs can be "
            "negative; say so with negative_costs=True"
        )


def checked_horizon(name: str, horizon: SupportsIndex) -> int:
    whole = isinstance(horizon, SupportsIndex) and not isinstance(horizon, bool)
    if not whole or operator.index(horizon) < 1:
        raise ValueError(
            f"{name}: the horizon is {horizon!r}, a whole number of steps is needed, 1 or more"
        )
    return operator.index(horizon)


def check_not_longer(name: str, horizon: int | None, cut_at: int | None) -> None:
    """A budget for more steps than an episode can have would be seen as a smaller one."""
    if horizon is not None and cut_at is not None and horizon > cut_at:
        raise ValueError(
            f"{name}: the horizon is {horizon}, but the environment ends an episode after "
            f"{cut_at} steps; give that or less"
        )


def known_task(
    task: Task,
    budget: float | None,
    horizon: int | None,
    discounted: bool | None,
    cost: Cost | None,
    cost_range: tuple[float, float] | None,
) -> Task:
    """One of ours, with what is given in place of its own."""
    if cost is not None:
        raise ValueError(
            f"{task.name}: the task has a cost of its own; cost=... is for other environments"
        )
    given: dict[str, Any] = {"budget": budget, "discounted": discounted}
    if horizon is not None:
        check_not_longer(task.name, horizon, task.horizon)
    return replace(
        task,
        constraint=replace(
            task.constraint, **{name: value for name, value in given.items() if value is not None}
        ),
        horizon=horizon or task.horizon,
        cost_range=task.cost_range if cost_range is None else cost_range,
    )


def environment_name(env: Any) -> str:
    """`module:name`, by which the command line finds it again if it can be imported at all."""
    named = env if hasattr(env, "__qualname__") else type(env)
    return f"{getattr(named, '__module__', 'custom')}:{getattr(named, '__qualname__', 'env')}"


def task_of(run: Run, env: Environment | None = None, cost: Cost | None = None) -> Task:
    """The run's task. What `run.json` names is imported and called only if it is one of ours, of an
    installed package or a registered Gymnasium id: a folder somebody hands over must not run code.
    """
    limits: dict[str, Any] = {
        "budget": run.budget,
        "horizon": run.horizon,
        "discounted": run.discounted,
        "negative_costs": run.budget < 0.0,  # which was accepted when the run began
        "cost_range": run.step_range(),
    }
    if env is None:
        check_runs_no_code("run", run.task)
    if cost is None:
        cost = recorded_cost(env or run.task, run.cost_source)
    if env is None or isinstance(env, str):
        return find_task(env or run.task, None, cost=cost, **limits)
    return find_task(environment_name(env), env, cost=cost, **limits)


def check_runs_no_code(whose: str, name: str) -> None:
    """That an environment's name is one whose meaning somebody here has agreed to."""
    if name not in TASKS and name not in gymnasium.registry:
        raise ValueError(
            f"the {whose}'s environment is {name}, neither one of the tasks known here nor a "
            "registered Gymnasium id; if you trust it, name it again (--env module:callable, "
            f"env=...), register it (prudent.register_task), or {TASKS.how_to_install()}"
        )


def recorded_cost(named: Environment, cost_source: str) -> str | None:
    """The key of `info` that a record names; None for the usual one, or where a task has its own
    source.
    """
    own = isinstance(named, str) and named in TASKS
    if own or cost_source == 'info["cost"]':
        return None
    if not (cost_source.startswith('info["') and cost_source.endswith('"]')):
        raise ValueError(
            f"the run's cost is what the function {cost_source} returns; pass it again (cost=...)"
        )
    return cost_source[len('info["') : -len('"]')]


def check_same_environment(environment: AdaptedEnv, stored: Any) -> None:
    """That an environment has the sizes and bounds that the run's had."""
    spec = stored.content.get("spec", {})
    now = {
        "observation_size": environment.observation_size,
        "action_size": environment.action_size,
        "action_scale": environment.action_scale.tolist(),
        "action_centre": environment.action_centre.tolist(),
    }
    for name, value in now.items():
        if name in spec and spec[name] != value:
            raise ValueError(
                f"{environment.name} is not the run's environment: {name.replace('_', ' ')} is "
                f"{value}, in the run it was {spec[name]}"
            )


def check_same_task(task: Task, stored: Any) -> None:
    environment = open_environment(task)
    try:
        check_same_environment(environment, stored)
    finally:
        environment.close()
