"""What costs: each group of things is a source that is active or not at each step."""

from collections.abc import Callable
from itertools import repeat
from math import dist

from prudent.tasks.navigation.course import Aim, Course, Moment

Indicator = Callable[[Moment, Aim], bool]


def cost_sources(course: Course) -> dict[str, Indicator]:
    """The course's indicators, by the key under which `info` reports them."""
    return {f"cost_{group}": _indicator(course, group) for group in course.costs}


def _indicator(course: Course, group: str) -> Indicator:
    if group == "hazards":
        hazards = course.group("hazards")
        assert hazards is not None
        return _inside_hazard(hazards.size)
    if group == "buttons":
        return _presses_wrong_button
    return lambda now, aim: group in now.touched


def _inside_hazard(radius: float) -> Indicator:
    def inside(now: Moment, aim: Aim) -> bool:
        robot = (now.frame.x, now.frame.y)
        return min(map(dist, now.positions["hazards"], repeat(robot))) < radius

    return inside


def _presses_wrong_button(now: Moment, aim: Aim) -> bool:
    """Touching any button but the goal, unless the buttons are quiet after a press."""
    if aim.quiet_steps > 0 or "buttons" not in now.touched:
        return False
    return any(button != aim.button for button in now.touched["buttons"])
