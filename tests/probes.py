"""Tiny constrained problems with a closed-form answer, each isolating one thing."""

from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from prudent.constraints import Constraint
from prudent.tasks.task import Task


class OneStep(gymnasium.Env):
    """One action a in [-1, 1], then the end. Reward a; cost `offset` + a."""

    def __init__(self, offset: float = 1.0) -> None:
        self.observation_space = Box(-1.0, 1.0, (1,), np.float64)
        self.action_space = Box(-1.0, 1.0, (1,), np.float64)
        self.offset = offset

    def reset(self, *, seed: int | None = None, options: Any = None):
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action):
        a = float(action[0])
        return np.zeros(1), a, True, False, {"cost": self.offset + a}


class Delayed(gymnasium.Env):
    """Two steps. The first action earns a; the second earns nothing and pays the cost 1 + a of it.

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
            return np.array([1.0, self._debt - 1.0]), float(action[0]), False, False, {"cost": 0.0}
        return np.array([1.0, 0.0]), 0.0, True, False, {"cost": self._debt}


def probe(name: str, make, budget: float, horizon: int) -> Task:
    def build(render_mode=None):
        return make()

    return Task(name, build, horizon, Constraint(budget, discounted=True), summary="")


# The best action of each: cost 1 + a <= budget, so a = budget - 1, or the bound that comes first.
ACTIVE = probe("active", OneStep, 0.75, 1)  # a = -0.25
SLACK = probe("slack", OneStep, 5.0, 1)  # a = 1
INFEASIBLE = probe("infeasible", partial(OneStep, offset=2.0), 0.5, 1)  # a = -1, cost 1 > 0.5
DELAYED = probe("delayed", Delayed, 0.99 * 0.75, 2)  # seen from the start, cost is 0.99 (1 + a)
