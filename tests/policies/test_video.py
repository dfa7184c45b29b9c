"""A video is whole, shows what was drawn, and costs nobody the evaluation."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from command_lines import prudent_command
from navigation.test_rendering import needs_graphics
from PIL import Image
from probes import OneStep
from support import small_run

import prudent
import prudent.api
from prudent.policies import video
from prudent.policies.video import VideoFailed, as_picture, check_video_path, record_video
from prudent.runs.folder import RunFolder
from prudent.settings.run import Constraint
from prudent.tasks.task import Task

STILL = SimpleNamespace(step=5, unit_action=lambda observation: np.zeros((len(observation), 1))[0])


class Drawing(OneStep):
    """Draws the frames it is given, one after the other."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, frames, render_mode=None):
        super().__init__()
        self.render_mode, self.frames = render_mode, iter(frames)

    def render(self):
        return next(self.frames)


def film(frames, path):
    def make(render_mode=None):
        return Drawing(frames, render_mode)

    task = Task("drawn", make, 1, Constraint(1.0, discounted=False), summary="")
    record_video(STILL, small_run(task), task, path)


def plain(colour, *sides):
    return np.full((*(sides or (16, 18)), len(colour)), colour, np.uint8)


def first_pixel(path: Path) -> list[int]:
    """Of the first picture of a video, decoded."""
    if path.suffix == ".gif":
        with Image.open(path) as picture:
            return list(picture.convert("RGB").getpixel((8, 8)))
    command = [video.imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", "-i", str(path)]
    command += ["-frames:v", "1", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    return list(raw[:3])


PICTURES = {
    "colours": (plain((200, 30, 60)), (200, 30, 60)),
    "opaque": (plain((200, 30, 60, 255)), (200, 30, 60)),
    "half there": (plain((200, 30, 60, 51)), (244, 210, 216)),  # a fifth of it over white
    "not there": (plain((200, 30, 60, 0)), (255, 255, 255)),
    "grey": (plain((77,)), (77, 77, 77)),
    "flat grey": (plain((77,))[..., 0], (77, 77, 77)),
    "odd sizes": (plain((200, 30, 60), 17, 33), (200, 30, 60)),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_of_every_form_become_colours(name):
    frame, colour = PICTURES[name]
    found = as_picture(frame, "drawn")
    assert (found.dtype, found.shape[2]) == (np.uint8, 3)
    assert (found == colour).all()
    assert not np.shares_memory(found, frame)


@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
@pytest.mark.parametrize("name", ["colours", "half there", "flat grey", "odd sizes"])
def test_the_video_shows_them(name, suffix, tmp_path):
    frame, colour = PICTURES[name]
    path = tmp_path / f"a{suffix}"
    film([frame] * 2, path)
    np.testing.assert_allclose(first_pixel(path), colour, atol=6)  # colours are stored coarsely
    assert os.listdir(tmp_path) == [path.name]


REFUSED = {
    "nothing": ([None], r"drawn: render\(\) returned None; an array of uint8 and shape"),
    "floats": ([np.zeros((16, 16, 3))], r"returned an array of float64 and shape \(16, 16, 3\)"),
    "two channels": ([plain((1, 2))], r"returned an array of uint8 and shape \(16, 18, 2\)"),
    "text": (["picture"], "returned the str 'picture'"),
    "a row": ([plain((1, 2, 3), 1, 16)], r"and shape \(1, 16, 3\)"),
    "growing": (
        [plain((1, 2, 3)), plain((1, 2, 3), 18, 18)],
        r"drawn: picture 1 has shape \(18, 18, 3\), the first had \(16, 18, 3\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_picture_is_refused(name, tmp_path):
    frames, message = REFUSED[name]
    with pytest.raises(ValueError, match=message) as error:
        film(frames * 2 if len(frames) == 1 else frames, tmp_path / "a.mp4")
    assert "\n" not in str(error.value)
    assert not os.listdir(tmp_path)


def test_a_failing_encoder_leaves_the_old_video_and_says_why(tmp_path, monkeypatch):
    path = tmp_path / "a.mp4"
    path.write_bytes(b"old")
    script = tmp_path / "encoder"
    script.write_text("#!/bin/sh\ncat > /dev/null\necho 'no space' >&2\necho left >&2\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setattr(video.imageio_ffmpeg, "get_ffmpeg_exe", lambda: str(script))
    with pytest.raises(RuntimeError, match=r"the encoder failed \(no space left\)$"):
        film([plain((1, 2, 3))] * 2, path)
    assert path.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["a.mp4", "encoder"]


def test_a_gif_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def half(self, path, *rest, **more):
        path.write_bytes(b"GIF")
        raise OSError("no space left")

    monkeypatch.setattr(Image.Image, "save", half)
    with pytest.raises(OSError, match="no space left"):
        film([plain((1, 2, 3))] * 2, tmp_path / "a.gif")
    assert not os.listdir(tmp_path)


def test_what_can_be_known_before_is(tmp_path):
    with pytest.raises(ValueError, match=r"a\.avi"):
        check_video_path(tmp_path / "a.avi")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="its folder cannot be made"):
        check_video_path(tmp_path / "file" / "a.gif")
    (tmp_path / "folder.gif").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        check_video_path(tmp_path / "folder.gif")


MEASURED = {
    "return": 1.0, "cost": 2.0, "length": 3.0, "within_budget": 1.0, "returns": [1.0],
    "costs": [2.0], "lengths": [3], "return_interval": None, "cost_interval": None,
}  # fmt: skip


@pytest.fixture
def evaluated(monkeypatch):
    """An evaluation that is done already, of a run whose environment cannot be drawn."""
    import prudent.policies.policy

    def make(render_mode=None):
        return Drawing(["no picture"], render_mode)

    task = Task("drawn", make, 1, Constraint(9.0, discounted=False), summary="")
    results = {"step": 5, "budget": 9.0, "evaluation": MEASURED}
    monkeypatch.setattr(prudent.api, "load", lambda folder, step: STILL)
    stored = RunFolder(Path("run"), small_run(task), {})
    monkeypatch.setattr(prudent.runs.folder, "read_run", lambda folder: stored)
    monkeypatch.setattr(prudent.api, "task_of", lambda run, env, cost: task)
    monkeypatch.setattr(prudent.policies.policy, "evaluate_policy", lambda *_: results)
    return results


def test_a_failed_video_does_not_lose_the_evaluation(evaluated, tmp_path):
    with pytest.raises(VideoFailed, match=r"no video .*a.gif: drawn: render\(\) returned") as error:
        prudent.evaluate("run", video=tmp_path / "a.gif")
    assert error.value.results is evaluated
    with pytest.raises(ValueError, match="a video is written as"):  # before it is evaluated
        prudent.evaluate("run", video=tmp_path / "a.avi")


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_command_shows_the_evaluation_and_then_fails(
    form, evaluated, tmp_path, monkeypatch, capsys
):
    with pytest.raises(SystemExit) as stop:
        prudent_command(monkeypatch, "evaluate", "run", "--video", tmp_path / "a.mp4", *form)
    shown = capsys.readouterr().out
    assert ('"cost": 2.0' if form else "greedy, 1 episode: return 1, cost 2") in shown
    assert "video:" not in shown
    assert str(stop.value.code).startswith(f"prudent: no video {tmp_path / 'a.mp4'}: drawn: render")
    assert "\n" not in str(stop.value.code)


@needs_graphics
def test_mujoco_tasks_of_gymnasium_are_drawn_without_a_screen(tmp_path):
    """In a fresh process, because the first context decides how this one draws."""
    script = (
        "import sys, numpy\n"
        "from pathlib import Path\n"
        "from types import SimpleNamespace as Stub\n"
        "from prudent.tasks import TASKS\n"
        "from prudent.policies.video import record_video\n"
        "policy = Stub(unit_action=lambda observation: numpy.zeros(3))\n"
        "record_video(policy, Stub(horizon=2), TASKS['hopper-velocity'], Path(sys.argv[1]))\n"
        "assert 'jax' not in sys.modules\n"
        "import os; assert 'MUJOCO_GL' not in os.environ"
    )
    path = tmp_path / "hopper.mp4"
    without = {
        name: value
        for name, value in os.environ.items()
        if name not in ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL", "PYOPENGL_PLATFORM")
    }
    subprocess.run([sys.executable, "-c", script, str(path)], check=True, env=without)
    assert b"ftyp" in path.read_bytes()[:12]


@needs_graphics
def test_a_backend_that_is_named_is_left_alone(monkeypatch):
    from prudent.tasks.navigation.rendering import without_screen

    monkeypatch.setenv("MUJOCO_GL", "glfw")
    with without_screen():
        assert os.environ["MUJOCO_GL"] == "glfw"
    monkeypatch.setenv("MUJOCO_GL", "")
    with without_screen():
        assert os.environ["MUJOCO_GL"] in ("egl", "osmesa")
    assert os.environ["MUJOCO_GL"] == ""
