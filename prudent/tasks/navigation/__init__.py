"""Navigation among hazards: the Safety-Gym tasks as modified for CVPO and CAL, on modern MuJoCo.

Each task comes in three forms, told apart by their names: `point-button1` with the fixed layout of
the paper, `point-button1-random` with the same things anywhere, and `point-button1-stock` with
the counts, sizes and time step of Safety-Gym as released, anywhere as well.

Here are the names. `tasks.py` makes tasks of them, and MuJoCo is imported when the first
environment is made, so that naming and listing tasks stays quick.
"""

import gymnasium

HORIZON = 400
ALL_FORMS = ("", "-random", "-stock")  # how a name ends
# Which robot plays which course of `courses.py`, in which forms.
PAIRS: dict[tuple[str, str], tuple[str, ...]] = {
    ("point", "button1"): ALL_FORMS,
    ("point", "button2"): ALL_FORMS,
    ("car", "button1"): ALL_FORMS,
    ("car", "button2"): ALL_FORMS,
    ("point", "push1"): ALL_FORMS,
    ("point", "goal1"): ALL_FORMS,
    ("car", "goal1"): ALL_FORMS,
}
NAMES = [f"{robot}-{course}{form}" for (robot, course), forms in PAIRS.items() for form in forms]


GYMNASIUM_ID = "Prudent/{}{}-v0"  # of robot and course, each with a capital

for _robot, _course in PAIRS:
    gymnasium.register(
        GYMNASIUM_ID.format(_robot.title(), _course.title()),
        entry_point="prudent.tasks.navigation.environment:NavigationEnv",
        kwargs={"robot": _robot, "course": _course},
        max_episode_steps=HORIZON,
        # The environment checks actions itself and is ready from the start; Gymnasium's wrappers
        # for both would cost a good part of the speed.
        disable_env_checker=True,
        order_enforce=False,
    )
