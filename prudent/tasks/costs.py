"""A cost from wherever the environment has it, and observations of several parts as one vector."""

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
from gymnasium.spaces import Dict, Tuple
from gymnasium.wrappers import FlattenObservation

from prudent.tasks.adapter import UnsupportedEnvironment, bad_reset, bad_step, in_words

# The key of an entry of `info`, or a function of observation (as the environment gives it), action
# (in its units), reward, terminated, truncated and info.
Cost = str | Callable[[Any, Any, Any, Any, Any, Any], Any]


def cost_name(cost: Cost | None) -> str:
    """Where a cost comes from, for records."""
    if cost is None or isinstance(cost, str):
        return f'info["{"cost" if cost is None else cost}"]'
    function = getattr(cost, "func", cost)  # what a partial calls
    return str(getattr(function, "__qualname__", type(function).__name__))


def prepared(
    make: Callable[..., gymnasium.Env],
    name: str,
    cost: Cost | None,
    render_mode: str | None = None,
) -> gymnasium.Env:
    """An environment that reports the cost, with flat observations where they have parts."""
    env = make(render_mode=render_mode) if render_mode else make()
    space = env.observation_space
    has_parts = isinstance(space, Dict | Tuple) and space.is_np_flattenable
    if cost is None and not has_parts:
        return env
    if not isinstance(env, gymnasium.Env):
        raise UnsupportedEnvironment(
            f"{name}: a {type(env).__name__} is no gymnasium.Env; make it one, so that it can be "
            "wrapped"
        )
    env = WithCost(env, name, cost)
    return FlattenObservation(env) if has_parts else env


class WithCost(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Gymnasium's five-tuple with the cost as `info["cost"]`, for wrappers that know no other.

    Without a `cost` it is what the environment reports, in either form.
    """

    def __init__(self, env: gymnasium.Env, name: str, cost: Cost | None) -> None:
        super().__init__(env)
        self._name, self._cost = name, cost

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        result: Any = self.env.reset(seed=seed, options=options)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise bad_reset(self._name, result)
        self._check_parts(result[0])
        return result[0], result[1]

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        result: Any = self.env.step(action)
        if not (isinstance(result, tuple) and len(result) in (5, 6)):
            raise bad_step(self._name, result)
        observation, reward, *reported, terminated, truncated, info = result
        if self._cost is None:
            if reported:
                info = {**info, "cost": reported[0]}
        elif isinstance(self._cost, str):
            if self._cost not in info:
                raise UnsupportedEnvironment(
                    f"{self._name}: cost={self._cost!r} names no entry of info, which has "
                    f"{sorted(info) or 'no keys'}"
                )
            info = {**info, "cost": info[self._cost]}
        else:
            cost = self._cost(observation, action, reward, terminated, truncated, info)
            info = {**info, "cost": cost}
        return observation, reward, terminated, truncated, info

    def _check_parts(self, observation: Any) -> None:
        space = self.env.observation_space
        if not isinstance(space, Dict | Tuple):
            return
        fits = isinstance(observation, Mapping if isinstance(space, Dict) else tuple | list)
        if fits and isinstance(space, Dict):
            fits = set(space.spaces) <= set(observation)
        if not fits:
            raise UnsupportedEnvironment(
                f"{self._name}: observations are a {type(space).__name__} space, a Box is needed; "
                "wrap the environment in one that makes them so (FlattenObservation cannot: "
                f"reset() gave {in_words(observation)}, which is not of that space)"
            )
