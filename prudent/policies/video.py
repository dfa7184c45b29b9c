"""A policy's episode as an mp4 or a gif, drawn offscreen."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import imageio_ffmpeg
import numpy as np
from PIL import Image

from prudent.settings.run import Run
from prudent.tasks.adapter import AdaptedEnv, in_words, open_environment
from prudent.tasks.episodes import evaluation_seeds
from prudent.tasks.task import Task

if TYPE_CHECKING:  # the command line imports this before JAX is prepared
    from prudent.policies.policy import Policy

DEFAULT_FPS = 30
CHANNELS = (1, 3, 4)  # grey, colours, colours with opacity


class VideoFailed(RuntimeError):
    """There is no video. What was measured before it is kept in `results`."""

    def __init__(self, message: str, results: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.results = results


def check_video_path(path: Path) -> None:
    """What can be known before anything is drawn."""
    if path.suffix not in WRITERS:
        raise ValueError(f"{path}: a video is written as .mp4 or .gif")
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; name a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{path}: its folder cannot be made ({error.strerror})") from None
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"{path}: its folder cannot be written to")


def film(
    policy: "Policy", run: Run, task: Task, path: Path, results: dict[str, Any] | None = None
) -> None:
    """`record_video`; whatever goes wrong becomes one line, with `results` attached."""
    try:
        record_video(policy, run, task, path)
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise VideoFailed(f"no video {path}: {reason}", results) from error


def record_video(policy: "Policy", run: Run, task: Task, path: Path) -> None:
    check_video_path(path)
    environment = open_environment(task, render_mode="rgb_array")
    try:
        with drawing_backend():
            frames = draw_episode(policy, run, environment)
        fps = int(environment.unwrapped.metadata.get("render_fps", DEFAULT_FPS))
    finally:
        environment.close()
    with whole_or_not_at_all(path) as temporary:
        WRITERS[path.suffix](temporary, frames, fps)


def drawing_backend() -> Any:
    """For MuJoCo, the one that our own tasks find; other environments draw as they do."""
    if "mujoco" not in sys.modules:
        return nullcontext()
    from prudent.tasks.navigation.rendering import without_screen

    return without_screen()


def draw_episode(policy: "Policy", run: Run, environment: AdaptedEnv) -> list[np.ndarray]:
    """Pictures of [height, width, 3], all of one size."""
    observation = environment.reset(evaluation_seeds(1)[0])
    frames = [as_picture(environment.render(), environment.name)]
    for _ in range(run.horizon):
        outcome = environment.step(policy.unit_action(observation))
        observation = outcome.observation
        frames.append(as_picture(environment.render(), environment.name))
        if frames[-1].shape != frames[0].shape:
            raise ValueError(
                f"{environment.name}: picture {len(frames) - 1} has shape {frames[-1].shape}, the "
                f"first had {frames[0].shape}; all must be of one size"
            )
        if outcome.terminated or outcome.truncated:
            break
    return frames


def as_picture(rendered: Any, name: str) -> np.ndarray:
    """[height, width, 3] in colours, of a picture that may be grey or have opacity."""
    frame = (
        rendered[..., None] if isinstance(rendered, np.ndarray) and rendered.ndim == 2 else rendered
    )
    if (
        not isinstance(frame, np.ndarray)
        or frame.dtype != np.uint8
        or frame.ndim != 3
        or frame.shape[2] not in CHANNELS
        or min(frame.shape[:2]) < 2
    ):
        raise ValueError(
            f"{name}: render() returned {in_words(rendered)}; an array of uint8 and shape "
            "(height, width, 3) is needed"
        )
    if frame.shape[2] == 4:  # over white
        colours, opacity = frame[..., :3].astype(np.uint16), frame[..., 3:].astype(np.uint16)
        return ((colours * opacity + 255 * (255 - opacity) + 127) // 255).astype(np.uint8)
    # A copy: an environment may draw its next picture over the last.
    return np.repeat(frame, 3, axis=2) if frame.shape[2] == 1 else frame.copy()


@contextmanager
def whole_or_not_at_all(path: Path) -> Iterator[Path]:
    """A place to write to, which becomes `path` if all goes well."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_mp4(path: Path, frames: list[np.ndarray], fps: int) -> None:
    height, width = (
        side - side % 2 for side in frames[0].shape[:2]
    )  # the encoder wants even sizes
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", "-f", "rawvideo"]
    command += ["-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps), "-i", "-"]
    command += ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-f", "mp4", str(path)]
    raw = b"".join(np.ascontiguousarray(frame[:height, :width]).tobytes() for frame in frames)
    done = subprocess.run(command, input=raw, capture_output=True)
    if done.returncode:
        complaint = " ".join(done.stderr.decode(errors="replace").split())
        raise RuntimeError(f"the encoder failed ({complaint or f'code {done.returncode}'})")


def write_gif(path: Path, frames: list[np.ndarray], fps: int) -> None:
    # Every other frame at half the rate: gifs grow fast.
    first, *rest = [Image.fromarray(frame) for frame in frames[::2]]
    first.save(path, "GIF", save_all=True, append_images=rest, duration=round(2000 / fps), loop=0)


WRITERS: dict[str, Callable[[Path, list[np.ndarray], int], None]] = {
    ".mp4": write_mp4,
    ".gif": write_gif,
}
