"""The running physics, reduced to what the environment asks at every step.

Each function looks names up once and keeps views into MuJoCo's arrays, because the environment
must not cost much more than the physics.
"""

from collections.abc import Callable
from itertools import repeat
from math import cos, dist, sin
from typing import Any

import mujoco

from prudent.tasks.navigation.course import Course, Frame, Moment, Positions
from prudent.tasks.navigation.robots import Glide, Robot
from prudent.tasks.navigation.scene import FREE_GROUPS, STATIC_GROUPS, thing_name

SUBSTEPS = 10
LEADER_HEIGHT = 0.1
SENSORS_OFF = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
CONSTRAINTS_OFF = int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)  # and collisions with them


def stepper(robot: Robot, course: Course, model: Any, data: Any) -> Callable[[], None]:
    """A function that advances the physics by one environment step with the present controls.

    It needs and leaves `data` as `mj_forward` does: everything computed for the present state.
    Sensors are read once per environment step, so the substeps do without them.
    """
    options = model.opt
    gremlins = course.group("gremlins")
    out_of_reach = _reach_check(robot.glide, course, model, data)
    substeps = (
        _plain_substeps if gremlins is None else _substeps_with_gremlins(gremlins.orbit, data)
    )

    def advance() -> None:
        needless = CONSTRAINTS_OFF if out_of_reach() else 0
        options.disableflags = needless | SENSORS_OFF
        substeps(model, data)
        options.disableflags = needless
        mujoco.mj_forward(model, data)
        options.disableflags = 0

    return advance


def _reach_check(glide: Glide | None, course: Course, model: Any, data: Any) -> Callable[[], bool]:
    """Whether nothing can collide within the next environment step, for sure.

    Looking for collisions is a quarter of a gliding robot's physics. Where all other things stay
    in their places, its distance to them and its speed tell when that can be left out.
    """
    solids = [things for things in course.objects if things.group in STATIC_GROUPS]
    if glide is None or not solids or any(course.group(group) for group in FREE_GROUPS):
        return lambda: False
    bodies = [
        model.body(thing_name(things.group, index)).id
        for things in solids
        for index in range(things.count)
    ]
    places = data.xpos[min(bodies) : max(bodies) + 1, :2]
    robot, velocity = data.xpos[model.body("robot").id, :2], data.qvel[:2]
    duration = SUBSTEPS * model.opt.timestep
    reach = glide.radius + max(things.size for things in solids)
    reach += glide.acceleration * duration**2

    def out_of_reach() -> bool:
        nearest = min(map(dist, places.tolist(), repeat(robot.tolist())))
        speed_x, speed_y = velocity.tolist()
        return nearest > reach + duration * (abs(speed_x) + abs(speed_y))

    return out_of_reach


def _plain_substeps(model: Any, data: Any) -> None:
    # All that does not depend on the controls is computed already, for the last observation.
    mujoco.mj_step2(model, data)
    mujoco.mj_step(model, data, SUBSTEPS - 1)


def _substeps_with_gremlins(orbit: float, data: Any) -> Callable[[Any, Any], None]:
    """All gremlins' leaders circle in step, by the time at the start of each substep."""
    lead_x, lead_y, lead_z = (data.mocap_pos[:, axis].fill for axis in range(3))
    step = mujoco.mj_step

    def substeps(model: Any, data: Any) -> None:
        lead_z(LEADER_HEIGHT)
        for _ in range(SUBSTEPS):
            time = data.time
            lead_x(orbit * sin(time))
            lead_y(orbit * cos(time))
            step(model, data)

    return substeps


def viewer(course: Course, model: Any, data: Any) -> Callable[[Positions], Moment]:
    """A function that describes the present moment, given where the things that rest lie."""
    robot = model.body("robot").id
    position, rotation = data.xpos[robot], data.xmat[robot]
    moving = _views_of_moving_things(course, model, data)
    box_height = data.xpos[model.body("box0").id, 2:] if course.group("box") else None
    touched = _touch_reader(course, model, data)

    def look(resting: Positions) -> Moment:
        x, y, z = position.tolist()
        east_ahead, east_left, _, north_ahead, north_left, _, up_ahead, up_left, _ = (
            rotation.tolist()
        )
        east, north = complex(east_ahead, east_left), complex(north_ahead, north_left)
        origin = -(x * east + y * north + z * complex(up_ahead, up_left))
        positions = resting
        if moving:
            positions = resting | {group: view.tolist() for group, view in moving.items()}
        height = 0.0 if box_height is None else box_height.item()
        return Moment(Frame(x, y, z, east, north, origin), positions, height, touched())

    return look


def _views_of_moving_things(course: Course, model: Any, data: Any) -> dict[str, Any]:
    views = {}
    for group in FREE_GROUPS:
        things = course.group(group)
        if things is not None:
            first = model.body(thing_name(group, 0)).id
            views[group] = data.xpos[first : first + things.count, :2]
    return views


def _touch_reader(course: Course, model: Any, data: Any) -> Callable[[], dict[str, list[int]]]:
    owner: dict[int, tuple[str, int]] = {}
    for group in (*FREE_GROUPS, *STATIC_GROUPS):
        things = course.group(group)
        for index in range(things.count if things else 0):
            body = model.body(thing_name(group, index))
            for geom in range(body.geomadr[0], body.geomadr[0] + body.geomnum[0]):
                owner[geom] = (group, index)
    robot = model.body("robot").id
    robot_geoms = {
        geom for geom in range(model.ngeom) if model.body_rootid[model.geom_bodyid[geom]] == robot
    }

    def touched() -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        if not data.ncon:
            return found
        for first, second in data.contact.geom.tolist():
            # MuJoCo orders the two geoms by shape, so the robot may be either.
            if first in robot_geoms and second in owner:
                group, index = owner[second]
            elif second in robot_geoms and first in owner:
                group, index = owner[first]
            else:
                continue
            found.setdefault(group, []).append(index)
        return found

    return touched
