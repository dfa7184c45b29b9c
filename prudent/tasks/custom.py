"""Tasks of the user's own: any Gymnasium environment with a cost and a budget."""

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium

from prudent.constraints import Constraint
from prudent.tasks import TASKS
from prudent.tasks.task import Task


def find_task(
    name: str,
    make: Callable[..., gymnasium.Env] | None = None,
    budget: float | None = None,
    horizon: int | None = None,
    discounted: bool | None = None,
) -> Task:
    """A task by name, or made of an environment and a budget.

    `name` is one of ours, a Gymnasium id, or `module:callable`; with `make` it is only a name.
    """
    if make is None and name in TASKS:
        task = TASKS[name]
        wanted = Constraint(
            task.constraint.budget if budget is None else budget,
            task.constraint.discounted if discounted is None else discounted,
        )
        return replace(task, constraint=wanted, horizon=horizon or task.horizon)
    factory = make or _environment_factory(name)
    if budget is None:
        raise ValueError(
            f"{name}: a budget is needed (budget=..., --budget): the cost one episode may have, "
            "as a plain sum unless discounted"
        )
    horizon = horizon or _time_limit(factory)
    if horizon is None:
        raise ValueError(
            f"{name}: a horizon is needed (horizon=..., --horizon): the steps after which an "
            "episode is cut; the environment does not say"
        )
    return Task(name, factory, horizon, Constraint(budget, bool(discounted)), summary="")


def unknown_task(name: str) -> Task:
    """Stands for a task of the user's own before its environment is made."""
    return Task(name, make=gymnasium.make, horizon=1, constraint=Constraint(0.0, False), summary="")


def _environment_factory(name: str) -> Callable[..., gymnasium.Env]:
    module, _, attribute = name.partition(":")
    if attribute and attribute.isidentifier():
        try:
            found = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"{name}: cannot be imported ({error})") from None
        if not callable(found):
            raise ValueError(f"{name}: is not callable; name a function that makes an environment")
        return _without_render_mode(found)
    if name in gymnasium.registry:
        return lambda render_mode=None: gymnasium.make(name, render_mode=render_mode)
    raise ValueError(
        f"no task {name!r}; `prudent list` shows ours, a Gymnasium id or module:callable works too"
    )


def _without_render_mode(make: Callable[..., Any]) -> Callable[..., gymnasium.Env]:
    """Hand `render_mode` over only when one is wanted: a user's factory need not know it."""

    def build(render_mode: str | None = None) -> gymnasium.Env:
        env: gymnasium.Env = make(render_mode=render_mode) if render_mode else make()
        return env

    return build


def _time_limit(factory: Callable[..., gymnasium.Env]) -> int | None:
    env = factory()
    spec = env.spec
    env.close()
    return spec.max_episode_steps if spec is not None else None
