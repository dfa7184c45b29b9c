"""A simulated lidar: for each of 16 directions round the robot, how near the nearest thing is."""

from collections.abc import Iterable
from math import atan2, floor, pi

from prudent.tasks.navigation.course import Frame, Point

BINS = 16
RANGE = 3.0

_BINS_PER_RADIAN = BINS / (2.0 * pi)


def lidar(points: Iterable[Point], frame: Frame) -> list[float]:
    """Nearness per bin: 1 at no distance, 0 from RANGE on; bin 0 begins straight ahead.

    A point fills its bin and, in proportion to where in the bin it lies, both neighbours, so that
    readings change gradually as the robot turns.

    Plain Python on purpose: for a single robot it is several times faster than NumPy.
    """
    readings = [0.0] * BINS
    _, _, _, east, north, origin = frame
    for x, y in points:
        seen = x * east + y * north + origin
        nearness = 1.0 - abs(seen) / RANGE
        if nearness <= 0.0:
            continue
        # Angles lie in [-pi, pi], so bins count from -8 to 8: negative indices close the circle.
        position = atan2(seen.imag, seen.real) * _BINS_PER_RADIAN
        index = floor(position)
        if readings[index] < nearness:
            readings[index] = nearness
        to_next = (position - index) * nearness
        if readings[index + 1] < to_next:
            readings[index + 1] = to_next
        to_last = nearness - to_next
        if readings[index - 1] < to_last:
            readings[index - 1] = to_last
    return readings
