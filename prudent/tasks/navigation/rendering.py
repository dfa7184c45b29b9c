"""Pictures without a screen: the scene, and on top of it what only the task knows."""

import importlib
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import mujoco
import numpy as np

from prudent.tasks.navigation.course import Aim, Frame, Moment
from prudent.tasks.navigation.lidar import BINS
from prudent.tasks.navigation.reward import GOAL_HEIGHT, GOAL_RADIUS
from prudent.tasks.navigation.scene import COLOURS

BACKENDS = ("egl", "osmesa")  # neither needs a display; the first uses a graphics card if it can

BUTTON_MARKER_RADIUS = 0.2
COST_MARKER_RADIUS = 0.25
COST_COLOUR = (1.0, 0.0, 0.0, 0.5)
LIDAR_RING_RADIUS = 0.15
LIDAR_LOWEST_RING = 0.5
LIDAR_RING_SPACING = 0.06
LIDAR_DOT_RADIUS = 0.025
LIDAR_FAINTEST = 0.1  # opacity of a bin that sees nothing


class Marker(NamedTuple):
    shape: int
    size: tuple[float, float, float]
    position: tuple[float, float, float]
    colour: tuple[float, float, float, float]


class Renderer:
    """Draws one model; opens a graphics context when the first picture is asked for."""

    def __init__(self, model: Any, width: int, height: int, camera: str) -> None:
        self._model = model
        self._size = (width, height)
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._camera.fixedcamid = model.camera(camera).id
        self._context: Any = None

    def picture(self, data: Any, markers: list[Marker]) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """An array of shape (height, width, 3)."""
        width, height = self._size
        if self._context is None:
            self._open(width, height)
        self._context.make_current()
        everything = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(
            self._model, data, self._options, None, self._camera, everything, self._scene
        )
        for marker in markers:
            _add(self._scene, marker)
        area = mujoco.MjrRect(0, 0, width, height)
        pixels = np.empty((height, width, 3), np.uint8)
        mujoco.mjr_render(area, self._scene, self._painter)
        mujoco.mjr_readPixels(pixels, None, area, self._painter)
        return np.flipud(pixels).copy()

    def close(self) -> None:
        if self._context is not None:
            self._context.make_current()
            self._painter.free()
            self._context.free()
            self._context = None

    def _open(self, width: int, height: int) -> None:
        self._context = open_graphics(width, height)
        self._context.make_current()
        self._options = mujoco.MjvOption()
        for groups in (self._options.geomgroup, self._options.sitegroup):
            groups[:] = 1
        self._options.sitegroup[4] = 0  # where the robot's sensors sit is of no interest
        self._scene = mujoco.MjvScene(self._model, maxgeom=1000)
        # The lidars' dots would throw shadows that look like things on the floor.
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
        self._painter = mujoco.MjrContext(self._model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_resizeOffscreen(width, height, self._painter)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._painter)


def open_graphics(width: int, height: int) -> Any:
    """A graphics context from the first backend that works, or from the one MUJOCO_GL names.

    MuJoCo chooses its own when it is first imported, long before we know that anyone wants
    pictures, and without MUJOCO_GL it chooses one that needs a display. So this asks directly.
    """
    return _first_that_works(width, height).context


class Graphics(NamedTuple):
    backend: str
    context: Any


def _named_backend() -> str | None:
    named = os.environ.get("MUJOCO_GL", "").strip().lower()
    return named if named in ("egl", "osmesa", "glfw", "cgl") else None


def _first_that_works(width: int, height: int) -> Graphics:
    named = _named_backend()
    failures = []
    for backend in (named,) if named else BACKENDS:
        try:
            module = importlib.import_module(f"mujoco.{backend}")
            return Graphics(backend, module.GLContext(width, height))
        except Exception as failure:  # whatever a missing or broken driver raises
            failures.append(f"{backend}: {failure}")
            _forget_backend(backend)
    raise RuntimeError(
        "cannot draw pictures without a screen: install the EGL or OSMesa library (on Debian and "
        "Ubuntu: libegl1 or libosmesa6), or name a working backend in MUJOCO_GL. "
        f"Tried {'; '.join(failures)}"
    )


@contextmanager
def without_screen() -> Iterator[None]:
    """While this lasts, other MuJoCo environments draw by the backend that ours would take.

    Gymnasium's renderer reads MUJOCO_GL when it draws first; without it, it takes one that needs a
    display even where there is none. Where none of ours works, the choice is left to it.
    """
    if _named_backend() is not None:
        yield
        return
    before = os.environ.get("MUJOCO_GL")
    try:
        graphics = _first_that_works(8, 8)
    except RuntimeError:
        yield
        return
    graphics.context.free()
    os.environ["MUJOCO_GL"] = graphics.backend
    try:
        yield
    finally:
        if before is None:
            del os.environ["MUJOCO_GL"]
        else:
            os.environ["MUJOCO_GL"] = before


def _forget_backend(backend: str) -> None:
    """PyOpenGL binds itself to the first backend it meets, even one that fails."""
    os.environ.pop("PYOPENGL_PLATFORM", None)
    for name in list(sys.modules):
        if name == "OpenGL" or name.startswith(("OpenGL.", f"mujoco.{backend}")):
            del sys.modules[name]


def task_markers(
    now: Moment, aim: Aim, lidars: dict[str, list[float]], cost: float
) -> list[Marker]:
    """What the physics does not show: the goal, a cost being paid, and what the lidars read."""
    radius = GOAL_RADIUS if aim.button < 0 else BUTTON_MARKER_RADIUS
    cylinder = (radius, radius, GOAL_HEIGHT - 0.01)
    markers = [
        Marker(
            mujoco.mjtGeom.mjGEOM_CYLINDER, cylinder, (aim.x, aim.y, GOAL_HEIGHT), COLOURS["goal"]
        )
    ]
    if cost > 0.0:
        place = (now.frame.x, now.frame.y, now.frame.z)
        markers.append(_ball(COST_MARKER_RADIUS, place, COST_COLOUR))
    height = LIDAR_LOWEST_RING
    for group, readings in lidars.items():
        markers += _lidar_ring(now.frame, height, readings, COLOURS[group])
        height += LIDAR_RING_SPACING
    return markers


def _lidar_ring(
    frame: Frame, height: float, readings: list[float], colour: tuple[float, float, float, float]
) -> list[Marker]:
    dots = []
    for index, reading in enumerate(readings):
        angle = 2.0 * math.pi * (index + 0.5) / BINS
        ahead, left = LIDAR_RING_RADIUS * math.cos(angle), LIDAR_RING_RADIUS * math.sin(angle)
        x = frame.x + ahead * frame.east.real + left * frame.east.imag
        y = frame.y + ahead * frame.north.real + left * frame.north.imag
        opacity = min(1.0, reading + LIDAR_FAINTEST)
        dots.append(_ball(LIDAR_DOT_RADIUS, (x, y, height), (*colour[:3], opacity)))
    return dots


def _ball(
    radius: float, place: tuple[float, float, float], colour: tuple[float, float, float, float]
) -> Marker:
    return Marker(mujoco.mjtGeom.mjGEOM_SPHERE, (radius, radius, radius), place, colour)


def _add(scene: Any, marker: Marker) -> None:
    mujoco.mjv_initGeom(
        scene.geoms[scene.ngeom],
        marker.shape,
        np.array(marker.size),
        np.array(marker.position),
        np.eye(3).ravel(),
        np.array(marker.colour, np.float32),
    )
    scene.ngeom += 1
