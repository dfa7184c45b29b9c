"""The environments: Gymnasium's rules, the kernel's numbers, and learning in them."""

import warnings
from dataclasses import replace
from itertools import pairwise

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from prudent.policies.exported import ExportedPolicy, load_exported, write_exported
from prudent.tasks import TASKS
from prudent.tasks.adapter import AdaptedEnv, describe_spaces, open_environment, probe
from prudent_bidding.environment import ID, Days, OCPMEnv, OCPMVectorEnv
from prudent_bidding.policies import make_policy, sampled
from prudent_bidding.schema import OBSERVATION, OBSERVATION_SIZE, View
from prudent_bidding.simulate import make_order
from prudent_bidding.tasks import Task, run_task
from prudent_bidding.world import PRESETS, stream


def test_gymnasium_finds_nothing_wrong():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Box (action|observation) space.*")
        check_env(OCPMEnv("smoke"), skip_render_check=True)


def test_the_spaces_are_those_of_the_schema():
    env = gymnasium.make(f"prudent_bidding.environment:{ID}", world="smoke")
    assert env.observation_space.shape == (len(OBSERVATION),)
    assert (env.action_space.low, env.action_space.high) == (0.5, 1.5)
    vector = gymnasium.make_vec(f"prudent_bidding.environment:{ID}", num_envs=3, world="smoke")
    assert isinstance(vector.unwrapped, OCPMVectorEnv)
    assert vector.observation_space.shape == (3, OBSERVATION_SIZE)


def test_one_slot_of_the_vector_is_the_single_environment_step_by_step():
    single, vector = OCPMEnv("smoke"), OCPMVectorEnv(1, "smoke")
    alone, info = single.reset(seed=7)
    together, infos = vector.reset(seed=7)
    assert info["advertiser"] == infos["advertiser"][0]
    actions = np.random.default_rng(0).uniform(0.4, 1.6, 400).astype(np.float32)
    for action in actions:
        assert np.array_equal(alone, together[0])
        alone, reward, terminated, truncated, info = single.step(np.array([action]))
        together, rewards, ended, cut, infos = vector.step(np.array([[action]]))
        assert (reward, terminated, truncated) == (rewards[0], ended[0], cut[0])
        assert {name: value[0] for name, value in infos.items()} == info
        if terminated:
            break
    assert terminated


def test_a_day_adds_up():
    """Rewards are pay over budget, costs the deficit, and the state's ledger their sums."""
    env = OCPMEnv("smoke", advertiser=3)
    observation, info = env.reset(seed=1)
    assert info["advertiser"] == 3
    budget, roi = env.week.budget[3], np.exp(env.week.advertisers.log_roi[3])
    pay = gmv = cost = 0.0
    terminated = False
    while not terminated:
        now = dict(zip(OBSERVATION, observation, strict=True))
        assert now["day_spend"] == pytest.approx(pay / budget, abs=1e-6)
        assert now["day_deficit"] == pytest.approx(cost, abs=1e-5)
        assert now["week_deficit"] == pytest.approx(cost / 7, abs=1e-5)
        observation, reward, terminated, truncated, info = env.step(np.array([1.0], np.float32))
        assert not truncated
        assert reward == pytest.approx(info["pay"] / budget)
        assert info["cost"] == pytest.approx((roi * info["pay"] - info["gmv"]) / (roi * budget))
        assert info["pay"] <= info["wins"] * info["bid"] * 1.00001
        pay, gmv, cost = pay + info["pay"], gmv + info["gmv"], cost + info["cost"]
    assert pay <= budget
    assert cost == pytest.approx((roi * pay - gmv) / (roi * budget))


def test_other_costs_are_gmv_alone():
    episodes = {}
    for form in ("deficit", "ratio", "budget"):
        env = OCPMEnv("smoke", cost=form)
        env.reset(seed=2)
        episodes[form] = [env.step(np.array([1.2]))[4] for _ in range(8)]
    for plain, ratio, budget in zip(*episodes.values(), strict=True):
        assert plain["gmv"] == ratio["gmv"]
        assert ratio["cost"] == budget["cost"] <= 0.0
    with pytest.raises(ValueError, match="no cost named 'cheap'; there is: deficit, ratio, budget"):
        OCPMEnv("smoke", cost="cheap")
    with pytest.raises(ValueError, match="no advertiser 500; there are 0 to 499"):
        OCPMEnv("smoke", advertiser=500)


@pytest.mark.parametrize("make", [OCPMEnv, lambda *world, **how: OCPMVectorEnv(2, *world, **how)])
def test_what_is_not_there_is_refused(make):
    for week in (-3, 1.5):
        with pytest.raises(ValueError, match=f"no week {week}; weeks are whole numbers from 0"):
            make("smoke", week=week)
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        make("smoke").step(np.ones((2, 1))[: getattr(make("smoke"), "num_envs", 1)])
    with pytest.raises(ValueError, match=r"no advertiser 1.7; there are 0 to 499"):
        OCPMEnv("smoke", advertiser=1.7)


@pytest.mark.parametrize("action", [np.nan, np.inf])
def test_an_action_that_is_no_number_is_named(action):
    single, vector = OCPMEnv("smoke"), OCPMVectorEnv(3, "smoke")
    single.reset(seed=0)
    vector.reset(seed=0)
    with pytest.raises(ValueError, match=f"the action is {action} in environment 0; k must be a f"):
        single.step(np.array([action]))
    with pytest.raises(ValueError, match=f"the action is {action} in environment 2"):
        vector.step(np.array([[1.0], [1.0], [action]]))


def test_an_ended_day_begins_anew_at_the_next_step():
    vector = OCPMVectorEnv(64, "smoke")
    vector.reset(seed=0)
    actions = np.full((64, 1), 1.5, np.float32)
    column = OBSERVATION.index("day_spend")
    ended, begun = np.zeros(64, bool), 0
    for _ in range(120):
        observations, rewards, terminated, _, infos = vector.step(actions)
        assert not observations[ended, column].any()
        assert not rewards[ended].any()
        assert not infos["cost"][ended].any()
        assert not terminated[ended].any()
        begun += ended.sum()
        ended = terminated
    assert begun > 10


def test_vector_environments_repeat_with_their_seed():
    runs = []
    for _ in range(2):
        vector = OCPMVectorEnv(16, "smoke")
        first, _ = vector.reset(seed=3)
        runs.append((first, vector.step(np.full((16, 1), 0.9))[0]))
    assert np.array_equal(runs[0][0], runs[1][0])
    assert np.array_equal(runs[0][1], runs[1][1])
    with pytest.raises(ValueError, match="one seed is needed"):
        vector.reset(seed=[1, 2])
    with pytest.raises(ValueError, match="num_envs is 0"):
        OCPMVectorEnv(0)


def test_days_begin_on_all_weekdays_with_their_traffic():
    days = Days(7000, "smoke", 0, 0, "deficit", slot=5)
    days.begin(np.arange(7000), stream(1, 0))
    assert np.all(np.bincount(days.day, minlength=7) > 850)
    volume = days.week.advertisers.volume[5]
    assert set(days.volume[days.day == 1]) == {round(volume * 1.225)}


def test_the_hard_world_hides_gmv_until_it_has_come():
    env = OCPMEnv("hard")
    column = OBSERVATION.index("day_roi")
    hidden = 0
    for seed in range(3):
        env.reset(seed=seed)
        earned = 0.0
        for _ in range(40):
            observation, _, terminated, _, info = env.step(np.array([1.0]))
            earned += info["gmv"]
            hidden += earned > 0 and observation[column] == 0.0
            if terminated:
                break
    assert hidden > 3


def test_the_task_fits_the_library():
    task = TASKS["bidding-day"]
    assert task.constraint.budget == 0.0
    environment = open_environment(task)
    probe(environment)
    assert environment.to_environment(np.array([-1.0, 0.0, 1.0])[:, None]).ravel().tolist() == [
        0.5,
        1.0,
        1.5,
    ]
    environment.close()


SPACES = describe_spaces(AdaptedEnv(OCPMEnv("smoke"), "bidding-day"))


def exported(
    tmp_path, algorithm="cal", outputs=2, head="tanh", explores=None, spaces=SPACES, **more
):
    generator = np.random.default_rng(0)
    sizes = (OBSERVATION_SIZE, 16, outputs)
    arrays = {"action/scale": np.array([0.5], np.float32), "action/centre": np.ones(1, np.float32)}
    for i, (a, b) in enumerate(pairwise(sizes)):
        arrays[f"layers/{i}/weight"] = generator.normal(0, 0.3, (a, b)).astype(np.float32)
        arrays[f"layers/{i}/bias"] = np.zeros(b, np.float32)
    arrays |= more
    about = {"activation": "relu", "head": head, "algorithm": algorithm}
    if explores is not None:  # as files of older versions do not
        about["explores"] = explores
    path = tmp_path / f"{algorithm}.safetensors"
    write_exported(path, arrays, about, spaces)
    return path


def test_exported_policies_bid_as_they_explore(tmp_path):
    path = exported(tmp_path)
    policy = load_exported(path)
    observations = np.random.default_rng(1).normal(size=(3000, OBSERVATION_SIZE)).astype(np.float32)
    view = View(3000, observations=observations)
    greedy = make_policy(f"{path}@greedy").act(view, stream(3, 0))
    assert np.allclose(greedy, policy(observations)[:, 0])
    sampling = make_policy(str(path)).act(view, stream(3, 0))
    noise = stream(3, 0).standard_normal((3000, 1), dtype=np.float32)
    outputs = policy.exploration.outputs(observations.copy())
    spread = np.exp(np.clip(outputs[:, 1:], -20, 2)) * noise
    assert np.allclose(sampling, 1.0 + 0.5 * np.tanh(outputs[:, :1] + spread)[:, 0], atol=1e-5)
    assert sampling.std() > greedy.std()


def test_each_family_of_algorithms_explores_in_its_own_way(tmp_path):
    noise = np.array([[0.0], [1.0], [-1.0]], np.float32)
    same = np.zeros((3, OBSERVATION_SIZE), np.float32)  # zero biases: all outputs are 0

    def actions(**form) -> list[float]:
        return sampled(load_exported(exported(tmp_path, **form)), same, noise)[:, 0].tolist()

    squashed = [1.0, 1.0 + 0.5 * np.tanh(1.0), 1.0 - 0.5 * np.tanh(1.0)]
    assert actions() == pytest.approx(squashed)
    assert actions(algorithm="cvpo") == pytest.approx([1.0, 1.5, 0.5])
    softplus = 0.5 * (np.log(2.0) + 1e-4)
    expected = [1.0, 1.0 + softplus, 1.0 - softplus]
    assert actions(algorithm="cvpo", head="sigmoid") == pytest.approx(expected)
    log_std = {"action/log_std": np.log(np.array([0.2], np.float32))}
    assert actions(algorithm="cup", outputs=1, head="clip", **log_std) == pytest.approx(
        [1.0, 1.1, 0.9]
    )
    # What the file says goes before what its algorithm's name suggests.
    assert actions(explores="diagonal") == pytest.approx([1.0, 1.5, 0.5])
    assert actions(algorithm="cvpo", explores="squashed") == pytest.approx(squashed)
    assert actions(explores="full") == pytest.approx(expected)


def test_what_does_not_say_how_it_explores_is_not_sampled(tmp_path):
    path = exported(tmp_path, algorithm="td3-lag", outputs=1, explores="unsaid")
    with pytest.raises(ValueError, match=r"does not say how its policy explores; give .*@greedy"):
        make_policy(str(path))
    view = View(2, observations=np.zeros((2, OBSERVATION_SIZE), np.float32))
    assert make_policy(f"{path}@greedy").act(view, stream(3, 0)).shape == (2,)


@pytest.mark.parametrize("recorded", [True, False])
def test_policies_of_another_range_are_refused(tmp_path, recorded):
    """At the bounds of [-1, 1] most of what such a policy bids would be cut to 0.5."""
    make_policy(str(exported(tmp_path, spaces=SPACES if recorded else None)))
    spaces = {**SPACES, "action_low": [-1.0], "action_high": [1.0]} if recorded else None
    scaling = {"action/scale": np.ones(1, np.float32), "action/centre": np.zeros(1, np.float32)}
    path = exported(tmp_path, spaces=spaces, **scaling)
    with pytest.raises(ValueError, match=f"{path}: a policy for actions from -1 to 1; bidding has"):
        make_policy(str(path))


def test_policies_whose_weights_are_no_numbers_are_refused(tmp_path):
    bias = {"layers/1/bias": np.array([0.0, np.nan], np.float32)}  # of its spread
    path = exported(tmp_path, **bias)
    make_policy(f"{path}@greedy")
    with pytest.raises(ValueError, match=f"{path}: the policy's k is nan"):
        make_policy(str(path))
    weight = np.zeros((OBSERVATION_SIZE, 16), np.float32)
    weight[3, 3] = np.nan
    path = exported(tmp_path, **{"layers/0/weight": weight})
    with pytest.raises(ValueError, match=f"{path}: the policy's k is nan"):
        make_policy(f"{path}@greedy")


def test_policies_for_other_tasks_are_refused(tmp_path):
    arrays = {
        "layers/0/weight": np.zeros((3, 1), np.float32),
        "layers/0/bias": np.zeros(1, np.float32),
        "action/scale": np.ones(1, np.float32),
        "action/centre": np.zeros(1, np.float32),
    }
    about = {"activation": "relu", "head": "tanh"}
    path = tmp_path / "other.safetensors"
    write_exported(path, arrays, about, None)
    assert isinstance(load_exported(path), ExportedPolicy)
    with pytest.raises(ValueError, match=r"observations \(3,\) and actions \(1,\); bidding has"):
        make_policy(str(path))


def test_an_algorithm_learns_in_it_and_its_policy_bids(tmp_path):
    import prudent

    prudent.train(
        "cal",
        task="bidding-day",
        out=tmp_path / "run",
        quiet=True,
        steps=60,
        warmup_steps=30,
        evaluate_every=60,
        evaluation_episodes=1,
        hidden=(8, 8),
        batch_size=8,
        updates_per_step=1,
    )
    prudent.export(tmp_path / "run", tmp_path / "policy.safetensors")
    policy = make_policy(str(tmp_path / "policy.safetensors"))
    view = View(5, observations=np.zeros((5, OBSERVATION_SIZE), np.float32))
    k = policy.act(view, stream(3, 0))
    assert k.shape == (5,)
    assert np.all((k >= 0.5) & (k <= 1.5))
    deploy_as_onnx(tmp_path)


def deploy_as_onnx(folder):
    """The data set keeps the model under a name by which it is read as one, and it acts."""
    import prudent

    prudent.export(folder / "run", folder / "policy.onnx")
    world = replace(PRESETS["smoke"], advertisers=20, block_size=20, volume=15.0)
    order = make_order(folder / "data", world, 0, 0, [f"{folder / 'policy.onnx'}@greedy"])
    (kept,) = order.policies
    assert kept.endswith(".onnx@greedy")
    observations = np.ones((4, OBSERVATION_SIZE), np.float32)
    acts = make_policy(str(folder / "data" / kept)).act(View(4, observations), stream(3, 0))
    plain = load_exported(folder / "policy.safetensors")(observations)[:, 0]
    np.testing.assert_allclose(acts, plain, atol=1e-5)
    assert run_task(Task(order, 0, 0)).rows.rows > 100
