"""The arena as a MuJoCo model: built once per course, then rearranged for each layout."""

import math
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np

from prudent.tasks.navigation.course import Course, Objects
from prudent.tasks.navigation.layout import Layout
from prudent.tasks.navigation.robots import HEIGHT, Robot

# In this order, because it decides the order of the degrees of freedom.
FREE_GROUPS = ("gremlins", "vases", "box")
STATIC_GROUPS = ("pillars", "buttons")

COLOURS = {
    "robot": (1.0, 0.0, 0.0, 1.0),
    "box": (1.0, 1.0, 0.0, 1.0),
    "buttons": (1.0, 0.5, 0.0, 1.0),
    "goal": (0.0, 1.0, 0.0, 0.25),
    "gremlins": (0.5, 0.0, 1.0, 1.0),
    "hazards": (0.0, 0.0, 1.0, 0.25),
    "pillars": (0.5, 0.5, 1.0, 1.0),
    "vases": (0.0, 1.0, 1.0, 1.0),
}


def thing_name(group: str, index: int) -> str:
    """What the model calls one thing: button0, button1, ..."""
    return f"{group.removesuffix('s')}{index}"


def resting_height(things: Objects) -> float:
    """The height of a thing's centre at the start."""
    heights = {"robot": HEIGHT, "hazards": 0.02, "pillars": 0.5, "vases": things.size - 4e-5}
    return heights.get(things.group, things.size)


def build_model(robot: Robot, course: Course, time_step: float) -> Any:
    return mujoco.MjModel.from_xml_string(scene_xml(robot, course, time_step))


def scene_xml(robot: Robot, course: Course, time_step: float) -> str:
    """The scene with every thing at the origin; `arrange` moves them to their places.

    Hazards are sites: they are there to be seen and measured, nothing can collide with them. The
    goal is not in the model at all, for it moves when it is met; pictures draw it on top.
    """
    free = "".join(_for_each(course, group, _free_thing) for group in FREE_GROUPS)
    leaders = _for_each(course, "gremlins", _gremlin_leader)
    static = "".join(_for_each(course, group, _static_thing) for group in STATIC_GROUPS)
    welds = _for_each(course, "gremlins", _weld_to_leader)
    hazards = _for_each(course, "hazards", _hazard)
    return f"""
<mujoco>
  <option timestep="{time_step}"/>
  <default>
    <geom condim="6" density="{robot.density}"/>
    <default class="robot"><geom rgba="{_colour("robot")}"/></default>
  </default>
  {_APPEARANCE}
  <worldbody>
    <geom name="floor" type="plane" size="3.5 3.5 0.1" material="floor"/>
    {_LIGHTS_AND_CAMERAS}
    <body name="robot" pos="0 0 {HEIGHT}" childclass="robot">{robot.body}
    </body>
    {free}
    {leaders}
    {static}
    {hazards}
  </worldbody>
  <equality>{welds}</equality>
  <actuator>{robot.actuators}
  </actuator>
  <sensor>{robot.sensors}
    <accelerometer name="accelerometer" site="robot"/>
    <gyro name="gyro" site="robot"/>
    <magnetometer name="magnetometer" site="robot"/>
    <velocimeter name="velocimeter" site="robot"/>
  </sensor>
</mujoco>"""


def arrange(model: Any, course: Course, layout: Layout) -> None:
    """Move every thing of the model to its place, as if it had been compiled there."""
    for things in course.everything:
        if things.group == "goal":
            continue
        height = resting_height(things)
        places = zip(layout.positions[things.group], layout.yaws[things.group], strict=True)
        for index, ((x, y), yaw) in enumerate(places):
            name = "robot" if things.group == "robot" else thing_name(things.group, index)
            quaternion = (math.cos(yaw / 2.0), 0.0, 0.0, math.sin(yaw / 2.0))
            _move(model, name, np.array((x, y, height)), np.array(quaternion))
    # Inertias seen through the joints depend on where the bodies are.
    mujoco.mj_setConst(model, mujoco.MjData(model))


def _move(model: Any, name: str, position: np.ndarray, quaternion: np.ndarray) -> None:
    if name.startswith("hazard"):
        model.site(name).pos[:] = position
        return
    body = model.body(name)
    body.pos[:] = position
    body.quat[:] = quaternion
    if body.jntnum[0] and model.jnt_type[body.jntadr[0]] == mujoco.mjtJoint.mjJNT_FREE:
        start = model.jnt_qposadr[body.jntadr[0]]
        model.qpos0[start : start + 3] = position
        model.qpos0[start + 3 : start + 7] = quaternion
    if name.startswith("gremlin"):
        # Leaders start at the origin, so the pose to keep relative to them is the pose itself.
        weld = model.equality(f"{name}-weld")
        weld.data[3:6] = position
        weld.data[6:10] = quaternion


def _for_each(course: Course, group: str, write: Callable[[Objects, str], str]) -> str:
    things = course.group(group)
    if things is None:
        return ""
    return "".join(write(things, thing_name(group, index)) for index in range(things.count))


def _free_thing(things: Objects, name: str) -> str:
    size = things.size
    look = f'type="box" density="{things.density}" rgba="{_colour(things.group)}"'
    geoms = [f'<geom name="{name}" size="{size} {size} {size}" {look}/>']
    if things.group == "box":
        # Blocks on the vertical edges give a robot something to push when it is off centre. In
        # Safety-Gym's order, on which the last digits of the box's motion depend.
        geoms += [
            f'<geom size="{size / 2} {size / 2} {size}" pos="{x} {y} 0" {look}/>'
            for y in (size, -size)
            for x in (size, -size)
        ]
    height = resting_height(things)
    return f'<body name="{name}" pos="0 0 {height}"><freejoint/>{"".join(geoms)}</body>'


def _static_thing(things: Objects, name: str) -> str:
    shapes = {
        "buttons": f'type="sphere" size="{things.size}"',
        "pillars": f'type="cylinder" size="{things.size} 0.5"',
    }
    geom = f'<geom name="{name}" {shapes[things.group]} rgba="{_colour(things.group)}"/>'
    return f'<body name="{name}" pos="0 0 {resting_height(things)}">{geom}</body>'


def _gremlin_leader(things: Objects, name: str) -> str:
    return f'<body name="{name}-leader" mocap="true"/>'


def _weld_to_leader(things: Objects, name: str) -> str:
    return (
        f'<weld name="{name}-weld" body1="{name}-leader" body2="{name}" solref="0.02 1.5"'
        f' relpose="0 0 {resting_height(things)} 1 0 0 0"/>'
    )


def _hazard(things: Objects, name: str) -> str:
    return (
        f'<site name="{name}" type="cylinder" size="{things.size} 0.01"'
        f' pos="0 0 {resting_height(things)}" rgba="{_colour("hazards")}"/>'
    )


def _colour(group: str) -> str:
    return " ".join(str(channel) for channel in COLOURS[group])


_APPEARANCE = """
  <asset>
    <texture type="skybox" builtin="gradient" rgb1="0.85 0.9 0.95" rgb2="1 1 1"
             width="64" height="64"/>
    <texture name="floor" type="2d" builtin="checker" rgb1="0.97 0.97 0.95" rgb2="0.9 0.9 0.88"
             width="64" height="64"/>
    <material name="floor" texture="floor" texrepeat="7 7" specular="0"/>
  </asset>
  <visual>
    <headlight ambient="0.5 0.5 0.5" diffuse="0.2 0.2 0.2" specular="0 0 0"/>
  </visual>"""

_LIGHTS_AND_CAMERAS = """
    <light directional="true" dir="2 2 -5" diffuse="0.3 0.3 0.3" specular="0 0 0"/>
    <camera name="near" pos="0 -2 2" xyaxes="1 0 0 0 1 1"/>
    <camera name="far" pos="0 -5 5" xyaxes="1 0 0 0 1 1" fovy="36"/>"""
