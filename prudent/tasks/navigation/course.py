"""What a navigation task is made of: the things in the arena, the goal, and what costs.

A `Course` is data. The scene is built from it, the layout is drawn from it, and the environment
asks it what to reward and what to charge. The robot is chosen separately.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

Point = tuple[float, float]
Positions = dict[str, list[Point]]  # by group, in index order


class Rectangle(NamedTuple):
    left: float
    bottom: float
    right: float
    top: float


class Aim(NamedTuple):
    """Where the robot shall go, and for how long buttons stay dead and unseen after a press."""

    x: float
    y: float
    button: int = -1  # the goal's index where goals are buttons
    quiet_steps: int = 0


class Frame(NamedTuple):
    """Where the robot is, and how it sees the world: as complex numbers, ahead + left * 1j.

    A point (x, y) of the floor appears to the robot at x * east + y * north + origin.
    """

    x: float
    y: float
    z: float
    east: complex
    north: complex
    origin: complex


class Moment(NamedTuple):
    """What reward, cost and lidar need to know about the physics."""

    frame: Frame
    positions: Positions
    box_height: float  # 0 where there is no box
    touched: dict[str, list[int]]  # what the robot touches: indices by group


@dataclass(frozen=True)
class Objects:
    """A group of equal things, or the robot itself.

    A thing without a spot lies anywhere in `area`, which is the whole arena unless given.
    """

    group: str
    count: int
    size: float  # a radius, or half the side of a box
    keepout: float  # no two things come closer than the sum of theirs
    spots: tuple[Point, ...] = ()
    area: Rectangle | None = None
    density: float = 0.001  # of things that move
    orbit: float = 0.0  # radius of the circle on which gremlins travel


class GoalRule(NamedTuple):
    """What the robot is asked to do: when a goal is met, how far it is, how the next is drawn."""

    purpose: str  # as `prudent list` describes it
    met: Callable[[Moment, Aim], bool]
    distance: Callable[[Moment, Aim], float]  # the reward is what it shrank by
    draw: Callable[["Course", Positions, np.random.RandomState], Aim | None]


@dataclass(frozen=True)
class Course:
    extent: float  # half the side of the square in which things are placed
    objects: tuple[Objects, ...]
    goal: GoalRule
    costs: tuple[str, ...]  # the groups that cost
    robot: Objects = Objects("robot", 1, size=0.1, keepout=0.4)

    def group(self, name: str) -> Objects | None:
        """The group of that name, or None where the course has none."""
        return next((things for things in self.everything if things.group == name), None)

    @property
    def everything(self) -> tuple[Objects, ...]:
        return (self.robot, *self.objects)

    def scattered(self) -> "Course":
        """The same things without their spots."""
        return replace(
            self,
            robot=replace(self.robot, spots=()),
            objects=tuple(replace(things, spots=()) for things in self.objects),
        )
