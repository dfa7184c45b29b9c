"""Several environments of one task behind Gymnasium's vector interface.

They start again only where and when `reset` is told to by its option `reset_mask`. Of what a step
reports, `infos` holds "cost", "reward_continues" and "cost_continues", one of each per environment
(the last two as numbers or truth values). Observations hold until the next step.
"""

import multiprocessing
import signal
from contextlib import nullcontext
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from prudent.tasks.adapter import (
    AdaptedEnv,
    SharedEnvironment,
    open_environment,
    open_several,
)
from prudent.tasks.custom import current_folder_importable, is_of_current_folder
from prudent.tasks.task import Task


class AsGymnasium(gymnasium.Env[np.ndarray, np.ndarray]):
    """An adapted environment in Gymnasium's form: unit actions in, flat observations out."""

    def __init__(self, environment: AdaptedEnv) -> None:
        self.environment = environment
        # Without bounds: the adapter clips actions, and nobody looks at those of observations.
        self.observation_space = Box(-np.inf, np.inf, (environment.observation_size,), np.float64)
        self.action_space = Box(-np.inf, np.inf, (environment.action_size,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        assert seed is not None
        return self.environment.reset(seed), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        outcome = self.environment.step(action)
        infos = {
            "cost": outcome.cost,
            "reward_continues": outcome.reward_continues,
            "cost_continues": outcome.cost_continues,
        }
        return outcome.observation, outcome.reward, outcome.terminated, outcome.truncated, infos

    def close(self) -> None:
        self.environment.close()


class InTurn(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """One after the other in this process, or by the task's own step for several.

    `gymnasium.vector.SyncVectorEnv` does this too, for spaces and infos of every kind. For these
    few numbers that costs more than the policy does.
    """

    def __init__(self, task: Task, count: int) -> None:
        self.environments, self.num_envs = open_several(task, count), count
        if len(self.environments) < count:
            self.close()
            raise only_one(task, f"{count} are needed at once; choose environments=1")
        alone = AsGymnasium(self.environments[0])
        self.single_observation_space = alone.observation_space
        self.single_action_space = alone.action_space
        self.observation_space = batch_space(alone.observation_space, self.num_envs)
        self.action_space = batch_space(alone.action_space, self.num_envs)
        self.metadata = {"autoreset_mode": AutoresetMode.DISABLED}
        self._observations = np.zeros((self.num_envs, self.environments[0].observation_size))
        self._in_time = np.zeros(count, bool)
        self._step = task.together and task.together(
            [environment.unwrapped for environment in self.environments]
        )

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """`seed` has one for each environment; where the mask leaves one out, it may be None."""
        where = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        self._observations = self._observations.copy()
        for place in np.flatnonzero(where):
            self._observations[place] = self.environments[place].reset(seed[place])
        return self._observations, {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        actions = self.environments[0].to_environment(actions)
        if self._step:
            self._observations, rewards, costs, terminated = self._step(actions)
            continues = ~terminated
            infos = {"cost": costs, "reward_continues": continues, "cost_continues": continues}
            return self._observations, rewards, terminated, self._in_time, infos
        outcomes = [
            environment.take(action)
            for environment, action in zip(self.environments, actions, strict=True)
        ]
        self._observations = np.array([outcome.observation for outcome in outcomes], float)
        numbers = np.array([outcome[1:7] for outcome in outcomes], float)
        rewards, costs, terminated, truncated, reward_continues, cost_continues = numbers.T
        infos = {
            "cost": costs,
            "reward_continues": reward_continues,
            "cost_continues": cost_continues,
        }
        return self._observations, rewards, terminated > 0.0, truncated > 0.0, infos

    def close(self, **_: Any) -> None:
        for environment in self.environments:
            environment.close()


def open_vector(
    task: Task, count: int, asynchronous: bool
) -> VectorEnv[np.ndarray, np.ndarray, np.ndarray]:
    if not asynchronous:
        return InTurn(task, count)
    if task.shared:
        raise only_one(task, "which cannot go to other processes; choose asynchronous=False")
    # Processes that are started look for modules where this one does at that moment.
    with current_folder_importable() if is_of_current_folder(task.name) else nullcontext():
        return AsyncVectorEnv(
            [partial(in_a_process, task)] * count,
            context="spawn",  # a process in which JAX runs must not be forked
            autoreset_mode=AutoresetMode.DISABLED,
        )


def only_one(task: Task, complaint: str) -> SharedEnvironment:
    return SharedEnvironment(
        f"{task.name}: there is only one environment, {complaint}, or pass a function that makes a "
        "new environment at every call"
    )


def in_a_process(task: Task) -> AsGymnasium:
    if multiprocessing.parent_process() is not None:
        # Ctrl-C is for the process that trains, which finishes its epoch and saves.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return AsGymnasium(open_environment(task))
