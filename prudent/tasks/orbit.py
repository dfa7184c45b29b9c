"""Orbit: a small task with a known answer, used by the tutorial and the tests.

A point circles a fire. The closer it circles, the more angle it sweeps and the hotter it gets.
With position p, step Δ (|Δ| <= v), radius r = max(|p|, r0):

    reward  = tangential part of Δ / r      the angle swept, counter-clockwise
    cost    = (r0 / r)^2                    the heat

Whatever the policy, reward_t <= (v / r0) * sqrt(cost_t). The square root is concave, so by Jensen's
inequality no policy with an expected cost of d over T steps earns more than (v / r0) * sqrt(d * T),
and circling at the radius where the heat is d / T earns that (but for the bend of one step).
"""

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.wrappers import TimeLimit

from prudent.settings.run import Constraint
from prudent.tasks.task import Task

SPEED = 0.1  # v, the longest step
FIRE_RADIUS = 0.2  # r0
FIELD = 2.0  # half the side of the square field
HORIZON = 400
BUDGET = 16.0


def best_return(budget: float, horizon: int = HORIZON) -> float:
    """No policy that keeps the budget earns more."""
    return SPEED / FIRE_RADIUS * math.sqrt(budget * horizon)


def best_radius(budget: float, horizon: int = HORIZON) -> float:
    """Where to circle to earn it."""
    return FIRE_RADIUS / math.sqrt(budget / horizon)


def swept_angle(position: np.ndarray, step: np.ndarray) -> float:
    """Tangential part of the step over the radius, both at the position it led to."""
    radius = max(math.hypot(*position), FIRE_RADIUS)
    return float(position[0] * step[1] - position[1] * step[0]) / radius**2


def heat(position: np.ndarray) -> float:
    return (FIRE_RADIUS / max(math.hypot(*position), FIRE_RADIUS)) ** 2


class Orbit(gymnasium.Env[np.ndarray, np.ndarray]):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = Box(-FIELD, FIELD, (2,), np.float64)
        self.action_space = Box(-1.0, 1.0, (2,), np.float64)
        self._position = np.zeros(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        radius, angle = self.np_random.uniform(0.5, 1.5), self.np_random.uniform(0, 2 * math.pi)
        self._position = radius * np.array([math.cos(angle), math.sin(angle)])
        return self._position.copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        action = np.asarray(action, float)
        wanted = SPEED * action / max(1.0, math.hypot(*action))
        before = self._position
        self._position = np.clip(before + wanted, -FIELD, FIELD)
        reward = swept_angle(self._position, self._position - before)
        info = {"cost": heat(self._position)}
        return self._position.copy(), reward, False, False, info

    def render(self) -> np.ndarray:
        """The fire, the best orbit and the point, as a picture of 240 x 240 dots."""
        size = 240
        across = (np.arange(size) + 0.5) / size * 2 * FIELD - FIELD
        x, y = np.meshgrid(across, -across)
        radius = np.hypot(x, y)
        glow = (FIRE_RADIUS / np.maximum(radius, FIRE_RADIUS))[..., None]
        picture = 255 - glow * np.array([25.0, 150.0, 225.0])
        picture[np.abs(radius - best_radius(BUDGET)) < 0.01] = 120.0
        point = np.hypot(x - self._position[0], y - self._position[1]) < 0.07
        picture[point] = (20.0, 60.0, 160.0)
        return picture.astype(np.uint8)


def make_orbit(render_mode: str | None = None) -> gymnasium.Env:
    return TimeLimit(Orbit(render_mode), HORIZON)


ORBIT = Task(
    name="orbit",
    make=make_orbit,
    horizon=HORIZON,
    constraint=Constraint(BUDGET, discounted=False),
    summary="circle a fire, close but not too close: the tutorial, with a known optimum",
    cost_range=(0.0, 1.0),
)
