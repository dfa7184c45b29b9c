import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from navigation.golden import make, pose

from prudent.tasks.navigation.course import Course, Objects
from prudent.tasks.navigation.courses import COURSES
from prudent.tasks.navigation.layout import sample_layout, sample_spot_for_goal
from prudent.tasks.navigation.reward import PRESS_BUTTON, REACH_REGION

# x, y, yaw of the robot at the start
STARTS = {
    "PointButton1": (-0.72466548859, 0.95374986852, 2.234380729505),
    "CarButton1": (-0.72466548859, 0.95374986852, 2.234380729505),
    "PointButton2": (0.136677810997, 0.602530225843, 2.866077065248),
    "CarButton2": (0.136677810997, 0.602530225843, 2.866077065248),
    "PointPush1": (-1.0, -2.0, 1.040153761989),
    "PointGoal1": (0.10738970864, 0.473416606019, 1.662251934908),
    "CarGoal1": (0.10738970864, 0.473416606019, 1.662251934908),
}
FIRST_GOALS = {
    "PointButton1": (-1.3, -1.3),
    "CarButton1": (-1.3, -1.3),
    "PointButton2": (-1.4, 0.6),
    "CarButton2": (-1.4, 0.6),
    "PointPush1": (-1.029756944194, 0.190992481864),
    "PointGoal1": (0.407824508387, -0.692185679034),
    "CarGoal1": (0.407824508387, -0.692185679034),
}
GOAL1_HAZARDS = [
    (0.770154101, 0.076282588),
    (0.179637641, 1.123575125),
    (-1.132464806, -1.089978649),
    (-1.266623431, 0.878116392),
    (0.734333823, 0.976832071),
    (1.263552423, 0.789778610),
    (-1.007755516, 0.369391496),
    (-0.941547321, 1.173925941),
]


@pytest.mark.parametrize("task", STARTS)
def test_robot_starts_where_it_did_in_the_paper(task):
    env = make(task)
    env.reset(seed=3)
    # Coordinates of fixed spots are drawn within a billionth.
    np.testing.assert_allclose(pose(env), STARTS[task], rtol=0, atol=1.1e-9)


@pytest.mark.parametrize("task", FIRST_GOALS)
def test_first_goal_is_the_papers(task):
    env = make(task)
    env.reset()
    aim = env.get_state()["aim"]
    np.testing.assert_allclose(aim[:2], FIRST_GOALS[task], rtol=0, atol=1.1e-9)


def test_yaws_of_things_are_the_papers():
    gremlins = make("PointButton1").get_state()["yaws"]["gremlins"]
    assert gremlins == pytest.approx([5.908908181, 4.80868039, 4.703992256, 5.678238591], abs=1e-9)
    assert make("PointPush1").get_state()["yaws"]["box"] == pytest.approx([4.184349576], abs=1e-9)
    assert make("PointGoal1").get_state()["yaws"]["vases"] == pytest.approx([4.864653742], abs=1e-9)


def test_goal1_things_lie_where_they_did_in_the_paper():
    positions = make("CarGoal1").get_state()["positions"]
    np.testing.assert_allclose(positions["hazards"], GOAL1_HAZARDS, rtol=0, atol=1e-9)
    np.testing.assert_allclose(positions["vases"], [(0.058990469, -0.230412762)], atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([course for variants in COURSES.values() for course in variants.values()]),
)
def test_nothing_lies_within_anothers_keepout_or_outside_the_arena(seed, course):
    course = course.scattered()
    layout = sample_layout(course, np.random.RandomState(seed))
    placed = [
        (*point, course.group(group).keepout)
        for group, points in layout.positions.items()
        for point in points
    ]
    assert len(placed) == sum(things.count for things in course.everything)
    for (x, y, keepout), (other_x, other_y, other) in itertools.combinations(placed, 2):
        assert math.hypot(x - other_x, y - other_y) >= keepout + other
    assert all(max(abs(x), abs(y)) + keepout <= course.extent + 1e-12 for x, y, keepout in placed)


def test_scattered_things_keep_their_counts_and_sizes():
    course = COURSES["push1"]["paper"]
    scattered = course.scattered()
    assert not any(things.spots for things in scattered.everything)
    assert [(t.group, t.count, t.size, t.area) for t in scattered.objects] == [
        (t.group, t.count, t.size, t.area) for t in course.objects
    ]


def test_a_layout_that_cannot_be_is_refused(monkeypatch):
    monkeypatch.setattr("prudent.tasks.navigation.layout.TRIES_PER_LAYOUT", 3)
    crowd = Course(
        extent=1.0,
        objects=(Objects("buttons", 50, size=0.1, keepout=0.5),),
        goal=PRESS_BUTTON,
        costs=(),
    )
    with pytest.raises(RuntimeError, match="too many"):
        sample_layout(crowd, np.random.RandomState(0))


def test_no_room_for_a_goal_is_reported_as_none(monkeypatch):
    monkeypatch.setattr("prudent.tasks.navigation.layout.TRIES_PER_GOAL", 50)
    course = Course(
        extent=1.0,
        objects=(Objects("goal", 1, size=0.3, keepout=0.3), Objects("hazards", 1, 0.2, 2.0)),
        goal=REACH_REGION,
        costs=(),
    )
    positions = {"robot": [(9.0, 9.0)], "goal": [(0.0, 0.0)], "hazards": [(0.0, 0.0)]}
    assert sample_spot_for_goal(course, positions, np.random.RandomState(0)) is None


NEXT_BUTTONS = {
    "PointButton1": [3, 0, 0, 1, 3, 1, 0, 2, 0, 2, 3, 0],
    "PointButton2": [0, 2, 3, 2, 3, 0, 0, 0, 2, 0, 2, 3],
}


@pytest.mark.parametrize("task", NEXT_BUTTONS)
def test_next_goal_depends_on_the_step_of_the_press(task):
    """Each step draws one number, so that the step at which a goal is met decides the next."""
    env = make(task)
    for steps, button in enumerate(NEXT_BUTTONS[task], start=1):
        env.reset()
        for _ in range(steps - 1):
            env.step(np.zeros(2))
        meet_goal_at_next_step(env)
        assert env.get_state()["aim"][2] == button


def meet_goal_at_next_step(env):
    course = env.course
    env.course = replace(course, goal=course.goal._replace(met=lambda now, aim: True))
    result = env.step(np.zeros(2))
    env.course = course
    return result
