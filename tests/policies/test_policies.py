"""A policy sees and acts as its environment's spaces say, wherever it was loaded from."""

import json
import shutil

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

import prudent
from prudent.tasks.adapter import AdaptedEnv, describe_spaces

SMALL = {
    "hidden": (8, 8), "steps": 10, "warmup_steps": 10, "updates_per_step": 1, "batch_size": 4,
    "replay_capacity": 50, "evaluate_every": 10, "evaluation_episodes": 2, "checkpoint_every": 10,
    "quiet": True,
}  # fmt: skip


class Shaped(gymnasium.Env):
    """Observations of 2 x 3, actions of 2 x 1 with bounds that are no powers of two."""

    def __init__(self, dtype=np.float32):
        self.observation_space = Box(-9.0, 9.0, (2, 3), np.float32)
        self.action_space = Box(-0.1, 0.7, (2, 1), dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.time += 1
        seen = self.observation_space.sample()
        return seen, float(action.sum()), self.time == 4, False, {"cost": 1.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("policies") / "run"
    prudent.train("sac-lag", env=Shaped, budget=3.0, horizon=4, out=folder, **SMALL)
    prudent.export(folder, folder.parent / "policy.safetensors")
    return folder


@pytest.fixture(scope="module", params=["loaded", "exported"])
def policy(request, folder):
    if request.param == "loaded":
        return prudent.load(folder)
    return prudent.load_exported(folder.parent / "policy.safetensors")


def test_actions_are_of_the_environments_space(policy):
    env = Shaped()
    for scale in (0.1, 1.0, 1e6):
        action = policy(np.full((2, 3), scale, np.float32))
        assert env.action_space.contains(action)
        assert action.dtype == np.float32


def test_one_observation_or_several_flat_or_shaped(policy):
    several = np.random.default_rng(0).normal(size=(5, 2, 3)).astype(np.float32)
    actions = policy(several)
    assert (actions.shape, actions.dtype) == ((5, 2, 1), np.float32)
    for index, observation in enumerate(several):
        np.testing.assert_allclose(policy(observation), actions[index], atol=1e-6)
    np.testing.assert_array_equal(policy(several.reshape(5, 6)), actions)
    np.testing.assert_array_equal(policy(several[0].ravel()), policy(several[0]))
    assert policy(several[None]).shape == (1, 5, 2, 1)
    np.testing.assert_array_equal(policy(several[0].tolist()), policy(several[0]))


def with_value(value, *index):
    observation = np.zeros((4, 2, 3))
    observation[index] = value
    return observation


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (np.zeros(5), r"the observation has shape \(5,\), the policy was trained on \(2, 3\)"),
        (np.zeros((3, 2)), r"has shape \(3, 2\)"),
        (np.zeros(()), r"has shape \(\)"),
        (with_value(np.nan, 3, 1, 2), r"the observation holds nan at index \(3, 1, 2\); finite"),
        (with_value(-np.inf, 0, 0, 1)[0], r"holds -inf at index \(0, 1\)"),
        (with_value(np.nan, 0, 1, 0)[0].ravel(), "holds nan at index 3"),
        (with_value(1e300, 0, 0, 0), r"holds 1e\+300 at index \(0, 0, 0\)"),
        ({"a": 1}, "an observation is an array of numbers of shape .* not a dict"),
        ((np.zeros(2), np.zeros(3)), "not a tuple; gymnasium.spaces.flatten makes one"),
        (None, "not a NoneType"),
    ],
)
def test_what_is_no_observation_is_refused(policy, observation, message):
    with pytest.raises(ValueError, match=message) as error:
        policy(observation)
    assert "\n" not in str(error.value)


class VectorOfShaped:
    """The vector interface of Stable-Baselines3: it starts again by itself, four items a step."""

    def __init__(self, count):
        self.envs, self.num_envs = [Shaped() for _ in range(count)], count

    def reset(self):
        return np.stack([env.reset()[0] for env in self.envs])

    def step(self, actions):
        assert isinstance(actions, np.ndarray)
        results = [env.step(action) for env, action in zip(self.envs, actions, strict=True)]
        ends = np.array([terminated or truncated for _, _, terminated, truncated, _ in results])
        seen = [
            env.reset()[0] if end else r[0]
            for env, end, r in zip(self.envs, ends, results, strict=True)
        ]
        return np.stack(seen), np.array([r[1] for r in results]), ends, [r[4] for r in results]


def evaluate_as_stable_baselines_does(model, env, episodes, deterministic=True):
    """With the calls of `stable_baselines3.common.evaluation.evaluate_policy`."""
    lengths, current = [], np.zeros(env.num_envs, int)
    observations, states = env.reset(), None
    episode_starts = np.ones((env.num_envs,), dtype=bool)
    while len(lengths) < episodes:
        actions, states = model.predict(
            observations, state=states, episode_start=episode_starts, deterministic=deterministic
        )
        observations, rewards, dones, _ = env.step(actions)
        assert rewards.shape == (env.num_envs,)
        episode_starts = dones
        current += 1
        lengths += current[dones].tolist()
        current[dones] = 0
    return lengths


def test_stable_baselines_can_evaluate_it(policy):
    assert evaluate_as_stable_baselines_does(policy, VectorOfShaped(3), 6) == [4] * 6
    action, state = policy.predict(np.zeros((2, 3)), state=("kept",))
    assert state == ("kept",)
    np.testing.assert_array_equal(action, policy(np.zeros((2, 3))))


def test_sampled_actions(folder):
    loaded = prudent.load(folder)
    lengths = evaluate_as_stable_baselines_does(loaded, VectorOfShaped(2), 2, deterministic=False)
    assert lengths == [4, 4]
    observation = np.zeros((2, 3))
    first, second = (loaded.predict(observation, deterministic=False)[0] for _ in range(2))
    assert (first != second).any()
    again = loaded.sample(observation, 7)
    np.testing.assert_array_equal(again, loaded.sample(observation, 7))
    assert Shaped().action_space.contains(again)
    exported = prudent.load_exported(folder.parent / "policy.safetensors")
    with pytest.raises(ValueError, match="an exported policy acts greedily"):
        exported.predict(observation, deterministic=False)


def test_the_spaces_are_in_the_record(folder):
    spaces = json.loads((folder / "run.json").read_text())["spaces"]
    assert spaces["observation_shape"] == [2, 3]
    assert (spaces["action_shape"], spaces["action_dtype"]) == ([2, 1], "float32")
    double = describe_spaces(AdaptedEnv(Shaped(np.float64), "double"))
    assert (double["action_dtype"], double["action_high"]) == ("float64", [0.7, 0.7])


def test_a_run_recorded_before_there_were_spaces(folder, tmp_path):
    old = shutil.copytree(folder, tmp_path / "old")
    record = json.loads((old / "run.json").read_text())
    del record["spaces"]
    (old / "run.json").write_text(json.dumps(record))
    prudent.export(old, tmp_path / "policy.safetensors")
    observation = np.linspace(-1.0, 1.0, 6)
    expected = prudent.load(folder)(observation).ravel()
    for policy in (prudent.load(old), prudent.load_exported(tmp_path / "policy.safetensors")):
        action = policy(observation)
        assert (action.shape, action.dtype) == ((2,), np.float32)
        np.testing.assert_allclose(action, expected, atol=1e-6)


def test_rounding_does_not_leave_the_bounds(folder):
    """In double precision centre + scale is 0.7000000000000001 or so, outside the space."""
    spaces = prudent.load(folder).spaces._replace(action_dtype="float64")
    high = np.full(2, 0.7)
    spaces = spaces._replace(action_bounds=(np.full(2, -0.1), high))
    shaped = spaces.shaped(np.nextafter(high, 1.0)[None])
    assert (shaped <= 0.7).all()
    assert shaped.shape == (1, 2, 1)


def test_unit_actions_stay_a_fast_path(folder):
    loaded = prudent.load(folder)
    flat = np.random.default_rng(1).normal(size=(7, 6))
    unit = loaded.unit_action(flat)
    assert unit.shape == (7, 2)
    np.testing.assert_allclose(loaded(flat).reshape(7, 2), 0.4 * unit + 0.3, atol=1e-6)


def test_evaluation_of_shaped_observations(folder):
    found = prudent.evaluate(folder, episodes=3, env=Shaped)
    assert found["evaluation"]["costs"] == [4.0] * 3
