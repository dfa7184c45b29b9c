"""The model itself, and behaviour that follows from it."""

import mujoco
import numpy as np
import pytest
from navigation.golden import episode, make

from prudent.tasks.navigation import simulation
from prudent.tasks.navigation.courses import COURSES
from prudent.tasks.navigation.layout import sample_layout
from prudent.tasks.navigation.robots import ROBOTS
from prudent.tasks.navigation.scene import arrange, build_model, resting_height, scene_xml

TASKS = ["PointButton1", "PointButton2", "CarButton1", "CarButton2", "PointPush1", "PointGoal1"]


@pytest.mark.parametrize(
    ("task", "time_step"),
    [("PointButton1", 0.006), ("CarButton1", 0.01), ("PointPush1", 0.006), ("CarGoal1", 0.01)],
)
def test_time_step(task, time_step):
    env = make(task)
    assert env.model.opt.timestep == time_step
    env.reset()
    env.step(np.zeros(2))
    assert env.data.time == pytest.approx(10 * time_step)
    assert env.metadata["render_fps"] == round(1 / (10 * time_step))


def test_stock_has_safety_gyms_time_steps_and_counts():
    point, car = make("PointButton2", variant="stock"), make("CarGoal1", variant="stock")
    assert (point.model.opt.timestep, car.model.opt.timestep) == (0.002, 0.004)
    counts = {things.group: things.count for things in point.course.objects}
    assert counts == {"buttons": 4, "hazards": 8, "gremlins": 6}
    assert make("PointPush1", variant="stock").course.costs == ("hazards",)


def test_masses():
    point = make("PointPush1").model
    assert point.body("robot").mass[0] == pytest.approx(0.00518879, abs=1e-8)
    assert point.body("robot").ipos[0] == pytest.approx(0.0192723, abs=1e-7)
    assert point.body("box0").mass[0] == pytest.approx(1.28e-4)
    car = make("CarButton1").model
    robot = car.body("robot").id
    masses = car.body_mass[robot : robot + 4]
    np.testing.assert_allclose(masses, [0.0239, 0.0019635, 0.0019635, 0.00261799], atol=1e-8)
    assert car.body("gremlin0").mass[0] == pytest.approx(8e-6)


def test_dimensions():
    sizes = {task: (make(task).model.nq, make(task).model.nv) for task in TASKS[:4]}
    assert sizes == {
        "PointButton1": (31, 27),
        "PointButton2": (3, 3),
        "CarButton1": (41, 35),
        "CarButton2": (13, 11),
    }


@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize("course", ["button1", "push1", "goal1"])
def test_arranging_equals_compiling_in_place(robot, course):
    """A model whose things were moved behaves as one compiled with them where they are."""
    things = COURSES[course]["stock"]
    layout = sample_layout(things, np.random.RandomState(7))
    arranged = build_model(ROBOTS[robot], things, 0.01)
    arrange(arranged, things, layout)
    compiled = compiled_in_place(ROBOTS[robot], things, layout)
    for field in (
        *("body_pos", "body_quat", "qpos0", "site_pos", "body_invweight0"),
        *("dof_invweight0", "dof_M0", "actuator_acc0", "body_subtreemass", "actuator_length0"),
    ):
        actual, expected = getattr(arranged, field), getattr(compiled, field)
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12, err_msg=field)
    # What follows the pose and its scale is a flag that only some versions have.
    np.testing.assert_allclose(arranged.eq_data[:, :11], compiled.eq_data[:, :11], atol=1e-12)
    assert arranged.stat.meaninertia == pytest.approx(compiled.stat.meaninertia, rel=1e-12)


def compiled_in_place(robot, course, layout):
    spec = mujoco.MjSpec.from_string(scene_xml(robot, course, 0.01))
    for things in course.everything:
        for index in range(0 if things.group == "goal" else things.count):
            name = (
                "robot" if things.group == "robot" else f"{things.group.removesuffix('s')}{index}"
            )
            thing = spec.site(name) if things.group == "hazards" else spec.body(name)
            thing.pos = (*layout.positions[things.group][index], resting_height(things))
            yaw = layout.yaws[things.group][index]
            if things.group != "hazards":
                thing.quat = (np.cos(yaw / 2), 0, 0, np.sin(yaw / 2))
            if things.group == "gremlins":
                # All zeros ask the compiler to work the relative pose out.
                spec.equality(f"{name}-weld").data[3:10] = 0.0
    return spec.compile()


def test_gremlins_take_off_and_circle():
    env = make("PointButton1")
    env.reset()
    path = {
        1: (0.004131, -1.153715, 0.148572),
        2: (0.015323, -1.074837, 0.174935),
        3: (0.029969, -1.037819, 0.187667),
        6: (0.080143, -1.015875, 0.198219),
    }
    for step in range(1, 61):
        env.step(np.zeros(2))
        if step in path:
            np.testing.assert_allclose(env.data.body("gremlin0").xpos, path[step], atol=2e-6)
    time = env.data.time
    circle = (0.3 * np.sin(time), -1.3 + 0.3 * np.cos(time), 0.2)
    np.testing.assert_allclose(env.data.body("gremlin0").xpos, circle, atol=0.05)


def test_gremlins_of_a_random_layout_circle_where_they_were_placed():
    env = make("PointButton1", layout="random")
    for seed in (1, 2):
        env.reset(seed=seed)
        for _ in range(30):
            env.step(np.zeros(2))
        time = env.data.time
        for index, (x, y) in enumerate(env.get_state()["positions"]["gremlins"]):
            circle = (x + 0.3 * np.sin(time), y + 0.3 * np.cos(time), 0.2)
            np.testing.assert_allclose(env.data.body(f"gremlin{index}").xpos, circle, atol=0.05)


def test_thrust_saturates():
    ends = []
    for thrust in (0.05, 1.0):
        env = make("PointPush1")
        env.reset()
        for _ in range(3):
            env.step(np.array([thrust, 0.0]))
        ends.append(env.data.qpos[:2].copy())
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-12)


def test_point_stands_still_without_action():
    env = make("PointButton2")
    env.reset()
    for _ in range(20):
        env.step(np.zeros(2))
    assert not env.data.qpos.any()


def test_yaw_servo_chatters_without_turning():
    """In the servo's dead zone the yaw rate flips at each substep and the mean is zero."""
    env = make("PointButton2")
    env.reset()
    for _ in range(20):
        env.step(np.array([0.0, 0.1]))
    before = env.data.qpos[2]
    gyro = env.observation_layout["gyro"]
    observation = env.step(np.array([0.0, 0.1]))[0]
    assert abs(observation[gyro][2]) == pytest.approx(1.0842, abs=1e-3)
    assert env.data.qpos[2] == pytest.approx(before, abs=1e-3)


def test_full_steering_turns_at_three_radians_per_second():
    env = make("PointButton2")
    env.reset()
    yaws = []
    for _ in range(40):
        env.step(np.array([0.0, 1.0]))
        yaws.append(env.data.qpos[2])
    assert (yaws[-1] - yaws[9]) / (30 * 0.06) == pytest.approx(3.0, abs=0.05)


def test_car_drives_along_its_front():
    env = make("CarButton2")
    env.reset()
    rotation = env.data.body("robot").xmat.reshape(3, 3).copy()
    start = env.data.body("robot").xpos.copy()
    for _ in range(10):
        env.step(np.array([1.0, 1.0]))
    moved = rotation.T @ (env.data.body("robot").xpos - start)
    assert moved[1] < -0.3
    assert abs(moved[0]) < 0.05


@pytest.mark.parametrize("number", range(3))
def test_leaving_out_collisions_that_cannot_happen_changes_nothing(number, monkeypatch):
    """The shortcut for a robot far from everything gives the very same trajectory."""
    quick = make("PointButton2")
    monkeypatch.setattr(simulation, "_reach_check", lambda *_: lambda: False)
    thorough = make("PointButton2")
    for env in (quick, thorough):
        env.reset()
    presses, shortcuts = 0, 0
    for action in episode("PointButton2", number).actions:
        first, second = quick.step(action), thorough.step(action)
        np.testing.assert_array_equal(first[0], second[0])
        assert first[1:] == second[1:]
        presses += first[4]["goal_met"]
        shortcuts += quick.data.ncon < thorough.data.ncon
    assert presses > 0
    assert shortcuts > 100
