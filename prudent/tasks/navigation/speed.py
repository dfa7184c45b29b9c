"""How fast the physics alone would be: the yardstick for an environment's own overhead."""

import time
from typing import Any

import gymnasium
import mujoco
import numpy as np

PHYSICS_STATE = mujoco.mjtState.mjSTATE_INTEGRATION

WARM_UP_STEPS = 20  # into an episode, where things that start with a jolt have settled


def bare_physics_steps_per_second(env: gymnasium.Env[Any, Any], steps: int) -> float:
    """Environment steps per second of an empty `mj_step` loop on the environment's model.

    For any Gymnasium environment with MuJoCo's `model` and `data` and a `frame_skip`. The loop
    starts from a state early in an episode, applies random controls, and starts again as often as
    the environment's time limit would make it. The environment itself is left early in an episode.
    """
    simulated: Any = env.unwrapped
    model, data = simulated.model, mujoco.MjData(simulated.model)
    start = _state_early_in_an_episode(env)
    limit = env.spec.max_episode_steps if env.spec and env.spec.max_episode_steps else 1000
    low, high = model.actuator_ctrlrange.T
    controls = np.random.default_rng(0).uniform(low, high, (limit, model.nu))

    elapsed = 0.0
    for first in range(0, steps, limit):
        mujoco.mj_setState(model, data, start, PHYSICS_STATE)
        began = time.perf_counter()
        for control in controls[: steps - first]:
            data.ctrl[:] = control
            mujoco.mj_step(model, data, simulated.frame_skip)
        elapsed += time.perf_counter() - began
    return steps / elapsed


def _state_early_in_an_episode(env: gymnasium.Env[Any, Any]) -> np.ndarray[Any, Any]:
    simulated: Any = env.unwrapped
    env.reset(seed=0)
    for _ in range(WARM_UP_STEPS):
        env.step(env.action_space.sample())
    state = np.empty(mujoco.mj_stateSize(simulated.model, PHYSICS_STATE))
    mujoco.mj_getState(simulated.model, simulated.data, state, PHYSICS_STATE)
    return state
