"""MuJoCo locomotion in which speed is the cost.

The tasks of the CAL paper: Gymnasium's v5 environments with the arguments that make them the v3
ones the paper used, and a budget on the discounted sum of speed. The budgets are half of what an
unconstrained PPO agent spends after a million steps (FOCOPS, CUP). They are not
Safety-Gymnasium's velocity tasks, which count steps above a speed limit.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import mujoco
import numpy as np
from gymnasium.wrappers import TimeLimit

from prudent.constraints import Constraint
from prudent.tasks.task import Task

HORIZON = 1000
# v3 under mujoco-py saw no contact forces: its contact cost was 0, and what v5 observes of them,
# of inertia and of actuators was zeros or was cut off by the paper.
ANT = {"include_cfrc_ext_in_observation": False, "contact_cost_weight": 0.0}
WALKER = {"xml_file": "walker2d.xml"}  # v5's own model has other feet
HUMANOID = {
    "include_cinert_in_observation": False,
    "include_cvel_in_observation": False,
    "include_qfrc_actuator_in_observation": False,
    "include_cfrc_ext_in_observation": False,
    "contact_cost_weight": 0.0,
}

QUICK = ("Hopper-v5", "Walker2d-v5")


class SpeedCost(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Reports speed as `info["cost"]`, and pays the reward for being healthy on the last step too,
    as v3 did and v5 does not.
    """

    def __init__(self, env: gymnasium.Env, healthy_reward: float) -> None:
        super().__init__(env)
        self._healthy_reward = healthy_reward

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        # Planar speed where the body can go sideways.
        info["cost"] = math.hypot(info["x_velocity"], info.get("y_velocity", 0.0))
        if terminated:
            reward = float(reward) + self._healthy_reward
            info["reward_survive"] = self._healthy_reward
        return observation, reward, terminated, truncated, info


class QuickSpeedCost(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The same for Hopper and Walker2d, by a step of our own.

    Gymnasium's takes as long around the physics as in it: it judges their health twice and asks for
    contact forces that nobody observes. This one reads the constants of the environment it wraps
    and comes to the same numbers. Of `info` it keeps speed and the reward's parts.
    """

    def __init__(self, env: gymnasium.Env, healthy_reward: float) -> None:
        super().__init__(env)
        body: Any = env.unwrapped
        self._advance = partial(mujoco.mj_step, body.model, body.data, nstep=body.frame_skip)
        self._positions, self._velocities = body.data.qpos, body.data.qvel
        self._controls, self._seconds = body.data.ctrl, body.dt
        self._heights, self._angles = body._healthy_z_range, body._healthy_angle_range
        anything = (-math.inf, math.inf)  # which Walker2d's joints may do
        self._others = getattr(body, "_healthy_state_range", anything)
        self._forward_weight = body._forward_reward_weight
        self._effort_weight = body._ctrl_cost_weight
        self._healthy_reward = healthy_reward

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        before = self._positions.item(0)
        self._controls[:] = action
        self._advance()
        state = np.concatenate((self._positions, self._velocities))
        x, height, *others = state.tolist()
        healthy = (
            self._heights[0] < height < self._heights[1]
            and self._angles[0] < others[0] < self._angles[1]
            and self._others[0] < min(others)
            and max(others) < self._others[1]
        )
        observed = state[len(self._positions) :]  # velocities, cut to what Gymnasium lets be seen
        np.minimum(observed, 10.0, out=observed)
        np.maximum(observed, -10.0, out=observed)
        speed = (x - before) / self._seconds
        forward = self._forward_weight * speed
        effort = float(self._effort_weight * np.add.reduce(np.square(action)))
        info = {
            "x_velocity": speed,
            "reward_forward": forward,
            "reward_survive": self._healthy_reward,
            "reward_ctrl": -effort,
            "cost": abs(speed),
        }
        return state[1:], forward + self._healthy_reward - effort, not healthy, False, info


def make_velocity(
    gymnasium_id: str,
    arguments: dict[str, Any],
    healthy_reward: float,
    render_mode: str | None = None,
) -> gymnasium.Env:
    env = gymnasium.make(
        gymnasium_id,
        max_episode_steps=-1,  # the time limit is put around our own step
        render_mode=render_mode,
        disable_env_checker=True,  # the tests check it; no need to at every step
        **arguments,
    )
    with_cost = QuickSpeedCost if gymnasium_id in QUICK else SpeedCost
    return TimeLimit(with_cost(env, healthy_reward), HORIZON)


def velocity(
    body: str,
    budget: float,
    healthy_reward: float = 0.0,
    arguments: dict[str, Any] | None = None,
) -> Task:
    make: Callable[..., gymnasium.Env] = partial(
        make_velocity, f"{body}-v5", arguments or {}, healthy_reward
    )
    return Task(
        name=f"{body.lower()}-velocity",
        make=make,
        horizon=HORIZON,
        constraint=Constraint(budget, discounted=True),
        summary=f"run with the {body}; the cost is its speed",
    )


VELOCITY_TASKS = (
    velocity("Hopper", 82.748, healthy_reward=1.0),
    velocity("HalfCheetah", 151.989),
    velocity("Ant", 103.115, healthy_reward=1.0, arguments=ANT),
    velocity("Humanoid", 20.140, healthy_reward=5.0, arguments=HUMANOID),
    velocity("Walker2d", 81.886, healthy_reward=1.0, arguments=WALKER),
    velocity("Swimmer", 24.516),
)
