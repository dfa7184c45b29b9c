"""Tasks of the user's own: any Gymnasium environment with a cost and a budget."""

import importlib
import inspect
import math
import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex

import gymnasium

from prudent.settings.constraint import Constraint
from prudent.tasks import TASKS
from prudent.tasks.adapter import described, is_same_environment
from prudent.tasks.costs import Cost, cost_name, prepared
from prudent.tasks.task import Task, range_complaint

MakeEnvironment = Callable[..., gymnasium.Env]


class Source(NamedTuple):
    """Where environments come from."""

    make: MakeEnvironment  # (render_mode=None) -> environment
    time_limit: int | None  # as the environment states it
    shared: bool  # it is always the same one
    cut_at: int | None = None  # steps after which it ends an episode, where that is certain


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
    check_budget(name, budget, negative_costs)
    check_cost_range(name, cost_range)
    horizon = checked_horizon(name, horizon)
    if make is None and name in TASKS:
        known = _known_task(TASKS[name], budget, horizon, discounted, cost)
        return known if cost_range is None else replace(known, cost_range=cost_range)
    given = _named(name) if make is None else make
    if budget is None:
        raise ValueError(
            f"{name}: a budget is needed (budget=..., --budget): the cost one episode may have, "
            "as a plain sum unless discounted"
        )
    source = _registered(given) if isinstance(given, str) else _source(name, given)
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
    if budget is None:
        return
    if not isinstance(budget, Real) or not math.isfinite(budget):
        raise ValueError(f"{name}: the budget is {budget!r}, a finite number is needed")
    if budget < 0.0 and not negative_costs:
        raise ValueError(
            f"{name}: the budget is {budget:g}, below 0, which no policy keeps unless costs can be "
            "negative; say so with negative_costs=True"
        )


def check_cost_range(name: str, bounds: Any) -> None:
    complaint = range_complaint(bounds)
    if complaint:
        raise ValueError(f"{name}: {complaint} are needed")


def checked_horizon(name: str, horizon: SupportsIndex | None) -> int | None:
    if horizon is None:
        return None
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


def _known_task(
    task: Task,
    budget: float | None,
    horizon: int | None,
    discounted: bool | None,
    cost: Cost | None,
) -> Task:
    if cost is not None:
        raise ValueError(
            f"{task.name}: the task has a cost of its own; cost=... is for other environments"
        )
    check_not_longer(task.name, horizon, task.horizon)
    wanted = Constraint(
        task.constraint.budget if budget is None else budget,
        task.constraint.discounted if discounted is None else discounted,
    )
    return replace(task, constraint=wanted, horizon=horizon or task.horizon)


def _named(name: str) -> str | Callable[..., Any]:
    """The Gymnasium id or the function that is meant."""
    module, colon, attribute = name.rpartition(":")
    found = None
    if colon:
        try:
            with current_folder_importable():
                found = getattr(importlib.import_module(module), attribute, None)
        except ImportError as error:
            raise ValueError(f"{name}: cannot be imported ({error})") from None
    if found is not None:
        if not callable(found):
            raise ValueError(f"{name}: is not callable; name a function that makes an environment")
        function: Callable[..., Any] = found
        return function
    if attribute in gymnasium.registry:
        return attribute
    if colon:
        raise ValueError(
            f"{name}: cannot be imported (module {module!r} has no attribute {attribute!r} and "
            "registers no environment of that id)"
        )
    raise ValueError(
        f"no task {name!r}; `prudent list` shows ours, a Gymnasium id, module:id or "
        "module:callable works too"
    )


def _registered(gymnasium_id: str) -> Source:
    limit = gymnasium.registry[gymnasium_id].max_episode_steps
    return Source(partial(gymnasium.make, gymnasium_id), limit, shared=False, cut_at=limit)


def is_of_current_folder(name: str) -> bool:
    """Whether `module:callable` was found there, where another process would not look."""
    top = sys.modules.get(name.rpartition(":")[0].partition(".")[0])
    place = getattr(top, "__file__", None)
    return place is not None and Path.cwd() in Path(place).resolve().parents


@contextmanager
def current_folder_importable() -> Iterator[None]:
    """As with `python -m`: a console script does not look there."""
    sys.path.insert(0, "")
    try:
        yield
    finally:
        sys.path.remove("")


def _source(name: str, given: Any) -> Source:
    """A function of the user's that makes environments, or the one environment there is."""
    if not callable(given) and not hasattr(given, "step"):
        raise ValueError(
            f"{name}: an environment or a function that makes one is needed, not {described(given)}"
        )
    make = partial(_call, name, given) if callable(given) else partial(_the_same, name, given)
    first = make()
    second = make()
    shared = is_same_environment(first, second)
    if not shared:
        first.close()
        second.close()
    spec = getattr(first, "spec", None)
    limit = spec.max_episode_steps if spec is not None else None
    return Source(make, limit, shared, cut_at=_time_limit_of(first))


def _time_limit_of(env: Any) -> int | None:
    """Of the wrappers that cut episodes, the tightest; what `spec` says may not be carried out."""
    found: list[int] = []
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            found.append(env._max_episode_steps)
        env = env.env
    return min(found, default=None)


def _call(name: str, make: Callable[..., Any], render_mode: str | None = None) -> gymnasium.Env:
    """Hand `render_mode` over only when one is wanted and `make` knows it."""
    takes_mode = render_mode is not None and _takes_render_mode(make)
    env = make(render_mode=render_mode) if takes_mode else make()
    if not hasattr(env, "step"):
        raise ValueError(f"{name}: the function returned {described(env)}, no environment")
    return env if takes_mode else _the_same(name, env, render_mode)


def _takes_render_mode(make: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(make).parameters
    except ValueError:  # it does not say
        return True
    kinds = {parameter.kind for parameter in parameters.values()}
    return "render_mode" in parameters or inspect.Parameter.VAR_KEYWORD in kinds


def _the_same(name: str, env: Any, render_mode: str | None = None) -> gymnasium.Env:
    mode = getattr(env, "render_mode", None)
    if render_mode is not None and mode != render_mode:
        raise ValueError(
            f"{name}: pictures need an environment with render_mode={render_mode!r}, this one has "
            f"{mode!r}; make it so, or pass a function that takes render_mode"
        )
    chosen: gymnasium.Env = env
    return chosen
