"""Environments of the user's own: by a function, by name, or the one that is handed in."""

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium

from prudent.tasks.adapter import in_words, is_same_environment

MakeEnvironment = Callable[..., gymnasium.Env]


class Source(NamedTuple):
    """Where environments come from."""

    make: MakeEnvironment  # (render_mode=None) -> environment
    time_limit: int | None  # as the environment states it
    shared: bool  # it is always the same one
    cut_at: int | None = None  # steps after which it ends an episode, where that is certain


def source_of(name: str, given: Any) -> Source:
    """`given` is a Gymnasium id, a function that makes an environment, or an environment."""
    return _registered(given) if isinstance(given, str) else _source(name, given)


def named(name: str) -> str | Callable[..., Any]:
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
            f"{name}: an environment or a function that makes one is needed, not {in_words(given)}"
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
        raise ValueError(f"{name}: the function returned {in_words(env)}, no environment")
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
