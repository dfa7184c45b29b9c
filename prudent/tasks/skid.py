"""Skid and stall: small tasks in which the replay misleads a multiplier, with a known answer.

A car whose speed v follows the throttle a, both in [-1, 1]:  v <- v + 0.3 (a - v).

    reward = v        cost = v^2

Whatever the policy, reward_t <= sqrt(cost_t), so by Jensen's inequality no policy with an expected
cost of d over T steps earns more than sqrt(d * T), and a steady speed of sqrt(d / T) earns that.

    skid    faster than 0.5, the car loses its grip until the episode ends: cost 1, reward 0
    stall   faster than 0.3 backwards, the engine dies until the episode ends: cost 0, reward 0

The untrained policy soon does either, a trained one never. The steps of its warm-up stay in the
replay all the same: of skidding, where all cost to come is lost already, so that the replay's mean
is over the budget however carefully the car drives now; or of stalling, where no cost will ever
come, so that the mean is within the budget while every episode is over it.
"""

import math
from functools import partial
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.wrappers import TimeLimit

from prudent.settings.run import Constraint
from prudent.tasks.task import Task

RESPONSE = 0.3  # share of the difference to the throttle that a step makes up
GRIP = 0.5  # speed above which the car skids
STALL = 0.3  # speed backwards above which it stalls
HORIZON = 200
BUDGET = 8.0


def best_return(budget: float, horizon: int = HORIZON) -> float:
    """No policy that keeps the budget earns more."""
    return math.sqrt(budget * horizon)


class Car(gymnasium.Env[np.ndarray, np.ndarray]):
    """Sees its speed and whether it is lost."""

    def __init__(self, trap: Literal["skid", "stall"], render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = Box(-1.0, 1.0, (2,), np.float64)
        self.action_space = Box(-1.0, 1.0, (1,), np.float64)
        self._trap, self._speed, self._lost = trap, 0.0, False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._speed, self._lost = float(self.np_random.uniform(0.0, 0.1)), False
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        throttle = float(np.clip(np.asarray(action, float).ravel()[0], -1.0, 1.0))
        if self._lost:
            return self._observe(), 0.0, False, False, {"cost": float(self._trap == "skid")}
        self._speed += RESPONSE * (throttle - self._speed)
        if self._trap == "skid":
            self._lost = abs(self._speed) > GRIP
        else:
            self._lost = self._speed < -STALL
        if self._lost:
            return self._observe(), 0.0, False, False, {"cost": float(self._trap == "skid")}
        return self._observe(), self._speed, False, False, {"cost": self._speed**2}

    def _observe(self) -> np.ndarray:
        return np.array([self._speed, float(self._lost)])


def make_car(trap: Literal["skid", "stall"], render_mode: str | None = None) -> gymnasium.Env:
    return TimeLimit(Car(trap, render_mode), HORIZON)


def _task(trap: Literal["skid", "stall"], summary: str) -> Task:
    return Task(
        name=trap,
        make=partial(make_car, trap),
        horizon=HORIZON,
        constraint=Constraint(BUDGET, discounted=False),
        summary=summary,
        cost_range=(0.0, 1.0),
    )


SKID_TASK = _task("skid", "drive fast, but hold the road: old violations stay in the replay")
STALL_TASK = _task("stall", "drive fast, but forwards: old harmless steps stay in the replay")
