import numpy as np
import pytest
from navigation.golden import make

SENSED = {"accelerometer": 3, "gyro": 3, "magnetometer": 3, "velocimeter": 3}
CASTER = {"ballangvel_rear": 3, "ballquat_rear": 9}
BUTTON = {"buttons_lidar": 16, "goal_lidar": 16, "hazards_lidar": 16}
GOAL = {"goal_lidar": 16, "hazards_lidar": 16, "vases_lidar": 16}
BLOCKS = {
    "PointButton1": SENSED | BUTTON | {"gremlins_lidar": 16},
    "CarButton1": SENSED | CASTER | BUTTON | {"gremlins_lidar": 16},
    "PointButton2": SENSED | BUTTON,
    "CarButton2": SENSED | CASTER | BUTTON,
    "PointPush1": SENSED
    | {"box_lidar": 16, "goal_lidar": 16, "hazards_lidar": 16, "pillars_lidar": 16},
    "PointGoal1": SENSED | GOAL,
    "CarGoal1": SENSED | CASTER | GOAL,
}
SIZES = {
    "PointButton1": 76,
    "CarButton1": 88,
    "PointButton2": 60,
    "CarButton2": 72,
    "PointPush1": 76,
    "PointGoal1": 60,
    "CarGoal1": 72,
}

BUTTON1 = {
    "buttons_lidar": "0:.776169967 1:.722316700 4:.073299725 5:.224657906 6:.151358181 "
    "9:.081504693 10:.315313576 11:.233808883 15:.053853267",
    "goal_lidar": "4:.073299725 5:.224657906 6:.151358181",
    "gremlins_lidar": "3:.045278948 4:.628718643 5:.583439696 6:.189277638 7:.210870484 "
    "8:.205939473 9:.253980254 10:.406233969 11:.732287629 12:.326053660",
    "hazards_lidar": "3:.472607981 4:.495459502 5:.022851521 6:.021166230 7:.600725814 "
    "8:.579559584 9:.069139721 10:.029220913 11:.213401112 12:.602713456 13:.389312344",
}
BUTTON2 = {
    "buttons_lidar": "0:.487773369 1:.344264395 2:.186653039 3:.243620226 4:.056967187 "
    "5:.063186704 6:.106363605 7:.043176902 9:.357858247 10:.630046656 11:.272188410 15:.143508974",
    "goal_lidar": "0:.487773369 1:.344264395 15:.143508974",
    "hazards_lidar": "0:.404350743 1:.571167072 2:.538497597 3:.248559992 4:.498712017 "
    "5:.823865340 6:.448377717 7:.621254657 8:.263409944 12:.614771030 13:.763088176 "
    "14:.283724479 15:.555671770",
}
PUSH1 = {
    "box_lidar": "13:.293624876 14:.627322004 15:.333697128",
    "goal_lidar": "0:.165575134 1:.269601818 2:.104026684",
    "hazards_lidar": "0:.472953724 1:.251582596 2:.029318681 3:.001757786 14:.190008560 "
    "15:.292893218",
    "pillars_lidar": "0:.254644007 1:.119188894 2:.254644007 3:.135455113 15:.211201420",
}
FIRST_LIDARS = {
    "PointButton1": BUTTON1,
    "CarButton1": BUTTON1,
    "PointButton2": BUTTON2,
    "CarButton2": BUTTON2,
    "PointPush1": PUSH1,
}
FIRST_MAGNETOMETERS = {
    "PointButton1": (-0.393894752, 0.307972279, 0.0),
    "CarButton1": (-0.393894752, 0.307972279, 0.0),
    "PointButton2": (-0.136021558, 0.481142532, 0.0),
    "CarButton2": (-0.136021558, 0.481142532, 0.0),
    "PointPush1": (-0.431241027, -0.253043823, 0.0),
}


@pytest.mark.parametrize("task", BLOCKS)
def test_blocks_stand_in_alphabetical_order(task):
    env = make(task)
    lengths = {name: part.stop - part.start for name, part in env.observation_layout.items()}
    assert list(lengths.items()) == sorted(BLOCKS[task].items())
    assert env.observation_space.shape == (SIZES[task],)
    assert env.observation_space.dtype == env.reset()[0].dtype == np.float64


@pytest.mark.parametrize("task", FIRST_LIDARS)
def test_first_lidar_readings_are_the_papers(task):
    env = make(task)
    observation, _ = env.reset()
    for name, readings in FIRST_LIDARS[task].items():
        expected = np.zeros(16)
        for entry in readings.split():
            index, value = entry.split(":")
            expected[int(index)] = float(value)
        # The numbers are given to nine digits.
        np.testing.assert_allclose(
            observation[env.observation_layout[name]], expected, rtol=0, atol=2e-9
        )


@pytest.mark.parametrize("task", FIRST_MAGNETOMETERS)
def test_first_sensor_readings(task):
    env = make(task)
    observation, _ = env.reset()
    read = {name: observation[part] for name, part in env.observation_layout.items()}
    np.testing.assert_allclose(read["magnetometer"], FIRST_MAGNETOMETERS[task], rtol=0, atol=1e-9)
    np.testing.assert_array_equal(read["velocimeter"], 0.0)
    np.testing.assert_array_equal(read["gyro"], 0.0)
    if task.startswith("Point"):
        np.testing.assert_allclose(read["accelerometer"], (0.0, 0.0, 9.81), atol=1e-12)
    else:
        np.testing.assert_array_equal(read["ballquat_rear"], np.eye(3).ravel())
        np.testing.assert_array_equal(read["ballangvel_rear"], 0.0)


def test_car_feels_gravity_after_one_step():
    env = make("CarButton2")
    env.reset()
    observation, *_ = env.step(np.zeros(2))
    assert 9.7 < observation[2] < 9.85
