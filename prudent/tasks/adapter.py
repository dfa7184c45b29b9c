"""Any Gymnasium environment in the one form that the library knows.

Actions lie in [-1, 1], observations are flat float vectors, and each step carries a cost and the
two masks. An environment that does not fit is refused here, in one line. What an environment itself
raises is left as it is.
"""

import math
import weakref
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple, NoReturn

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from prudent.tasks.task import Task


class UnsupportedEnvironment(ValueError):
    """An environment the library cannot learn in; the message says what to do."""


class SharedEnvironment(UnsupportedEnvironment):
    """An environment was handed out again while it is in use: episodes would mix in it."""


class Outcome(NamedTuple):
    """What one step brought."""

    observation: np.ndarray  # [obs]
    reward: float
    cost: float
    terminated: bool
    truncated: bool
    reward_continues: float
    cost_continues: float
    info: Mapping[str, Any]


class AdaptedEnv:
    """An environment with the library's conventions. `unwrapped` is the user's own.

    Observations are copies: an environment may write its next one over the last. An environment
    that is not `owned` stays open when this is closed.
    """

    def __init__(self, env: gymnasium.Env, name: str, owned: bool = True) -> None:
        check_spaces(env, name)
        self.unwrapped = env
        self.name = name
        self.owned = owned
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
        result: Any = self.unwrapped.reset(seed=seed)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise bad_reset(self.name, result)
        return self._flat(result[0])

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
        count = len(result) if isinstance(result, tuple) else 0
        if count == 5:
            observation, reward, terminated, truncated, info = result
        elif count == 6:  # Safety-Gymnasium's order: the cost is the third item
            observation, reward, cost, terminated, truncated, info = result
        else:
            raise bad_step(self.name, result)
        if not isinstance(info, dict | Mapping):
            self._refuse(f"step() returned {in_words(info)} as its info; return a dict")
        if count == 5:
            if "cost" not in info:
                self._refuse(
                    f"step() reported no cost (info has {sorted(info) or 'no keys'}); "
                    'set info["cost"] at every step, or return it as the third of six items'
                )
            cost = info["cost"]
        # Most are of these types already; to look is quicker than to convert.
        if terminated.__class__ is not bool:
            terminated = self._flag(terminated, "terminated") == 1.0
        if truncated.__class__ is not bool:
            truncated = self._flag(truncated, "truncated") == 1.0
        reward_continues = cost_continues = 0.0 if terminated else 1.0
        if "reward_continues" in info:
            reward_continues = self._flag(info["reward_continues"], 'info["reward_continues"]')
        if "cost_continues" in info:
            cost_continues = self._flag(info["cost_continues"], 'info["cost_continues"]')
        return Outcome(
            self._flat(observation),
            reward if reward.__class__ is float else self._number(reward, "reward"),
            cost if cost.__class__ is float else self._number(cost, "cost"),
            terminated,
            truncated,
            reward_continues,
            cost_continues,
            info,
        )

    def _flat(self, observation: Any) -> np.ndarray:
        """A copy, [obs]."""
        flat: np.ndarray
        if observation.__class__ is np.ndarray:
            flat = observation.flatten()
        else:
            try:
                flat = np.array(observation).flatten()
            except ValueError:  # rows of different lengths
                flat = np.array(None)
        if flat.size != self.observation_size or flat.dtype.kind not in "fiub":
            self._refuse(
                f"an observation is {in_words(observation)}; its space is one of shape "
                f"{self.unwrapped.observation_space.shape}"
            )
        return flat

    def _number(self, value: Any, what: str) -> float:
        if isinstance(value, float | int | np.floating):
            return float(value)
        try:
            array = np.asarray(value)
        except ValueError:
            array = np.array(None)
        if array.size != 1 or array.dtype.kind not in "fiub":
            self._refuse(f"{what} is {in_words(value)}; a single number is needed")
        return float(array.item())

    def _flag(self, value: Any, what: str) -> float:
        number = self._number(value, what)
        if number != 0.0 and number != 1.0:  # nor a NaN
            self._refuse(f"{what} is {number:g}; 0 or 1 is needed")
        return number

    def _refuse(self, complaint: str) -> NoReturn:
        raise UnsupportedEnvironment(f"{self.name}: {complaint}")

    def render(self) -> Any:
        return self.unwrapped.render()

    def close(self) -> None:
        _OPEN.discard(self)
        if self.owned:
            self.owned = False
            self.unwrapped.close()


def in_words(value: Any) -> str:
    """What came, in a few words."""
    if value is None:
        return "None"
    if isinstance(value, tuple | list | dict):
        return f"a {type(value).__name__} of {len(value)} items"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} and shape {value.shape}"
    text = " ".join(repr(value).split())
    return f"the {type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"


def bad_reset(name: str, result: Any) -> UnsupportedEnvironment:
    return UnsupportedEnvironment(
        f"{name}: reset() returned {in_words(result)}; return (observation, info)"
    )


def bad_step(name: str, result: Any) -> UnsupportedEnvironment:
    return UnsupportedEnvironment(
        f"{name}: step() returned {in_words(result)}; "
        "return (observation, reward, terminated, truncated, info)"
    )


def describe_spaces(environment: "AdaptedEnv | gymnasium.Env[Any, Any]") -> dict[str, Any]:
    """What a policy must know to see and act as the environment's spaces say; for JSON."""
    env = environment.unwrapped
    observations, actions = env.observation_space, env.action_space
    assert isinstance(actions, Box)
    assert observations.shape is not None
    return {
        "observation_shape": list(observations.shape),
        "action_shape": list(actions.shape),
        "action_dtype": str(actions.dtype),
        "action_low": actions.low.astype(float).ravel().tolist(),
        "action_high": actions.high.astype(float).ravel().tolist(),
    }


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


# Those in use, in this process.
_OPEN: "weakref.WeakSet[AdaptedEnv]" = weakref.WeakSet()
# By identity, the innermost environments that were ever handed out and still exist.
_SEEN: dict[int, "weakref.ref[Any]"] = {}


def innermost(env: Any) -> Any:
    """The environment below all wrappers: what two handles of one environment have in common."""
    return getattr(env, "unwrapped", env)


def open_environment(task: Task, render_mode: str | None = None) -> AdaptedEnv:
    """An environment of the task for oneself alone, or SharedEnvironment where it has only one and
    that is in use.
    """
    env = task.make(render_mode=render_mode) if render_mode else task.make()
    if not hasattr(env, "step"):
        raise UnsupportedEnvironment(f"{task.name}: make returned {in_words(env)}, no environment")
    core = innermost(env)
    if any(innermost(other.unwrapped) is core for other in _OPEN):
        raise SharedEnvironment(
            f"{task.name}: the same environment was handed out again while it is in use, and "
            "episodes would mix in it; pass a function that makes a new environment at every call"
        )
    # One that comes again was closed already if that was ours to do.
    environment = AdaptedEnv(env, task.name, owned=not (task.shared or _seen_before(core)))
    _OPEN.add(environment)
    return environment


def _seen_before(core: Any) -> bool:
    key = id(core)
    before = _SEEN.get(key)
    try:
        _SEEN[key] = weakref.ref(core, partial(_SEEN.pop, key))
    except TypeError:  # nobody can look at it without holding it
        return False
    return before is not None and before() is core


def open_several(task: Task, count: int) -> list[AdaptedEnv]:
    """That many environments of the task; only one where it has no more than one."""
    environments: list[AdaptedEnv] = []
    try:
        while len(environments) < (1 if task.shared else count):
            environments.append(open_environment(task))
    except SharedEnvironment:
        if not environments:  # somebody else has it
            raise
    except BaseException:
        for environment in environments:
            environment.close()
        raise
    return environments


def is_same_environment(first: Any, second: Any) -> bool:
    return first is second or innermost(first) is innermost(second)


def probe(environment: AdaptedEnv, steps: int = 2) -> None:
    """Take a few steps, so that a missing cost, a wrong shape or a NaN is found before any
    training. Whoever trains begins with a reset.
    """
    observation, numbers = environment.reset(seed=0), []
    for _ in range(steps):
        outcome = environment.step(np.zeros(environment.action_size))
        numbers += [observation, np.array([outcome.reward, outcome.cost])]
        observation = outcome.observation
        if outcome.terminated or outcome.truncated:
            break
    for values in numbers:
        if not np.isfinite(np.asarray(values, float)).all():
            raise UnsupportedEnvironment(
                f"{environment.name}: a non-finite number in its first steps ({values.tolist()}); "
                "make the environment return finite numbers"
            )
