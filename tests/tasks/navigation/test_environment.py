import json
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from navigation.golden import make

from prudent.settings.run import Constraint
from prudent.tasks.navigation.environment import NavigationEnv
from prudent.tasks.navigation.tasks import NAVIGATION_TASKS as TASKS

PAIRS = (
    *("point-button1", "point-button2", "car-button1", "car-button2"),
    *("point-push1", "point-goal1", "car-goal1"),
)
ids = [f"Prudent/{name.title().replace('-', '')}-v0" for name in PAIRS]


def actions(steps: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (steps, 2))


def play(env, steps=60, seed=0):
    """Observations, rewards and infos of a few random steps."""
    return [env.step(action) for action in actions(steps, seed)]


def assert_same(first, second):
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        assert one[1:] == other[1:]


def test_every_task_says_which_layout_it_uses():
    assert set(TASKS) == {f"{name}{form}" for name in PAIRS for form in ("", "-random", "-stock")}
    for name, task in TASKS.items():
        assert (task.horizon, task.constraint) == (400, Constraint(10.0, discounted=False))
        assert task.deterministic_reset == (name in PAIRS)
        assert ("fixed layout" if name in PAIRS else "random layout") in task.summary


@pytest.mark.parametrize("name", TASKS)
def test_every_task_is_made_and_played(name):
    env = TASKS[name].make()
    observation, _ = env.reset(seed=1)
    assert env.observation_space.contains(observation)
    assert env.spec.max_episode_steps == 400
    for observation, reward, terminated, truncated, info in play(env, steps=5):
        assert env.observation_space.contains(observation)
        assert isinstance(reward, float)
        assert (terminated, truncated) == (False, False)
        sources = {key: value for key, value in info.items() if key.startswith("cost_")}
        assert sources.pop("cost_continues") == 1.0
        assert set(sources) == {f"cost_{group}" for group in env.unwrapped.course.costs}
        assert info["cost"] == max(sources.values())


@pytest.mark.filterwarnings("ignore:.*Box observation space m.*imum value is .*infinity")
@pytest.mark.parametrize("options", [{}, {"layout": "random"}, {"robot": "car", "course": "goal1"}])
def test_passes_gymnasiums_checker(options):
    check_env(NavigationEnv(**options), skip_render_check=True)


def test_episode_is_cut_after_400_steps_and_never_terminates():
    env = TASKS["point-button2"].make()
    env.reset()
    ends = [result[2:4] for result in play(env, steps=400)]
    assert ends == [(False, False)] * 399 + [(False, True)]


def test_fixed_layout_ignores_the_seed():
    env = make("CarButton1")
    first = env.reset(seed=1)[0], play(env)
    second = env.reset(seed=2)[0], play(env)
    np.testing.assert_array_equal(first[0], second[0])
    assert_same(first[1], second[1])


@pytest.mark.parametrize("name", ["point-button1-random", "car-goal1-random", "point-push1-stock"])
def test_random_layout_follows_the_seed(name):
    first, second = TASKS[name].make(), TASKS[name].make()
    start = first.reset(seed=5)[0]
    np.testing.assert_array_equal(start, second.reset(seed=5)[0])
    assert_same(play(first), play(second))
    again = first.reset()[0]
    assert not np.array_equal(again, start), "each episode has its own layout"
    np.testing.assert_array_equal(again, second.reset()[0])
    np.testing.assert_array_equal(start, first.reset(seed=5)[0])


@pytest.mark.parametrize("name", ["point-button1", "car-button2", "point-push1-random"])
def test_replaying_the_actions_gives_the_same_bytes(name):
    env = TASKS[name].make()
    env.reset(seed=3)
    play(env, seed=9)
    episodes = []
    for _ in range(2):
        first = env.reset(seed=4)[0].tobytes()
        episodes.append((first, [result[0].tobytes() for result in play(env)]))
    assert episodes[0] == episodes[1]


@pytest.mark.parametrize("name", TASKS)
def test_state_survives_json_exactly(name):
    env = TASKS[name].make().unwrapped
    env.reset(seed=0)
    observation = play(env, steps=37)[-1][0]
    state = json.loads(json.dumps(env.get_state()))
    future = play(env, seed=1)
    future_reset = env.reset()[0]

    other = TASKS[name].make().unwrapped
    other.reset(seed=77)
    play(other, steps=11, seed=5)
    np.testing.assert_array_equal(other.set_state(state), observation)
    assert_same(play(other, seed=1), future)
    np.testing.assert_array_equal(other.reset()[0], future_reset)


def test_state_includes_a_pending_goal_and_quiet_buttons():
    env = make("PointButton1")
    env.reset()
    state = env.get_state()
    state["aim"][3] = 4  # four quiet steps
    observation = env.set_state(state)
    assert not observation[env.observation_layout["buttons_lidar"]].any()
    assert env.get_state() == state


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ([np.nan, 0.0], "finite"),
        ([0.0, np.inf], "finite"),
        ([0.0], r"shape \(2,\), not \(1,\)"),
        ([[0.0, 0.0]], r"shape \(2,\), not \(1, 2\)"),
        (0.5, r"shape \(2,\), not \(\)"),
    ],
)
def test_bad_actions_are_refused_and_change_nothing(action, message):
    env = make("PointButton2")
    env.reset()
    before = env.get_state()
    with pytest.raises(ValueError, match=message):
        env.step(np.array(action))
    assert env.get_state() == before


def test_actions_out_of_bounds_are_clipped_and_single_precision_is_welcome():
    env = make("PointButton2")
    env.reset()
    env.step(np.array([7.0, -7.0], np.float32))
    np.testing.assert_array_equal(env.data.ctrl, [1.0, -1.0])


@pytest.mark.parametrize("option", ["robot", "course", "layout", "variant", "render_mode"])
def test_unknown_choices_are_refused(option):
    with pytest.raises(ValueError, match=f"{option} must be one of .*, not 'nonsense'"):
        NavigationEnv(**{option: "nonsense"})


@pytest.mark.parametrize(
    ("mode", "options"),
    # Forking a process in which JAX runs would be a warning, and may be a deadlock.
    [("sync", {}), ("async", {"context": "spawn"})],
)
def test_works_in_gymnasiums_vectors(mode, options):
    vector = gymnasium.make_vec(
        "Prudent/PointButton1-v0",
        num_envs=2,
        vectorization_mode=mode,
        vector_kwargs=options,
        layout="random",
    )
    single = make("PointButton1", layout="random")
    try:
        observations, _ = vector.reset(seed=10)
        np.testing.assert_array_equal(observations[1], single.reset(seed=11)[0])
        observations, rewards, _, _, infos = vector.step(np.full((2, 2), 0.5))
        observation, reward, _, _, info = single.step(np.full(2, 0.5))
    finally:
        vector.close()
    np.testing.assert_array_equal(observations[1], observation)
    assert rewards[1] == reward
    for key, value in info.items():
        assert infos[key][1] == value


def test_every_pair_is_registered_with_gymnasium():
    for name in ids:
        assert gymnasium.spec(name).max_episode_steps == 400


def test_listing_tasks_imports_neither_mujoco_nor_jax():
    listing = (
        "import sys, prudent.tasks.navigation.tasks as n; assert len(n.NAVIGATION_TASKS) == 21;"
        "assert not {'mujoco', 'jax'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", listing], check=True)
