"""The task that is meant: named by whoever trains, or by the record of a run."""

from collections.abc import Callable
from typing import Any

import gymnasium

from prudent.settings.run import Run
from prudent.tasks import TASKS
from prudent.tasks.adapter import AdaptedEnv, open_environment
from prudent.tasks.costs import Cost
from prudent.tasks.custom import find_task
from prudent.tasks.task import Task

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
