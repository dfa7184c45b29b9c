"""Where things lie at the start of an episode, and where the next goal appears.

Rejection sampling as in Safety-Gym, draw for draw: the order of the groups, of x before y and even
of the additions decides which layout a seed gives.
"""

import math
from typing import NamedTuple

import numpy as np

from prudent.tasks.navigation.course import Course, Objects, Point, Positions, Rectangle

PLACING_ORDER = ("robot", "goal", "box", "buttons", "hazards", "vases", "pillars", "gremlins")
TURNING_ORDER = ("robot", "vases", "gremlins", "box", "goal", "hazards", "pillars", "buttons")

TRIES_PER_THING = 100
TRIES_PER_LAYOUT = 10_000
TRIES_PER_GOAL = 10_000
SPOT_TOLERANCE = 1e-9  # a spot is a tiny square, so that it draws as many numbers as an area


class Layout(NamedTuple):
    positions: Positions
    yaws: dict[str, list[float]]


def sample_layout(course: Course, random: np.random.RandomState) -> Layout:
    """Positions that respect every keepout, and a yaw for each thing."""
    for _ in range(TRIES_PER_LAYOUT):
        positions = _try_to_place(course, random)
        if positions is not None:
            break
    else:
        raise RuntimeError(
            f"no layout found in {TRIES_PER_LAYOUT} tries: the things of this course are too many "
            f"or their keepouts too large for an arena of half-side {course.extent}"
        )
    yaws = {
        group: [random.uniform(0.0, 2.0 * math.pi) for _ in positions[group]]
        for group in TURNING_ORDER
        if group in positions
    }
    return Layout(positions, yaws)


def sample_spot_for_goal(
    course: Course, positions: Positions, random: np.random.RandomState
) -> Point | None:
    """A free spot in the goal's area, or None if there seems to be no room."""
    goal = course.group("goal")
    assert goal is not None, "only courses with a goal region draw a spot for it"
    others = {group: spots for group, spots in positions.items() if group != "goal"}
    rectangle = _drawing_rectangle(course, goal, index=0)
    return _draw_free_point(course, rectangle, goal.keepout, others, random, TRIES_PER_GOAL)


def _try_to_place(course: Course, random: np.random.RandomState) -> Positions | None:
    positions: Positions = {}
    for group in PLACING_ORDER:
        things = course.group(group)
        if things is None:
            continue
        positions[group] = []
        for index in range(things.count):
            rectangle = _drawing_rectangle(course, things, index)
            point = _draw_free_point(
                course, rectangle, things.keepout, positions, random, TRIES_PER_THING
            )
            if point is None:
                return None
            positions[group].append(point)
    return positions


def _drawing_rectangle(course: Course, things: Objects, index: int) -> Rectangle:
    """The rectangle for the centre of one thing: its area less its keepout on each side."""
    keepout = things.keepout
    if things.spots:
        x, y = things.spots[index]
        # Adding the keepout only to take it off again looks idle, but it is what Safety-Gym does,
        # and one rounding error less would end in another trajectory after the first collision.
        reach = keepout + SPOT_TOLERANCE
        area = Rectangle(x - reach, y - reach, x + reach, y + reach)
    else:
        extent = course.extent
        area = things.area or Rectangle(-extent, -extent, extent, extent)
    return Rectangle(
        area.left + keepout, area.bottom + keepout, area.right - keepout, area.top - keepout
    )


def _draw_free_point(
    course: Course,
    rectangle: Rectangle,
    keepout: float,
    occupied: Positions,
    random: np.random.RandomState,
    tries: int,
) -> Point | None:
    obstacles = []
    for group, points in occupied.items():
        things = course.group(group)
        assert things is not None
        obstacles += [(x, y, keepout + things.keepout) for x, y in points]
    for _ in range(tries):
        x = random.uniform(rectangle.left, rectangle.right)
        y = random.uniform(rectangle.bottom, rectangle.top)
        if all(math.hypot(x - ox, y - oy) >= gap for ox, oy, gap in obstacles):
            return x, y
    return None
