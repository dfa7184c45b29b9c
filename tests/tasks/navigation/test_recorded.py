"""Episodes recorded with the reference engine, played back in four ways."""

import mujoco
import numpy as np
import pytest
from navigation.golden import RECORDED_TASKS, SAME_VERSIONS, episode, make, pose, states

# task, action, step, x, y, yaw, sum of rewards, sum of costs
CONSTANT_ACTIONS = [
    ("PointButton2", (0.03, 0.0), 1, 0.133520, 0.603423, 2.866077, 0.003156, 0),
    ("PointButton2", (0.03, 0.0), 10, -0.075679, 0.663355, 2.864502, 0.210844, 0),
    ("PointButton2", (0.03, 0.0), 50, -2.010666, 1.220332, 2.864508, 0.666206, 7),
    ("PointButton2", (0.05, 1.0), 10, -0.189776, 0.500979, -1.639793, 0.322411, 0),
    ("PointButton2", (0.05, 1.0), 100, 0.209121, -0.070386, 1.842603, -0.206503, 18),
    ("PointButton1", (0.05, -1.0), 10, -0.754196, 1.294356, 0.457066, -0.325121, 0),
    ("PointButton1", (0.05, -1.0), 50, -0.500652, 1.506810, -0.391704, -0.592388, 0),
    ("PointPush1", (0.03, 0.0), 10, -0.889056, -1.808986, 1.043232, 0.175982, 0),
    ("CarButton2", (0.01, 0.01), 1, 0.141803, 0.622868, 2.865514, -0.005293, 0),
    ("CarButton2", (0.01, 0.01), 50, 0.598836, 2.240617, 2.868985, -1.049238, 0),
    ("CarButton2", (0.02, -0.02), 10, 0.089978, 0.558690, -2.242483, 0.046129, 0),
    ("CarButton1", (0.01, 0.01), 50, 0.674313, 2.060655, 2.240596, -1.571654, 0),
]


@pytest.mark.parametrize(
    ("task", "action", "steps", "x", "y", "yaw", "reward", "cost"), CONSTANT_ACTIONS
)
def test_constant_action(task, action, steps, x, y, yaw, reward, cost):
    if steps > 10 and not SAME_VERSIONS:
        pytest.skip("long trajectories are equal only for equal versions")
    env = make(task)
    env.reset()
    rewards, costs = 0.0, 0.0
    for _ in range(steps):
        _, gained, terminated, truncated, info = env.step(np.array(action))
        assert not terminated
        assert not truncated
        rewards += gained
        costs += info["cost"]
    np.testing.assert_allclose((*pose(env), rewards), (x, y, yaw, reward), rtol=0, atol=1e-4)
    assert costs == cost


@pytest.mark.skipif(not SAME_VERSIONS, reason="trajectories are equal only for equal versions")
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("task", RECORDED_TASKS)
def test_whole_episode_from_its_actions(task, number):
    recorded = episode(task, number)
    env = make(task)
    first, _ = env.reset()
    # The car starts with its wheels just touching the floor, so what it feels there is rounding.
    skipped = 3 if task.startswith("Car") else 0
    np.testing.assert_allclose(
        first[skipped:], recorded.observations[0, skipped:], rtol=0, atol=1e-9
    )
    for step, action in enumerate(recorded.actions):
        observation, reward, _, _, info = env.step(action)
        np.testing.assert_allclose(
            observation, recorded.observations[step + 1], rtol=0, atol=1e-9, err_msg=f"step {step}"
        )
        assert reward == pytest.approx(recorded.rewards[step], abs=1e-9)
        assert info["cost"] == recorded.costs[step]
        assert info["goal_met"] == recorded.goals_met[step]


@pytest.mark.parametrize("task", RECORDED_TASKS)
def test_single_steps_from_recorded_states(task):
    recorded, env = states(task), make(task)
    env.reset()
    errors = []
    robot = 3 if task.startswith("Point") else 7
    for step, action in enumerate(episode(task, 0).actions):
        put(env, recorded, step)
        env.step(action)
        errors.append(np.abs(env.data.qpos[:robot] - recorded["q2"][step, :robot]).max())
    assert np.median(errors) < 1e-9
    assert np.quantile(errors, 0.9) < 5e-3


@pytest.mark.parametrize("task", RECORDED_TASKS)
def test_rules_on_recorded_states(task, monkeypatch):
    """With the physics taken from the record, what remains is lidar, reward, cost and goals."""
    recorded, played, env = states(task), episode(task, 0), make(task)
    env.reset()
    step = 0

    def advance():
        env.data.qpos[:], env.data.qvel[:] = recorded["q2"][step], recorded["v2"][step]
        env.data.qacc_warmstart[:] = 0.0
        mujoco.mj_forward(env.model, env.data)

    monkeypatch.setattr(env, "_advance", advance)
    pure = np.concatenate(
        [np.r_[part] for name, part in env.observation_layout.items() if name != "accelerometer"]
    )
    for step, action in enumerate(played.actions):
        observation, reward, _, _, info = env.step(action)
        np.testing.assert_allclose(
            observation[pure], played.observations[step + 1, pure], rtol=0, atol=1e-9
        )
        assert reward == pytest.approx(played.rewards[step], abs=1e-9)
        assert info["cost"] == played.costs[step]
        assert info["goal_met"] == played.goals_met[step]


def put(env, recorded, step):
    env.data.qpos[:] = recorded["q"][step]
    env.data.qvel[:] = recorded["v"][step]
    env.data.qacc_warmstart[:] = recorded["w"][step]
    env.data.time = recorded["t"][step]
    warm_start = env.data.qacc_warmstart.copy()
    mujoco.mj_forward(env.model, env.data)
    env.data.qacc_warmstart[:] = warm_start
