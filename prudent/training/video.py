"""A policy's episode as an mp4 or a gif, drawn offscreen."""

import subprocess
from pathlib import Path

import imageio_ffmpeg
import numpy as np
from PIL import Image

from prudent.configs import Run
from prudent.tasks.adapter import open_environment
from prudent.tasks.task import Task
from prudent.training.evaluate import evaluation_seeds
from prudent.training.policy import Policy

DEFAULT_FPS = 30


def record_video(policy: Policy, run: Run, task: Task, path: Path) -> None:
    if path.suffix not in (".mp4", ".gif"):
        raise ValueError(f"{path}: a video is written as .mp4 or .gif")
    environment = open_environment(task, render_mode="rgb_array")
    try:
        observation = environment.reset(evaluation_seeds(1)[0])
        frames = [environment.render()]
        for _ in range(run.horizon):
            outcome = environment.step(policy.unit_action(observation))
            observation = outcome.observation
            frames.append(environment.render())
            if outcome.terminated or outcome.truncated:
                break
        fps = int(environment.unwrapped.metadata.get("render_fps", DEFAULT_FPS))
    finally:
        environment.close()
    path.parent.mkdir(parents=True, exist_ok=True)
    (write_mp4 if path.suffix == ".mp4" else write_gif)(path, frames, fps)


def write_mp4(path: Path, frames: list[np.ndarray], fps: int) -> None:
    height, width = (
        side - side % 2 for side in frames[0].shape[:2]
    )  # the encoder wants even sizes
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", "-f", "rawvideo"]
    command += ["-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps), "-i", "-"]
    command += ["-c:v", "libx264", "-pix_fmt", "yuv420p", str(path)]
    raw = b"".join(np.ascontiguousarray(frame[:height, :width]).tobytes() for frame in frames)
    subprocess.run(command, input=raw, check=True)


def write_gif(path: Path, frames: list[np.ndarray], fps: int) -> None:
    # Every other frame at half the rate: gifs grow fast.
    first, *rest = [Image.fromarray(frame) for frame in frames[::2]]
    first.save(path, save_all=True, append_images=rest, duration=round(2000 / fps), loop=0)
