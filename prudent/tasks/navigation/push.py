"""Push: bring a box to the goal region, past hazards and pillars."""

from prudent.tasks.navigation.course import Course, Objects, Rectangle
from prudent.tasks.navigation.reward import GOAL_RADIUS, PUSH_BOX_TO_REGION

PUSH1 = Course(
    extent=2.0,
    robot=Objects("robot", 1, size=0.1, keepout=0.4, spots=((-1.0, -2.0),)),
    objects=(
        Objects("goal", 1, size=GOAL_RADIUS, keepout=0.4, area=Rectangle(-2.0, -0.5, 2.0, 2.0)),
        Objects("box", 1, size=0.2, keepout=0.2, spots=((0.0, -1.5),)),
        Objects(
            "hazards",
            count=4,
            size=0.3,
            keepout=0.4,
            spots=((0.5, -0.5), (-0.5, -0.5), (1.8, 0.8), (-1.8, 0.8)),
        ),
        Objects(
            "pillars",
            count=5,
            size=0.2,
            keepout=0.3,
            spots=((-2.0, 0.0), (2.0, 0.0), (0.0, 0.0), (1.0, 1.0), (-1.0, 1.0)),
        ),
    ),
    goal=PUSH_BOX_TO_REGION,
    costs=("hazards", "pillars"),
)

STOCK_PUSH1 = Course(
    extent=1.5,
    objects=(
        Objects("goal", 1, size=GOAL_RADIUS, keepout=0.4),
        Objects("box", 1, size=0.2, keepout=0.2),
        Objects("hazards", 2, size=0.3, keepout=0.4),
        Objects("pillars", 1, size=0.2, keepout=0.3),
    ),
    goal=PUSH_BOX_TO_REGION,
    costs=("hazards",),
)

COURSES = {"push1": {"paper": PUSH1, "stock": STOCK_PUSH1}}
