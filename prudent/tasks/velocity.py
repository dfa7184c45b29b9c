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
import numpy as np

from prudent.settings.run import Constraint
from prudent.tasks.task import StepTogether, Task

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

STANDING = ("Hopper", "Walker2d")
FASTEST = 10.0  # of their joints' speeds as they observe them


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


def standing_together(healthy_reward: float, envs: list[gymnasium.Env]) -> StepTogether:
    """The same step for several Hoppers or Walker2ds, with their constants and to the same numbers.

    Gymnasium's takes as long around the physics as in it: it judges a body's health twice, and asks
    for contact forces that nobody observes.
    """
    import mujoco  # not before it is needed: `prudent list` stays quick

    bodies: list[Any] = [env.unwrapped for env in envs]
    first = bodies[0]
    joints, seconds = first.model.nq, first.dt
    states = np.empty((len(bodies), joints + first.model.nv))  # written anew by every step
    parts = [
        (
            body.data.ctrl,
            partial(mujoco.mj_step, body.model, body.data, body.frame_skip),
            (state[:joints], body.data.qpos),
            (state[joints:], body.data.qvel),
            state,
        )
        for body, state in zip(bodies, states, strict=True)
    ]
    observations, velocities = states[:, 1:], states[:, joints:]
    (low, high), (back, front) = first._healthy_z_range, first._healthy_angle_range
    # What Walker2d's other joints do is no matter of health.
    least, most = getattr(first, "_healthy_state_range", (-math.inf, math.inf))
    forward_weight, effort_weight = first._forward_reward_weight, first._ctrl_cost_weight

    def step(actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        efforts = (effort_weight * np.add.reduce(np.square(actions), axis=1)).tolist()
        rewards, costs, fallen, fast = [], [], [], False
        for part, action, effort in zip(parts, actions, efforts, strict=True):
            control, advance, (positions, position), (speeds, velocity), state = part
            before = position.item(0)
            control[:] = action
            advance()
            positions[:], speeds[:] = position, velocity
            x, height, *others = state.tolist()  # in plain numbers, of which there are few
            lowest, highest = min(others), max(others)
            speed = (x - before) / seconds
            rewards.append(forward_weight * speed + healthy_reward - effort)
            costs.append(abs(speed))
            fallen.append(
                not (
                    low < height < high
                    and back < others[0] < front
                    and least < lowest
                    and highest < most
                )
            )
            fast = fast or lowest < -FASTEST or highest > FASTEST
        if fast:  # velocities are observed up to a bound; health sees them as they are
            velocities.clip(-FASTEST, FASTEST, out=velocities)
        return observations, np.array(rewards), np.array(costs), np.array(fallen)

    return step


def make_velocity(
    gymnasium_id: str,
    arguments: dict[str, Any],
    healthy_reward: float,
    render_mode: str | None = None,
) -> gymnasium.Env:
    env = gymnasium.make(
        gymnasium_id,
        max_episode_steps=HORIZON,
        render_mode=render_mode,
        disable_env_checker=True,  # the tests check it; no need to at every step
        **arguments,
    )
    return SpeedCost(env, healthy_reward)


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
        together=partial(standing_together, healthy_reward) if body in STANDING else None,
        family="velocity",
        cost_range=(0.0, math.inf),
    )


VELOCITY_TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        velocity("Hopper", 82.748, healthy_reward=1.0),
        velocity("HalfCheetah", 151.989),
        velocity("Ant", 103.115, healthy_reward=1.0, arguments=ANT),
        velocity("Humanoid", 20.140, healthy_reward=5.0, arguments=HUMANOID),
        velocity("Walker2d", 81.886, healthy_reward=1.0, arguments=WALKER),
        velocity("Swimmer", 24.516),
    )
}
