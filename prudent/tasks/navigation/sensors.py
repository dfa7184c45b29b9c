"""What the robot perceives: a row of blocks, each a function of the moment."""

from collections.abc import Callable
from typing import Any

from prudent.tasks.navigation.course import Aim, Course, Moment
from prudent.tasks.navigation.lidar import BINS, lidar

Block = Callable[[Moment, Aim], list[float]]

LIDAR_GROUPS = ("box", "buttons", "goal", "gremlins", "hazards", "pillars", "vases")


def observation_blocks(course: Course, model: Any, data: Any) -> dict[str, Block]:
    """The blocks of the observation in their order, which is alphabetical."""
    blocks = {
        model.sensor(index).name: _sensor(model, data, index) for index in range(model.nsensor)
    }
    for group in LIDAR_GROUPS:
        if group == "goal" or course.group(group) is not None:
            blocks[f"{group}_lidar"] = _lidar_of(group)
    return dict(sorted(blocks.items()))


def _sensor(model: Any, data: Any, index: int) -> Block:
    start, length = model.sensor_adr[index], model.sensor_dim[index]
    read = data.sensordata[start : start + length].tolist  # of a view: follows the simulation
    if length == 4:
        return lambda now, aim: rotation_matrix(*read())
    return lambda now, aim: read()


def _lidar_of(group: str) -> Block:
    if group == "goal":
        return lambda now, aim: lidar(((aim.x, aim.y),), now.frame)
    if group == "buttons":
        unseen = [0.0] * BINS
        return lambda now, aim: (
            unseen if aim.quiet_steps else lidar(now.positions[group], now.frame)
        )
    return lambda now, aim: lidar(now.positions[group], now.frame)


def rotation_matrix(w: float, x: float, y: float, z: float) -> list[float]:
    """The matrix of a unit quaternion, row by row."""
    return [
        *(w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)),
        *(2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)),
        *(2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z),
    ]
