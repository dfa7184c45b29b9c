"""Every course by name and variant: "paper" as modified for CVPO and CAL, "stock" as released.

A course that Safety-Gym does not have needs no "stock".
"""

from prudent.tasks.navigation import button, goal, push
from prudent.tasks.navigation.course import Course

COURSES: dict[str, dict[str, Course]] = {**button.COURSES, **push.COURSES, **goal.COURSES}
