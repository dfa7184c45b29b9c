"""Recorded episodes of Safety-Gym as modified for CVPO, and how to play them back."""

from pathlib import Path
from typing import NamedTuple

import gymnasium
import mujoco
import numpy as np

import prudent.tasks.navigation  # noqa: F401  registers the environments

DATA = Path(__file__).parent / "data"

# Trajectories are chaotic after the first collision, so that only the versions with which they
# were recorded can repeat them from the actions alone.
RECORDED_WITH = {"mujoco": "4.0.0", "numpy": "2.4.6"}
SAME_VERSIONS = {"mujoco": mujoco.__version__, "numpy": np.__version__} == RECORDED_WITH

RECORDED_TASKS = ("PointButton1", "PointButton2", "CarButton1")


class Episode(NamedTuple):
    actions: np.ndarray
    observations: np.ndarray
    rewards: np.ndarray
    costs: np.ndarray
    goals_met: np.ndarray


def episode(task: str, number: int) -> Episode:
    with np.load(DATA / f"golden_{task}.npz") as recorded:
        return Episode(*(recorded[f"{key}{number}"] for key in ("a", "obs", "rew", "cost", "goal")))


def states(task: str) -> dict[str, np.ndarray]:
    """Positions q, velocities v, warm starts w and times t before each step; q2 and v2 after."""
    with np.load(DATA / f"state_{task}.npz") as recorded:
        return dict(recorded)


def make(task: str, **options):
    """The bare environment, without wrappers."""
    return gymnasium.make(f"Prudent/{task}-v0", **options).unwrapped


def pose(env) -> tuple[float, float, float]:
    """Where the robot is: x, y, yaw."""
    x, y, _ = env.data.body("robot").xpos
    rotation = env.data.body("robot").xmat
    return x, y, np.arctan2(rotation[3], rotation[0])
