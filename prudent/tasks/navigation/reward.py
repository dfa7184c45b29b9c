"""Goals: when one is met, how far it is, and how the next is drawn."""

import math

import numpy as np

from prudent.tasks.navigation.course import Aim, Course, GoalRule, Moment, Positions
from prudent.tasks.navigation.layout import sample_spot_for_goal

GOAL_RADIUS = 0.3
GOAL_HEIGHT = 0.16  # of the region's centre; the box's distance is measured in space
GOAL_BONUS = 1.0


def _robot_to_goal(now: Moment, aim: Aim) -> float:
    return math.hypot(now.frame.x - aim.x, now.frame.y - aim.y)


def _robot_to_box(now: Moment) -> float:
    frame = now.frame
    return math.dist((frame.x, frame.y, frame.z), (*now.positions["box"][0], now.box_height))


def _box_to_goal(now: Moment, aim: Aim) -> float:
    return math.dist((*now.positions["box"][0], now.box_height), (aim.x, aim.y, GOAL_HEIGHT))


def _draw_button(course: Course, positions: Positions, random: np.random.RandomState) -> Aim:
    """Any button, the last one included."""
    button = int(random.randint(0, len(positions["buttons"])))
    x, y = positions["buttons"][button]
    return Aim(x, y, button)


def _draw_region(course: Course, positions: Positions, random: np.random.RandomState) -> Aim | None:
    spot = sample_spot_for_goal(course, positions, random)
    return None if spot is None else Aim(*spot)


PRESS_BUTTON = GoalRule(
    purpose="press the marked button",
    met=lambda now, aim: aim.button in now.touched.get("buttons", ()),
    distance=_robot_to_goal,
    draw=_draw_button,
)
REACH_REGION = GoalRule(
    purpose="reach the goal",
    met=lambda now, aim: _robot_to_goal(now, aim) <= GOAL_RADIUS,
    distance=_robot_to_goal,
    draw=_draw_region,
)
PUSH_BOX_TO_REGION = GoalRule(
    purpose="push the box to the goal",
    met=lambda now, aim: _box_to_goal(now, aim) <= GOAL_RADIUS,
    distance=lambda now, aim: _robot_to_box(now) + _box_to_goal(now, aim),
    draw=_draw_region,
)
