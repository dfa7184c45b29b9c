"""A policy's episode as an mp4 or a gif, drawn offscreen."""

from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
from PIL import Image

from prudent.configs import Run
from prudent.tasks.door import open_door
from prudent.tasks.task import Task
from prudent.training.evaluate import evaluation_seeds
from prudent.training.policy import Policy

DEFAULT_FPS = 30


def record_video(policy: Policy, run: Run, task: Task, path: Path) -> None:
    if path.suffix not in (".mp4", ".gif"):
        raise ValueError(f"{path}: a video is written as .mp4 or .gif")
    door = open_door(task, render_mode="rgb_array")
    try:
        observation = door.reset(evaluation_seeds(1)[0])
        frames = [door.render()]
        for _ in range(run.horizon):
            outcome = door.step(policy.unit_action(observation))
            observation = outcome.observation
            frames.append(door.render())
            if outcome.terminated or outcome.truncated:
                break
        fps = int(door.unwrapped.metadata.get("render_fps", DEFAULT_FPS))
    finally:
        door.close()
    path.parent.mkdir(parents=True, exist_ok=True)
    (write_mp4 if path.suffix == ".mp4" else write_gif)(path, frames, fps)


def write_mp4(path: Path, frames: list[np.ndarray], fps: int) -> None:
    height, width = frames[0].shape[:2]
    # Even sizes only: what the usual pixel format asks for.
    size = (width - width % 2, height - height % 2)
    writer: Any = imageio_ffmpeg.write_frames(str(path), size, fps=fps, macro_block_size=2)
    writer.send(None)
    for frame in frames:
        writer.send(np.ascontiguousarray(frame[: size[1], : size[0]]))
    writer.close()


def write_gif(path: Path, frames: list[np.ndarray], fps: int) -> None:
    # Every other frame at half the rate: gifs grow fast.
    first, *rest = [Image.fromarray(frame) for frame in frames[::2]]
    first.save(path, save_all=True, append_images=rest, duration=round(2000 / fps), loop=0)
