"""Every course by name and variant: "paper" as modified for CVPO and CAL, "stock" as released."""

from prudent.tasks.navigation import button, goal, push
from prudent.tasks.navigation.course import Course

VARIANTS = ("paper", "stock")

COURSES: dict[str, dict[str, Course]] = {**button.COURSES, **push.COURSES, **goal.COURSES}
