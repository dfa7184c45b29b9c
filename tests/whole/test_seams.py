"""Where parts of the library meet: what is easily lost between them, each in one small case."""

import math
import multiprocessing
import signal
import sys
from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import small_run
from varied import HORIZON, Course, Varied, seed_of, varied

import prudent
from prudent.algorithms.cup import CUPConfig, cup
from prudent.pieces import improvement
from prudent.pieces.critics import spread
from prudent.pieces.improvement import in_passes
from prudent.pieces.on_policy import Epoch, Samples
from prudent.pieces.types import Rollout, Spec
from prudent.policies.policy import TOGETHER, evaluate_policy
from prudent.tasks import TASKS
from prudent.tasks.adapter import AdaptedEnv, UnsupportedEnvironment, open_environment, probe
from prudent.tasks.episodes import EVALUATION_SEED, Episodes
from prudent.tasks.finding import find_task
from prudent.tasks.vector import in_a_process, open_vector
from prudent.training.learner import make_spec
from prudent.training.warmup import rows_from_log


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(Varied, "lives", [])


# Evaluating a policy


class Acting:
    """A policy that says when it was asked."""

    step = 7

    def __init__(self):
        self.times: list[int] = []

    def unit_action(self, observations):
        return np.full((len(observations), 1), 0.5)

    def unit_sample(self, observations, time):
        self.times.append(time)
        return np.full((len(observations), 1), -1.0)


@pytest.mark.parametrize("seed", [None, 4])
def test_evaluating_greedily_from_the_named_starts(seed):
    task, policy = varied(), Acting()
    found = evaluate_policy(policy, small_run(task), task, 12, seed)
    base = EVALUATION_SEED if seed is None else seed
    courses = [Course(seed_of(base, index)) for index in range(12)]
    assert found["evaluation"]["lengths"] == [c.steps for c in courses]
    assert found["evaluation"]["returns"] == [2.0 * c.steps for c in courses]
    assert (found["step"], found["budget"]) == (7, 4.0)
    assert "sampled_evaluation" not in found
    assert not policy.times
    assert len(Varied.lives) == TOGETHER
    assert "environments" not in found


def test_evaluating_by_samples_where_all_starts_are_alike():
    task, policy = varied(deterministic_reset=True), Acting()
    found = evaluate_policy(policy, small_run(task), task, 12, None)
    courses = [Course(seed_of(EVALUATION_SEED, index)) for index in range(12)]
    assert found["evaluation"]["lengths"] == [courses[0].steps]
    assert found["sampled_evaluation"]["lengths"] == [c.steps for c in courses]
    assert found["sampled_evaluation"]["returns"] == [-1.0 * c.steps for c in courses]
    first = list(range(max(c.steps for c in courses[:10])))
    second = [10 * HORIZON + t for t in range(max(c.steps for c in courses[10:]))]
    assert policy.times == first + second  # no noise comes twice
    costs = [sum(c.cost(t) for t in range(1, c.steps + 1)) for c in courses]
    low, high = found["sampled_evaluation"]["cost_interval"]
    half = 2.200985160082949 * np.std(costs, ddof=1) / math.sqrt(12)  # Student's, 11 degrees
    assert (low, high) == pytest.approx((np.mean(costs) - half, np.mean(costs) + half))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of the real thing, which resumes and loads."""
    out = tmp_path_factory.mktemp("seams") / "run"
    prudent.train(
        "sac-lag", env=Varied, budget=4.0, horizon=HORIZON, out=out, quiet=True, hidden=(4,),
        steps=8, warmup_steps=8, updates_per_step=1, batch_size=4, replay_capacity=50,
        evaluate_every=8, evaluation_episodes=2, checkpoint_every=8,
    )  # fmt: skip
    return out


def test_a_loaded_policy_samples_around_its_greedy_action(folder):
    policy, seen = prudent.load(folder), np.array([0.3, 1.0])
    drawn = np.array([policy.sample(seen, seed) for seed in range(200)])
    assert ((drawn >= -1.0) & (drawn <= 3.0)).all()
    assert drawn.std() > 0.2
    greedy = policy(seen)
    assert drawn.min() < greedy < drawn.max()
    np.testing.assert_array_equal(greedy, policy(seen))
    several = policy.sample(np.stack([seen] * 50), 3)
    assert len(np.unique(several)) == 50


def test_evaluate_plays_the_greedy_policy(folder):
    policy = prudent.load(folder)
    found = prudent.evaluate(folder, episodes=3, env=Varied)["evaluation"]
    for index, total in enumerate(found["returns"]):
        course = Course(seed_of(EVALUATION_SEED, index))
        times = [np.array([course.start, float(t)]) for t in range(course.steps)]
        assert total == pytest.approx(sum(float(policy(seen)[0]) for seen in times), abs=1e-5)


def test_exactly_the_budget_is_within_it():
    episodes = Episodes(np.array([1.0, 2.0]), np.array([2.0, 2.5]), np.array([3, 4]))
    found = episodes.summary(2.0)
    assert (found["within_budget"], found["cost"], found["return"], found["length"]) == (
        0.5, 2.25, 1.5, 3.5,
    )  # fmt: skip


# Logs, probes, tasks


def test_a_log_is_centred_and_its_masks_say_what_goes_on():
    log = {
        "observation": [[0.0, 1.0]] * 3, "action": [[-1.0], [1.0], [3.0]], "reward": [1, 2, 3],
        "cost": [4, 5, 6], "next_observation": [[1.0, 2.0]] * 3, "terminated": [0, 1, 0],
    }  # fmt: skip
    rows = rows_from_log(log, AdaptedEnv(Varied(), "varied"))
    assert rows[:, 2].tolist() == [-1.0, 0.0, 1.0]
    assert rows[:, 3:5].tolist() == [[1, 4], [2, 5], [3, 6]]
    assert rows[:, 5:7].tolist() == [[1, 1], [0, 0], [1, 1]]


@pytest.mark.parametrize("quantity", ["observation", "reward", "cost"])
def test_the_probe_looks_at_everything(quantity, monkeypatch):
    real = Varied.step

    def step(self, action):
        seen, reward, terminated, truncated, info = real(self, action)
        wrong = {"observation": np.nan * seen, "reward": np.inf, "cost": np.nan}[quantity]
        if quantity == "observation":
            return wrong, reward, terminated, truncated, info
        if quantity == "reward":
            return seen, wrong, terminated, truncated, info
        return seen, reward, terminated, truncated, {"cost": wrong}

    probe(open_environment(varied()))
    monkeypatch.setattr(Varied, "step", step)
    with pytest.raises(UnsupportedEnvironment, match="a non-finite number in its first steps"):
        probe(open_environment(varied()))


def test_a_cost_that_is_named_goes_before_the_one_that_is_there(monkeypatch):
    real = Varied.step
    monkeypatch.setattr(
        Varied, "step", lambda self, a: (*real(self, a)[:4], {"cost": 1.0, "other": 7.0})
    )
    environment = open_environment(find_task("named", Varied, 1.0, HORIZON, cost="other"))
    environment.reset(0)
    assert environment.step(np.zeros(1)).cost == 7.0
    environment.close()


def test_a_horizon_and_a_budget_of_ones_own_for_our_tasks():
    task = find_task("orbit", None, budget=3.0, horizon=7, discounted=True)
    assert (task.horizon, task.constraint.budget, task.constraint.discounted) == (7, 3.0, True)
    usual = find_task("orbit")
    assert (usual.horizon, usual.constraint.budget, usual.constraint.discounted) == (400, 16, False)


def test_walker2d_has_the_feet_of_the_paper():
    env = TASKS["walker2d-velocity"].make()
    assert env.unwrapped.fullpath.endswith("walker2d.xml")
    env.close()


def test_the_next_goal_is_never_on_the_pushed_box():
    env = TASKS["point-push1"].make().unwrapped
    env.reset(seed=0)
    now = env._look(env._layout.positions)
    moved = now._replace(
        positions={**now.positions, "box": [(0.4, 1.5)]}, frame=now.frame._replace(x=-0.7, y=-0.9)
    )
    given = []

    def draw(course, positions, random):
        given.append(positions)

    env.course = replace(env.course, goal=env.course.goal._replace(draw=draw))
    assert env._draw_aim(moved) is None
    assert given[0]["box"] == [(0.4, 1.5)]
    assert given[0]["robot"] == [(-0.7, -0.9)]
    assert given[0]["pillars"] == env._layout.positions["pillars"]
    env.close()


def test_environments_in_processes_of_their_own_ignore_ctrl_c(monkeypatch):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # may be ignored already
    try:
        in_a_process(varied()).close()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler  # here it is ours
        monkeypatch.setattr(multiprocessing, "parent_process", lambda: object())
        in_a_process(varied()).close()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_several_in_turn_are_each_as_if_alone():
    several = open_vector(varied(), 3, asynchronous=False)
    seeds = [seed_of(9, index) for index in range(3)]
    seen, _ = several.reset(seed=seeds)
    np.testing.assert_allclose(seen, [[Course(seed).start, 0.0] for seed in seeds])
    actions = np.array([[-1.0], [0.0], [5.0]])
    after, rewards, terminated, truncated, infos = several.step(actions)
    np.testing.assert_allclose(rewards, [-1.0, 1.0, 3.0])  # in its units, and clipped
    np.testing.assert_allclose(infos["cost"], [Course(seed).cost(1) for seed in seeds])
    np.testing.assert_allclose(after[:, 1], 1.0)
    assert not terminated.any()
    assert not truncated.any()
    again, _ = several.reset(
        seed=[None, seeds[0], None], options={"reset_mask": np.array([False, True, False])}
    )
    np.testing.assert_allclose(again[:, 1], [1.0, 0.0, 1.0])
    several.close()


def test_the_spec_says_the_bounds():
    environment = open_environment(varied())
    assert make_spec(environment, 2.5) == Spec(2, 1, 2.5, (2.0,), (1.0,))
    environment.close()


# Passes over an epoch


def test_every_pass_takes_every_row_in_an_order_of_its_own():
    rows, size, passes = 10, 4, 3
    column = jnp.arange(float(rows))
    batch = Samples(*([column] * 8), weight=jnp.ones(rows))
    config = SimpleNamespace(passes=passes, batch_size=size, max_divergence=1.0)

    def step(state, part):
        seen, count = state
        kept = jnp.where(part.weight > 0, part.action, -1.0)
        return (seen.at[count].set(kept), count + 1), {"count": count.astype(jnp.float32)}

    def run(distance, key=0):
        start = jnp.full((3 * passes, size), -2.0), jnp.zeros((), jnp.int32)
        epoch = Epoch(None, batch, jnp.zeros(()), jax.random.key(key))
        return in_passes(config, step, distance, start, epoch)

    (seen, count), metrics = run(lambda state: jnp.zeros(()))
    assert int(count) == 9
    assert float(metrics["passes"]) == 3.0
    assert float(metrics["count"]) == 7.0  # the mean of the last pass: 6, 7, 8
    orders = [part[part >= 0].tolist() for part in np.asarray(seen).reshape(passes, -1)]
    assert [sorted(order) for order in orders] == [list(range(rows))] * passes
    assert len({tuple(order) for order in orders}) == passes
    first, second, third = orders  # nor does one lot shuffle them again and again
    assert [first.index(row) for row in second] != [second.index(row) for row in third]
    other, _ = run(lambda state: jnp.zeros(()), key=1)[0]
    assert (np.asarray(other) != np.asarray(seen)).any()

    # It stops after the pass that led too far, and says how far.
    (_, count), metrics = run(lambda state: 0.4 * state[1].astype(jnp.float32))
    assert int(count) == 3
    assert float(metrics["divergence"]) == pytest.approx(1.2)
    assert float(metrics["passes"]) == 1.0


def test_the_projection_of_cup_draws_an_order_of_its_own(monkeypatch):
    keys = []

    def noting(config, step, distance, state, epoch):
        keys.append(np.asarray(jax.random.key_data(epoch.key)))
        return state, {}

    for module in (improvement, sys.modules[cup.__module__]):
        monkeypatch.setattr(module, "in_passes", noting)
    algorithm = cup(CUPConfig(hidden=(3,)), Spec(3, 2, 1.0, (1.0, 1.0), (0.0, 0.0)))
    state = algorithm.init(jax.random.key(0))
    rows = np.zeros((4, 2), np.float32)
    seen = np.zeros((4, 2, 3), np.float32)
    rollout = Rollout(seen, seen[..., :2], *[rows] * 5, seen, np.float32(0.0), np.float32(1.0))
    algorithm.update(state, rollout, jax.random.key(5))
    assert len(keys) == 2
    assert (keys[0] != keys[1]).any()


def test_the_spread_of_members_that_nearly_agree(float64):
    found = spread(jnp.array([[1.0, 1.0], [1.0 + 2e-9, 1.0]]), ddof=0)
    np.testing.assert_allclose(found, [1e-9, 1e-12], rtol=1e-6)  # and a floor below any meaning
