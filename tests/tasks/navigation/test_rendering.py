import importlib
import subprocess
import sys

import numpy as np
import pytest
from navigation.golden import make
from PIL import Image

from prudent.tasks.navigation import gallery, rendering
from prudent.tasks.navigation.tasks import NAVIGATION_TASKS


def graphics_work() -> bool:
    try:
        rendering.open_graphics(8, 8).free()
    except RuntimeError:
        return False
    return True


needs_graphics = pytest.mark.skipif(not graphics_work(), reason="neither EGL nor OSMesa works here")


def share(picture, test) -> float:
    """The share of pixels whose red, green and blue satisfy a test."""
    red, green, blue = picture.astype(int).transpose(2, 0, 1)
    return float(np.mean(test(red, green, blue)))


def reddish(red, green, blue):
    return (red > 150) & (green < 100) & (blue < 100)


def greenish(red, green, blue):
    return (green > red + 40) & (green > blue + 40)


def bluish(red, green, blue):
    return (blue > red + 50) & (blue > green + 50)


@needs_graphics
def test_picture_shows_robot_goal_and_hazards():
    env = make("PointButton2", render_mode="rgb_array", width=320, height=240)
    env.reset()
    picture = env.render()
    assert picture.shape == (240, 320, 3)
    assert picture.dtype == np.uint8
    assert share(picture, reddish) > 0.0005
    assert share(picture, greenish) > 0.002
    assert share(picture, bluish) > 0.01
    env.close()


@needs_graphics
def test_picture_follows_the_goal_and_marks_cost():
    env = make("PointGoal1", render_mode="rgb_array")
    env.reset()
    before = env.render()
    state = env.get_state()
    state["aim"][:2] = (1.2, 1.2)
    env.set_state(state)
    assert (env.render() != before).any()
    state["cost"] = 1.0
    env.set_state(state)
    assert share(env.render(), reddish) > 2 * share(before, reddish)
    env.close()
    np.testing.assert_array_equal(make("PointGoal1").render(), None)


@needs_graphics
def test_environment_can_be_closed_twice_and_drawn_again():
    env = make("CarButton1", render_mode="rgb_array", camera="near")
    env.reset()
    first = env.render()
    env.close()
    env.close()
    np.testing.assert_array_equal(env.render(), first)
    env.close()


def test_lidar_dots_stand_round_the_robot_and_show_the_readings():
    env = make("PointPush1")
    env.reset()
    now, aim = env._look(env.get_state()["positions"]), env._aim
    readings = [0.0] * 15 + [0.7]
    goal, *dots = rendering.task_markers(now, aim, {"box": readings, "goal": readings}, cost=0.0)
    assert goal.position[:2] == (aim.x, aim.y)
    assert len(dots) == 32
    ring = np.array([dot.position for dot in dots[:16]])
    np.testing.assert_allclose(np.hypot(*(ring[:, :2] - ring[:, :2].mean(0)).T), 0.15)
    np.testing.assert_allclose(ring[:, :2].mean(0), (now.frame.x, now.frame.y), atol=1e-12)
    assert dots[15].colour == pytest.approx((1.0, 1.0, 0.0, 0.8))
    assert dots[0].colour == pytest.approx((1.0, 1.0, 0.0, 0.1))
    # Bin 0 begins straight ahead: its dot stands a half bin to the left of the nose.
    angle = np.arctan2(ring[0, 1] - now.frame.y, ring[0, 0] - now.frame.x)
    assert angle == pytest.approx(1.040153761989 + np.pi / 16)


def test_without_graphics_the_message_says_what_to_do(monkeypatch):
    def fail(name):
        raise ImportError(f"no {name} here")

    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(RuntimeError, match=r"libegl1 or libosmesa6.*egl: no .*osmesa: no"):
        rendering.open_graphics(8, 8)


@needs_graphics
def test_a_backend_that_fails_does_not_spoil_the_next():
    """In a fresh process, because a loaded graphics library cannot be unloaded."""
    script = (
        "import os; os.environ.pop('MUJOCO_GL', None)\n"
        "from prudent.tasks.navigation import rendering\n"
        "rendering.BACKENDS = ('no_such_backend', 'osmesa', 'egl')\n"
        "rendering.open_graphics(8, 8).free()"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@needs_graphics
def test_gallery_draws_each_fixed_task(tmp_path, monkeypatch, capsys):
    fixed = [task for task in NAVIGATION_TASKS.values() if task.deterministic_reset]
    monkeypatch.setattr(gallery, "NAVIGATION_TASKS", dict([*NAVIGATION_TASKS.items()][:4]))
    gallery.main(str(tmp_path))
    assert capsys.readouterr().out.split() == [str(tmp_path / f"{t.name}.png") for t in fixed[:2]]
    for task in fixed[:2]:
        path = tmp_path / f"{task.name}.png"
        assert path.stat().st_size < 60_000
        with Image.open(path) as picture:
            assert picture.size == (gallery.WIDTH, gallery.HEIGHT)
