"""The tasks are what they say they are."""

import math

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from prudent.tasks import TASKS
from prudent.tasks.adapter import AdaptedEnv, open_environment
from prudent.tasks.orbit import BUDGET, HORIZON, SPEED, best_radius, best_return
from prudent.tasks.vector import open_vector

OURS = [name for name in TASKS if name == "orbit" or name.endswith("-velocity")]
SIZES = {
    "hopper-velocity": (11, 3, 82.748),
    "halfcheetah-velocity": (17, 6, 151.989),
    "ant-velocity": (27, 8, 103.115),
    "humanoid-velocity": (45, 17, 20.140),
    "walker2d-velocity": (17, 6, 81.886),
    "swimmer-velocity": (8, 2, 24.516),
}


@pytest.mark.parametrize("name", OURS)
@pytest.mark.filterwarnings("ignore:.*:UserWarning")  # the checker's advice on unbounded spaces
def test_gymnasium_accepts_it(name):
    env = TASKS[name].make()
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


@pytest.mark.parametrize("name", SIZES)
def test_sizes_budget_and_horizon(name):
    observations, actions, budget = SIZES[name]
    task, environment = TASKS[name], open_environment(TASKS[name])
    assert (environment.observation_size, environment.action_size) == (observations, actions)
    assert task.constraint.budget == budget
    assert task.constraint.discounted
    assert task.horizon == 1000
    environment.close()


@pytest.mark.parametrize("name", SIZES)
def test_cost_is_the_speed(name):
    environment = open_environment(TASKS[name])
    environment.reset(0)
    outcome = environment.step(np.full(environment.action_size, 0.5))
    info = outcome.info
    assert outcome.cost == pytest.approx(math.hypot(info["x_velocity"], info.get("y_velocity", 0)))
    assert outcome.cost > 0
    environment.close()


@pytest.mark.parametrize("name", ["hopper-velocity", "walker2d-velocity"])
def test_several_stepped_together_are_each_as_if_alone(name):
    task, count = TASKS[name], 3
    environments = [open_environment(task) for _ in range(count)]
    together = open_vector(task, count, asynchronous=False)
    everywhere = np.ones(count, bool)
    found, _ = together.reset(seed=list(range(count)), options={"reset_mask": everywhere})
    np.testing.assert_array_equal(
        found, [environment.reset(i) for i, environment in enumerate(environments)]
    )
    generator, falls = np.random.default_rng(0), 0
    for time in range(300):
        actions = generator.uniform(-1.2, 1.2, (count, environments[0].action_size)).astype(
            np.float32
        )
        if time % 50 == 0:  # what random actions do not lead to
            body, alone = (
                e.unwrapped.data.qvel
                for e in (together.environments[1].unwrapped, environments[1].unwrapped)
            )
            body[-1] = alone[-1] = [11.0, -99.0, 101.0, 5000.0, -150.0, 30.0][time // 50]
        observations, rewards, terminated, truncated, infos = together.step(actions)
        outcomes = [
            environment.step(action)
            for environment, action in zip(environments, actions, strict=True)
        ]
        np.testing.assert_array_equal(observations, [o.observation for o in outcomes])
        np.testing.assert_allclose(rewards, [o.reward for o in outcomes], rtol=1e-14, atol=1e-14)
        for field in ("cost", "reward_continues", "cost_continues"):
            np.testing.assert_array_equal(infos[field], [getattr(o, field) for o in outcomes])
        np.testing.assert_array_equal(terminated, [o.terminated for o in outcomes])
        assert not truncated.any()
        falls += terminated.sum()
        if terminated.any():
            seeds = list(range(time, time + count))
            together.reset(seed=seeds, options={"reset_mask": terminated})
            for place in np.flatnonzero(terminated):
                environments[place].reset(seeds[place])
    assert falls > 20
    together.close()
    for environment in environments:
        environment.close()


def test_humanoid_actions_are_scaled_into_their_bounds():
    environment = open_environment(TASKS["humanoid-velocity"])
    np.testing.assert_allclose(environment.action_scale, 0.4)
    np.testing.assert_allclose(environment.to_environment(np.ones(17)), 0.4)
    np.testing.assert_allclose(environment.to_unit(np.full(17, -0.2)), -0.5)
    environment.close()


def test_a_fall_ends_both_futures_and_pays_for_the_last_step():
    environment = open_environment(TASKS["hopper-velocity"])
    environment.reset(0)
    for _ in range(1000):
        outcome = environment.step(np.ones(3))
        if outcome.terminated:
            break
    assert outcome.terminated
    assert (outcome.reward_continues, outcome.cost_continues) == (0.0, 0.0)
    expected = outcome.info["reward_forward"] + outcome.info["reward_ctrl"] + 1.0
    assert outcome.reward == pytest.approx(float(expected), abs=1e-6)
    environment.close()


def test_the_time_limit_is_no_end_of_the_world():
    environment = AdaptedEnv(
        gymnasium.wrappers.TimeLimit(TASKS["orbit"].make().unwrapped, 3), "orbit"
    )
    environment.reset(0)
    outcomes = [environment.step(np.zeros(2)) for _ in range(3)]
    assert outcomes[-1].truncated
    assert not outcomes[-1].terminated
    assert outcomes[-1].reward_continues == 1.0


def circle(radius: float, steps: int = HORIZON):
    """Return and cost of circling at a radius."""
    env = TASKS["orbit"].make()
    env.reset(seed=0)
    env.unwrapped._position = np.array([radius, 0.0])
    total = np.zeros(2)
    angle = 0.0
    for _ in range(steps):
        angle += 2 * math.asin(SPEED / 2 / radius)
        goal = radius * np.array([math.cos(angle), math.sin(angle)])
        action = (goal - env.unwrapped._position) / SPEED
        _, reward, _, _, info = env.step(action)
        total += reward, info["cost"]
    return total


def test_circling_at_the_best_radius_earns_the_bound_and_spends_the_budget():
    assert (best_radius(BUDGET), best_return(BUDGET)) == (pytest.approx(1.0), pytest.approx(40.0))
    earned, spent = circle(best_radius(BUDGET))
    assert spent == pytest.approx(BUDGET, rel=1e-9)
    assert 0.998 * best_return(BUDGET) < earned <= best_return(BUDGET)


def test_no_policy_beats_the_bound_of_orbit():
    env = TASKS["orbit"].make()
    generator = np.random.default_rng(0)
    for episode in range(5):
        env.reset(seed=episode)
        pull = generator.uniform(-1, 1)
        for _ in range(HORIZON):
            x, y = env.unwrapped._position
            action = np.array([-y - pull * x, x - pull * y]) * 5 + generator.normal(size=2)
            _, reward, _, _, info = env.step(action)
            assert reward <= SPEED / 0.2 * math.sqrt(info["cost"]) + 1e-12
