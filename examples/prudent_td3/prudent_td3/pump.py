"""Pump: deliver as much as an energy budget allows. A small task with a known answer.

Its motor runs at power p and follows the power u in [0, 2] that it is told, half of the way at each
step. It delivers less and less for more power, and beyond p = 1 it cavitates:

    reward  = 2 p - p²     what is delivered
    cost    = p            the energy it takes

The reward is concave, so by Jensen's inequality no policy that spends d over T steps, with a mean
power m = d / T of at most 1, delivers more than T (2 m - m²), which constant power does. The price
of energy is there the slope of the reward, 2 - 2 m.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from prudent import Constraint, Task

HORIZON = 50
BUDGET = 20.0
MOST = 2.0  # power


def best_return(budget: float) -> float:
    """No policy that keeps the budget delivers more."""
    return HORIZON * delivered(min(budget / HORIZON, 1.0))


def delivered(power: float) -> float:
    return 2.0 * power - power**2


class Pump(gymnasium.Env[np.ndarray, np.ndarray]):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = Box(0.0, MOST, (1,), np.float64)
        self.action_space = Box(0.0, MOST, (1,), np.float64)
        self._power = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._power = self.np_random.uniform(0.0, 1.0)
        return np.array([self._power]), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        told = min(max(float(action[0]), 0.0), MOST)
        self._power += 0.5 * (told - self._power)
        observation, info = np.array([self._power]), {"cost": self._power}
        return observation, delivered(self._power), False, False, info

    def render(self) -> np.ndarray:
        """A column as high as the power, and a line at that of the budget."""
        picture = np.full((64, 64, 3), 255, np.uint8)
        picture[64 - round(32 * self._power) :, 16:48] = (20, 60, 160)
        picture[64 - round(32 * BUDGET / HORIZON)] = (200, 60, 0)
        return picture


PUMP = Task(
    name="pump",
    make=Pump,  # takes render_mode; the time limit is the horizon
    horizon=HORIZON,
    constraint=Constraint(BUDGET, discounted=False),
    summary="deliver as much as an energy budget allows: a known optimum",
)
