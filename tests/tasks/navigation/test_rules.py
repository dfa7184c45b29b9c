"""Reward, cost and goals on moments made up by hand."""

from dataclasses import replace

import numpy as np
import pytest
from navigation.golden import make

from prudent.tasks.navigation.cost import cost_sources
from prudent.tasks.navigation.course import Aim, Frame, Moment
from prudent.tasks.navigation.courses import COURSES
from prudent.tasks.navigation.reward import PRESS_BUTTON, PUSH_BOX_TO_REGION, REACH_REGION

BUTTON1 = COURSES["button1"]["paper"]
STAND = np.zeros(2)


def moment(x=0.0, y=0.0, z=0.1, box=(0.0, 0.0), box_height=0.2, touched=None, hazards=()):
    frame = Frame(x, y, z, 1 + 0j, 1j, -(x + y * 1j))
    return Moment(frame, {"box": [box], "hazards": list(hazards)}, box_height, touched or {})


def costs(course, now, aim):
    return {name for name, active in cost_sources(course).items() if active(now, aim)}


def test_hazard_costs_strictly_inside_its_radius():
    inside_1 = cost_sources(BUTTON1)["cost_hazards"]
    aim = Aim(0.0, 0.0)
    hazards = [(5.0, 5.0), (0.0, 0.0)]
    assert inside_1(moment(x=np.nextafter(0.17, 0), hazards=hazards), aim)
    assert not inside_1(moment(x=0.17, hazards=hazards), aim)
    inside_2 = cost_sources(COURSES["button2"]["paper"])["cost_hazards"]
    assert inside_2(moment(y=-0.2199, hazards=hazards), aim)
    assert not inside_2(moment(y=-0.22, hazards=hazards), aim)


def test_touching_gremlins_and_wrong_buttons_costs():
    aim = Aim(9.0, 9.0, button=2)
    far = [(50.0, 50.0)]
    assert costs(BUTTON1, moment(hazards=far), aim) == set()
    assert costs(BUTTON1, moment(hazards=far, touched={"gremlins": [0]}), aim) == {"cost_gremlins"}
    assert costs(BUTTON1, moment(hazards=far, touched={"buttons": [2]}), aim) == set()
    assert costs(BUTTON1, moment(hazards=far, touched={"buttons": [2, 0]}), aim) == {"cost_buttons"}
    quiet = aim._replace(quiet_steps=1)
    assert costs(BUTTON1, moment(hazards=far, touched={"buttons": [0]}), quiet) == set()


def test_touching_pillars_costs_in_the_papers_push_only():
    now = moment(hazards=[(50.0, 50.0)], touched={"pillars": [3], "box": [0]})
    assert costs(COURSES["push1"]["paper"], now, Aim(0.0, 0.0)) == {"cost_pillars"}
    assert costs(COURSES["push1"]["stock"], now, Aim(0.0, 0.0)) == set()


def test_vases_are_free():
    now = moment(hazards=[(50.0, 50.0)], touched={"vases": [0]})
    assert costs(COURSES["goal1"]["paper"], now, Aim(0.0, 0.0)) == set()


def test_button_is_met_by_touch_alone():
    assert PRESS_BUTTON.met(moment(touched={"buttons": [1, 3]}), Aim(0.0, 0.0, button=3))
    assert not PRESS_BUTTON.met(moment(touched={"buttons": [1]}), Aim(0.0, 0.0, button=3))
    assert not PRESS_BUTTON.met(moment(), Aim(0.0, 0.0, button=3))
    assert PRESS_BUTTON.distance(moment(x=3.0), Aim(0.0, 4.0, button=3)) == 5.0


def test_region_is_met_at_its_edge():
    assert REACH_REGION.met(moment(x=0.3), Aim(0.0, 0.0))
    assert not REACH_REGION.met(moment(x=np.nextafter(0.3, 1)), Aim(0.0, 0.0))


def test_push_measures_distances_in_space():
    # The box's centre is 0.04 above the goal's and 0.1 above the robot's.
    now = moment(x=-1.0, box=(0.0, 0.0), box_height=0.2)
    to_box, to_goal = np.hypot(1.0, 0.1), np.hypot(0.5, 0.04)
    distance = PUSH_BOX_TO_REGION.distance(now, Aim(0.0, 0.5))
    assert distance == pytest.approx(to_box + to_goal, abs=1e-15)
    edge = np.sqrt(0.3**2 - 0.04**2)
    assert PUSH_BOX_TO_REGION.met(now, Aim(edge - 1e-9, 0.0))
    assert not PUSH_BOX_TO_REGION.met(now, Aim(edge + 1e-9, 0.0))


@pytest.fixture
def staged():
    """An environment in which the test decides what the robot touches."""
    env = make("PointButton2")
    env.reset()
    look = env._look
    env.touched = {}
    env._look = lambda resting: look(resting)._replace(touched=env.touched)
    return env


def press_goal(env):
    env.touched = {"buttons": [env.get_state()["aim"][2]]}
    return env.step(STAND)


def wrong_button(env):
    return (env.get_state()["aim"][2] + 1) % 4


def test_buttons_are_free_and_unseen_after_a_press(staged):
    unseen = staged.observation_layout["buttons_lidar"]
    goal = staged.observation_layout["goal_lidar"]
    observation, *_ = press_goal(staged)
    blank = [not observation[unseen].any()]
    paid = []
    for _ in range(12):
        staged.touched = {"buttons": [wrong_button(staged)]}
        observation, _, _, _, info = staged.step(STAND)
        assert observation[goal].any(), "the goal is always seen"
        paid.append(info["cost_buttons"])
        blank.append(not observation[unseen].any())
    assert paid == [0.0] * 10 + [1.0] * 2
    assert blank == [True] * 10 + [False] * 3


def test_goal_met_again_at_once_pays_again(staged):
    for _ in range(3):
        _, reward, terminated, truncated, info = press_goal(staged)
        assert info["goal_met"] is True
        assert reward == 1.0  # the robot stands, so that the distance gives nothing
        assert (info["reward_continues"], info["cost_continues"]) == (0.0, 1.0)
        assert not terminated
        assert not truncated


def test_new_goal_does_not_make_the_reward_jump(staged):
    press_goal(staged)
    staged.touched = {}
    _, reward, _, _, info = staged.step(STAND)
    assert reward == 0.0
    assert info["goal_met"] is False
    assert (info["reward_continues"], info["cost_continues"]) == (1.0, 1.0)


def test_cost_is_one_however_many_sources_are_active(staged):
    now = staged.data.xpos[staged.model.body("robot").id]
    staged._layout.positions["hazards"][0] = (now[0], now[1])
    staged.touched = {"buttons": [wrong_button(staged)]}
    _, _, _, _, info = staged.step(STAND)
    assert (info["cost"], info["cost_hazards"], info["cost_buttons"]) == (1.0, 1.0, 1.0)


def test_episode_is_cut_when_no_goal_can_be_placed():
    env = make("PointGoal1")
    env.reset()
    aim = env.get_state()["aim"][:2]
    env.course = replace(
        env.course, goal=REACH_REGION._replace(met=lambda *_: True, draw=lambda *_: None)
    )
    _, reward, terminated, truncated, _ = env.step(STAND)
    assert (terminated, truncated) == (False, True)
    assert reward == pytest.approx(1.0, abs=1e-12)
    assert env.get_state()["aim"][:2] == aim


def test_region_appears_clear_of_where_things_are_by_now():
    env = make("PointGoal1")
    env.reset()
    env.data.qpos[:2] += (0.4, -0.3)
    x, y = 0.5, 0.5
    start = env.model.jnt_qposadr[env.model.body("vase0").jntadr[0]]
    env.data.qpos[start : start + 2] = (x, y)
    seen = {}

    def draw(course, positions, random):
        seen.update(positions)
        return REACH_REGION.draw(course, positions, random)

    env.course = replace(env.course, goal=REACH_REGION._replace(met=lambda *_: True, draw=draw))
    env.step(STAND)
    np.testing.assert_allclose(seen["vases"], [(x, y)], atol=1e-3)
    np.testing.assert_allclose(seen["robot"], [env.data.xpos[1, :2]], atol=1e-12)
