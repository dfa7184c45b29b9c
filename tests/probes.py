"""Tiny constrained problems with a closed-form answer, each isolating one thing."""

from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from prudent.settings.run import Constraint
from prudent.tasks.task import Task


def wish(a: float) -> float:
    """Strictly concave: under a linear reward a plain Lagrangian circles its saddle forever."""
    return -((a - 0.5) ** 2)


class OneStep(gymnasium.Env):
    """One action a in [-1, 1], then the end. Reward -(a - 1/2)^2; cost `offset` + a."""

    def __init__(self, offset: float = 1.0) -> None:
        self.observation_space = Box(-1.0, 1.0, (1,), np.float64)
        self.action_space = Box(-1.0, 1.0, (1,), np.float64)
        self.offset = offset

    def reset(self, *, seed: int | None = None, options: Any = None):
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action):
        a = float(action[0])
        return np.zeros(1), wish(a), True, False, {"cost": self.offset + a}


class Delayed(gymnasium.Env):
    """Two steps. The first action a earns as above; the second earns nothing and pays 1 + a.

    Only a critic that looks ahead knows what the first action will cost.
    """

    def __init__(self) -> None:
        self.observation_space = Box(-1.0, 1.0, (2,), np.float64)
        self.action_space = Box(-1.0, 1.0, (1,), np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None):
        super().reset(seed=seed)
        self._debt = None
        return np.zeros(2), {}

    def step(self, action):
        if self._debt is None:
            self._debt = 1.0 + float(action[0])
            reward = wish(self._debt - 1.0)
            return np.array([1.0, self._debt - 1.0]), reward, False, False, {"cost": 0.0}
        return np.array([1.0, 0.0]), 0.0, True, False, {"cost": self._debt}


def probe(name: str, make, budget: float, horizon: int) -> Task:
    def build(render_mode=None):
        return make()

    return Task(name, build, horizon, Constraint(budget, discounted=True), summary="")


# The best action of each: a = 1/2 if it may be, else a = budget - 1, else the bound. The price of
# cost at the active constraint is the slope of the reward there, 2 (1/2 - a).
ACTIVE = probe("active", OneStep, 0.75, 1)  # a = -0.25, price 1.5
SLACK = probe("slack", OneStep, 5.0, 1)  # a = 1/2, price 0
INFEASIBLE = probe("infeasible", partial(OneStep, offset=2.0), 0.5, 1)  # a = -1, cost 1 > 0.5
DELAYED = probe("delayed", Delayed, 0.99 * 0.75, 2)  # seen from the start, cost is 0.99 (1 + a)
