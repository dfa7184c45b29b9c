"""One picture of each navigation task: `python -m prudent.tasks.navigation.gallery FOLDER`."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from prudent.tasks.navigation.tasks import NAVIGATION_TASKS
from prudent.tasks.task import Task

STEPS = 12  # enough for gremlins to take off and for the robot to be on its way
WIDTH, HEIGHT = 640, 440
PALETTE = 256  # colours, which keeps the files small


def main(folder: str) -> None:
    """Draw every task that has a fixed layout; the others only lie elsewhere."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for task in NAVIGATION_TASKS.values():
        if task.deterministic_reset:
            path = Path(folder) / f"{task.name}.png"
            Image.fromarray(draw(task)).quantize(PALETTE, Image.Quantize.FASTOCTREE).save(
                path, optimize=True
            )
            print(path)


def draw(task: Task) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The task a few steps into an episode."""
    env = task.make(render_mode="rgb_array", width=WIDTH, height=HEIGHT)
    env.reset(seed=0)
    for _ in range(STEPS):
        env.step(np.array([0.02, 0.01]))
    picture: Any = env.render()
    env.close()
    return np.asarray(picture)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m prudent.tasks.navigation.gallery FOLDER")
    main(sys.argv[1])
