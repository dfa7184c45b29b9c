import cmath
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from prudent.tasks.navigation.course import Frame
from prudent.tasks.navigation.lidar import BINS, RANGE, lidar

coordinates = st.floats(-4.0, 4.0)
points = st.lists(st.tuples(coordinates, coordinates), max_size=12)
angles = st.floats(-math.pi, math.pi)


def upright(x: float = 0.0, y: float = 0.0, yaw: float = 0.0) -> Frame:
    east = cmath.exp(-1j * yaw)
    north = 1j * east
    return Frame(x, y, 0.1, east, north, -(x * east + y * north))


def around(angle: float, distance: float) -> tuple[float, float]:
    return distance * math.cos(angle), distance * math.sin(angle)


def by_definition(seen: list[tuple[float, float]], frame: Frame) -> np.ndarray:
    """The definition, bin by bin, in NumPy and with explicit rotation."""
    readings = np.zeros(BINS)
    rotation = np.array([[frame.east.real, frame.east.imag], [frame.north.real, frame.north.imag]])
    for point in seen:
        ahead, left = rotation.T @ (np.array(point) - (frame.x, frame.y))
        nearness = max(0.0, RANGE - math.hypot(ahead, left)) / RANGE
        place = (math.atan2(left, ahead) % (2 * math.pi)) * BINS / (2 * math.pi)
        index = int(place) % BINS
        fraction = place - int(place)
        readings[index] = max(readings[index], nearness)
        for neighbour, share in ((index + 1, fraction), (index - 1, 1 - fraction)):
            readings[neighbour % BINS] = max(readings[neighbour % BINS], share * nearness)
    return readings


@given(points, coordinates, coordinates, angles)
def test_agrees_with_the_definition(seen, x, y, yaw):
    # In which direction a point right under the robot lies is a matter of rounding.
    assume(all(math.hypot(px - x, py - y) > 1e-6 for px, py in seen))
    frame = upright(x, y, yaw)
    np.testing.assert_allclose(lidar(seen, frame), by_definition(seen, frame), atol=1e-8)


@given(points, coordinates, coordinates, angles)
def test_readings_lie_between_0_and_1(seen, x, y, yaw):
    readings = lidar(seen, upright(x, y, yaw))
    assert len(readings) == BINS
    assert all(0.0 <= reading <= 1.0 for reading in readings)


@given(st.integers(0, BINS - 1), st.floats(0.001, 0.999), st.floats(1e-6, 2.99))
def test_a_point_fills_its_bin_and_shares_with_both_neighbours(index, fraction, distance):
    angle = (index + fraction) * 2 * math.pi / BINS
    readings = lidar([around(angle, distance)], upright())
    nearness = 1 - distance / RANGE
    assert readings[index] == pytest.approx(nearness, abs=1e-9)
    assert readings[(index + 1) % BINS] == pytest.approx(fraction * nearness, abs=1e-6)
    assert readings[index - 1] == pytest.approx((1 - fraction) * nearness, abs=1e-6)
    assert sum(reading > 0 for reading in readings) <= 3


@given(angles, st.floats(RANGE, 50.0))
def test_nothing_is_seen_from_the_range_on(angle, distance):
    assert lidar([around(angle, distance * (1 + 1e-12))], upright()) == [0.0] * BINS


@given(angles, st.floats(0.1, 2.9))
def test_readings_change_gradually_across_every_boundary(angle, distance):
    """What leaves a bin was already shared with the neighbour it enters."""
    before = lidar([around(angle, distance)], upright())
    after = lidar([around(angle + 1e-9, distance)], upright())
    np.testing.assert_allclose(before, after, atol=1e-7)


@given(points, angles)
def test_turning_the_world_with_the_robot_changes_nothing(seen, yaw):
    turned = [
        (x * math.cos(yaw) - y * math.sin(yaw), x * math.sin(yaw) + y * math.cos(yaw))
        for x, y in seen
    ]
    expected = lidar(seen, upright())
    actual = lidar(turned, upright(yaw=yaw))
    for point in seen:  # at a bin's edge, or under the robot, rounding may choose either bin
        place = math.atan2(point[1], point[0]) * BINS / (2 * math.pi)
        if math.hypot(*point) < 1e-6 or abs(place - round(place)) < 1e-6:
            return
    np.testing.assert_allclose(actual, expected, atol=1e-9)


@pytest.mark.parametrize("sign", [1.0, -1.0, 0.0])
def test_straight_ahead_and_straight_behind_do_not_fall_off_the_circle(sign):
    ahead = lidar([(1.5, sign * 5e-324)], upright())
    assert ahead[0] == ahead[-1] == 0.5
    behind = lidar([(-1.5, sign * 5e-324)], upright())
    assert behind[8] == behind[7] == 0.5


def test_the_nearest_of_several_points_counts():
    assert lidar([(2.0, 0.1), (1.0, 0.05), (2.5, 0.1)], upright())[0] == pytest.approx(
        1 - math.hypot(1.0, 0.05) / 3
    )


def test_a_tilted_robot_sees_points_in_its_own_plane():
    """Nose to the sky: the floor in front is seen below, which is behind."""
    # ahead = up, left = north: the body's first axis points to the sky
    frame = Frame(0.0, 0.0, 0.6, 0j, 1j, -0.6 * (1 + 0j))
    readings = lidar([(1.0, 0.0)], frame)
    assert readings[8] == pytest.approx(1 - 0.6 / 3)
