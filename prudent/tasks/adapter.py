"""Any Gymnasium environment in the one form that the library knows.

Actions lie in [-1, 1], observations are flat float vectors, and each step carries a cost and the
two masks. An environment that does not fit is refused here, before training starts.
"""

import math
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from prudent.tasks.task import Task


class UnsupportedEnvironment(ValueError):
    """An environment the library cannot learn in; the message says what to do."""


class Outcome(NamedTuple):
    """What one step brought."""

    observation: np.ndarray  # [obs]
    reward: float
    cost: float
    terminated: bool
    truncated: bool
    reward_continues: float
    cost_continues: float
    info: dict[str, Any]


class AdaptedEnv:
    """An environment with the library's conventions. `unwrapped` is the user's own."""

    def __init__(self, env: gymnasium.Env, name: str) -> None:
        check_spaces(env, name)
        self.unwrapped = env
        self.name = name
        space = env.action_space
        assert isinstance(space, Box)
        low, high = space.low.astype(float).ravel(), space.high.astype(float).ravel()
        self.action_scale = (high - low) / 2.0
        self.action_centre = (high + low) / 2.0
        self.action_size = low.size
        assert env.observation_space.shape is not None
        self.observation_size = math.prod(env.observation_space.shape)
        self._is_unit = bool((low == -1.0).all() and (high == 1.0).all())
        # As plain numbers where they can be: NumPy then neither broadcasts nor converts.
        bounds: tuple[Any, Any] = (-1.0, 1.0) if self._is_unit else (low, high)
        self._low, self._high = bounds
        self._action_shape, self._action_dtype = space.shape, space.dtype

    def reset(self, seed: int) -> np.ndarray:
        observation, _ = self.unwrapped.reset(seed=seed)
        return np.asarray(observation).ravel()

    def to_environment(self, unit_action: np.ndarray) -> np.ndarray:
        """From [-1, 1] to the environment's bounds; rounding never leaves them. [..., act]."""
        action = unit_action
        if not self._is_unit:
            action = self.action_scale * unit_action + self.action_centre
        action = np.minimum(np.maximum(action, self._low), self._high)
        return action.astype(self._action_dtype, copy=False)

    def to_unit(self, action: np.ndarray) -> np.ndarray:
        """From the environment's bounds to [-1, 1]."""
        return (np.asarray(action, float).ravel() - self.action_centre) / self.action_scale

    def step(self, unit_action: np.ndarray) -> Outcome:
        return self.take(self.to_environment(unit_action))

    def take(self, action: np.ndarray) -> Outcome:
        """A step by an action that is `to_environment` already."""
        result: Any = self.unwrapped.step(action.reshape(self._action_shape))
        if len(result) == 6:  # Safety-Gymnasium's order: the cost is the third item
            observation, reward, cost, terminated, truncated, info = result
        else:
            observation, reward, terminated, truncated, info = result
            if "cost" not in info:
                raise UnsupportedEnvironment(
                    f"{self.name}: step() reported no cost (info has {sorted(info) or 'no keys'}); "
                    'set info["cost"] at every step, or return it as the third of six items'
                )
            cost = info["cost"]
        continues = float(not terminated)
        return Outcome(
            observation=np.asarray(observation).ravel(),
            reward=float(reward),
            cost=float(cost),
            terminated=bool(terminated),
            truncated=bool(truncated),
            reward_continues=float(info.get("reward_continues", continues)),
            cost_continues=float(info.get("cost_continues", continues)),
            info=info,
        )

    def render(self) -> np.ndarray:
        return np.asarray(self.unwrapped.render())

    def close(self) -> None:
        self.unwrapped.close()


def check_spaces(env: gymnasium.Env, name: str) -> None:
    """Refuse what cannot be learned in, saying what was found and what to do."""
    observations, actions = env.observation_space, env.action_space
    if not isinstance(observations, Box):
        raise UnsupportedEnvironment(
            f"{name}: observations are {_kind(observations)}, a Box is needed; "
            "wrap the environment in gymnasium.wrappers.FlattenObservation"
        )
    if not isinstance(actions, Box):
        raise UnsupportedEnvironment(
            f"{name}: actions are {_kind(actions)}, a Box is needed; "
            "discrete actions are not supported, give the environment a continuous action"
        )
    if not np.issubdtype(actions.dtype, np.floating):
        raise UnsupportedEnvironment(
            f"{name}: actions have type {actions.dtype}, floating point is needed; "
            "declare the Box with dtype=numpy.float32"
        )
    if not (np.isfinite(actions.low).all() and np.isfinite(actions.high).all()):
        raise UnsupportedEnvironment(
            f"{name}: the action bounds are not finite (low {actions.low.min()}, "
            f"high {actions.high.max()}); use gymnasium.wrappers.RescaleAction or declare bounds"
        )
    if not (actions.high > actions.low).all():
        raise UnsupportedEnvironment(
            f"{name}: some action bounds are empty (low {actions.low.tolist()}, "
            f"high {actions.high.tolist()}); every low must lie below its high"
        )


def _kind(space: gymnasium.Space[Any]) -> str:
    return f"a {type(space).__name__} space"


def open_environment(task: Task, render_mode: str | None = None) -> AdaptedEnv:
    env = task.make(render_mode=render_mode) if render_mode else task.make()
    return AdaptedEnv(env, task.name)


def probe(task: Task, steps: int = 2) -> None:
    """Take a few steps in a throw-away environment, so that a missing cost, a wrong shape or a NaN
    is found before any training.
    """
    environment = open_environment(task)
    try:
        observation = environment.reset(seed=0)
        for _ in range(steps):
            _check_finite(environment, observation)
            outcome = environment.step(np.zeros(environment.action_size))
            _check_finite(environment, [outcome.reward, outcome.cost])
            observation = outcome.observation
            if outcome.terminated or outcome.truncated:
                break
    finally:
        environment.close()


def _check_finite(environment: AdaptedEnv, values: Any) -> None:
    array = np.asarray(values, float)
    if not np.isfinite(array).all():
        raise UnsupportedEnvironment(
            f"{environment.name}: a non-finite number in its first steps ({array.tolist()}); "
            "mend the environment"
        )
