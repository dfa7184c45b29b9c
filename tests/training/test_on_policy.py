"""The on-policy loop and its algorithms: what is stored, how it is cut, that it repeats itself."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import ACTIVE, DELAYED
from support import ON_POLICY, build, lines, place, settings
from test_training import Counting, counting

import prudent
from prudent.algorithms import ALGORITHMS
from prudent.algorithms.cppo_pid import CPPOPIDConfig, controller
from prudent.algorithms.resolve import Settings, make_run
from prudent.pieces.networks import STYLES
from prudent.pieces.policies import gaussian
from prudent.pieces.types import Rollout
from prudent.settings.constraint import Constraint
from prudent.settings.schedules import OnPolicySchedule
from prudent.tasks.adapter import open_environment
from prudent.training.epoch_collector import collect, on_host, open_on_policy
from prudent.training.guards import NonFinite
from prudent.training.learner import make_spec
from prudent.training.on_policy import train
from prudent.training.session import close_session

CONFIG = {"hidden": (8,), "passes": 2, "batch_size": 16}
SCHEDULE = OnPolicySchedule(
    steps=120, epoch_steps=40, evaluate_every=40, evaluation_episodes=2, checkpoint_every=40,
    snapshot_every=80,
)  # fmt: skip


def small(task, algorithm="ppo-lag", seed=0, **schedule):
    chosen = Settings(ALGORITHMS[algorithm].config(**CONFIG), replace(SCHEDULE, **schedule))
    return make_run(algorithm, task, "default", seed, chosen)


def train_quietly(run, task, folder):
    return train(place(run, task, folder))


@pytest.fixture
def session_of():
    opened = []

    def open_one(run, task, folder):
        opened.append(open_on_policy(place(run, task, folder)))
        return opened[-1]

    yield open_one
    for session in opened:
        close_session(session)


def test_ends_and_masks_of_a_rollout(session_of, tmp_path):
    session = session_of(small(counting(), epoch_steps=24, environments=2), counting(), tmp_path)
    rollout = collect(session)
    assert session.step == 24
    assert rollout.observation.shape == (12, 2, 1)
    ends = np.zeros((12, 2))
    ends[[9, 11]] = 1.0  # the horizon, then the epoch's cut
    np.testing.assert_array_equal(rollout.ends, ends)
    goals = [0.0 if t % 3 == 0 else 1.0 for t in (*range(1, 11), 1, 2)]
    np.testing.assert_array_equal(rollout.reward_continues[:, 0], goals)
    np.testing.assert_array_equal(rollout.cost_continues, np.ones((12, 2)))
    np.testing.assert_array_equal(rollout.observation[1:10], rollout.next_observation[:9])
    # Where an episode ends, what it came to (10, high on the scale) and not the next one's start.
    assert (rollout.next_observation[9] > 1.0).all()
    assert (rollout.observation[10] < -1.0).all()
    # Two episodes of cost 5 each have finished, the budget is 1.
    assert float(rollout.violation) == 4.0
    assert float(rollout.remaining) == 1.0


def test_processes_of_their_own_change_nothing(session_of, tmp_path):
    run = small(DELAYED, environments=2)
    other = replace(run, schedule=replace(run.schedule, asynchronous=True))
    assert other.identity() != run.identity()
    found = [collect(session_of(r, DELAYED, tmp_path / r.identity())) for r in (run, other)]
    for here, there in zip(*found, strict=True):
        np.testing.assert_array_equal(here, there)


def test_time_limit_as_the_end_of_the_world(session_of, tmp_path):
    task = counting()
    rollout = collect(session_of(small(task, timeout_is_terminal=True), task, tmp_path))
    np.testing.assert_array_equal(
        np.flatnonzero(rollout.cost_continues[:, 0] == 0), [9, 19, 29, 39]
    )


def test_termination_ends_both_futures(session_of, tmp_path):
    rollout = collect(session_of(small(DELAYED), DELAYED, tmp_path))
    np.testing.assert_array_equal(rollout.reward_continues[:4, 0], [1, 0, 1, 0])
    np.testing.assert_array_equal(rollout.cost_continues[:4, 0], [1, 0, 1, 0])
    np.testing.assert_array_equal(rollout.ends[:4, 0], [0, 1, 0, 1])


def test_episode_cost_is_counted_as_the_budget_is(session_of, tmp_path):
    task = replace(counting(), constraint=Constraint(1.0, discounted=True))
    rollout = collect(session_of(small(task), task, tmp_path))
    assert float(rollout.violation) == pytest.approx(0.5 * (1 - 0.99**10) / 0.01 - 1.0)


@pytest.mark.parametrize(("window", "kept"), [(3, 3), (100, 8), (None, 4)])
def test_the_window_over_episodes(window, kept, session_of, tmp_path):
    session = session_of(small(counting(), cost_window=window), counting(), tmp_path)
    collect(session)
    recent = session.collector.recent_costs
    recent[:] = [9.0] * len(recent)
    rollout = collect(session)
    assert len(recent) == kept
    old = max(kept - 4, 0)
    assert float(rollout.violation) == pytest.approx((9.0 * old + 5.0 * (kept - old)) / kept - 1.0)


def test_nothing_is_known_before_an_episode_has_finished(tmp_path):
    task = counting()
    run = small(task, steps=8)  # shorter than an episode
    last = train_quietly(run, task, tmp_path)
    assert last["training"]["violation"] == 0.0
    assert last["training"]["multiplier"] == pytest.approx(0.001)


def test_rewards_and_costs_are_brought_to_scale_and_recorded_as_they_were(session_of, tmp_path):
    task = counting()
    run = small(task, normalise_reward=True, normalise_cost=True)
    rollout = collect(session_of(run, task, tmp_path))
    # Every reward is 1 and every cost 0.5: after the first, nothing is left of them.
    np.testing.assert_array_equal(rollout.reward[:, 0], [1.0] + [0.0] * 39)
    np.testing.assert_array_equal(rollout.cost[:, 0], [0.5] + [0.0] * 39)
    assert float(rollout.violation) == 4.0


def test_the_policy_on_the_host_is_the_policy():
    spec = make_spec(open_environment(ACTIVE), 1.0)
    algorithm = build("ppo", ALGORITHMS["ppo"].config(**CONFIG), spec)
    state = algorithm.init(jax.random.key(0))
    seen = np.linspace(-0.5, 0.5, 5, dtype=np.float32)[:, None]
    network = algorithm.network(state)
    found = on_host(network)(seen) + network.layers[-1]["bias"][None]
    np.testing.assert_allclose(found, algorithm.act_greedily(state, seen), rtol=1e-5)


def test_what_is_stored_is_the_action_whose_density_counts(session_of, tmp_path):
    """The environment clips; the learner sees the draw itself, at the policy that drew it."""
    run = small(DELAYED, steps=200, epoch_steps=200)
    session = session_of(run, DELAYED, tmp_path)
    params = session.state.learner.policy.params
    found = collect(session)
    assert np.abs(found.action).max() > 1.5
    policy = gaussian(session.collector.spec, CONFIG["hidden"], STYLES["tanh-uniform"])
    noise = np.random.default_rng(np.random.SeedSequence((0, 0xAC7, 0)))
    noise = noise.standard_normal((200, 1, 1), np.float32)[..., 0]
    np.testing.assert_allclose(
        policy.log_density(params, found.observation, found.action),
        -0.5 * noise**2 - 0.5 * np.log(2 * np.pi),  # the deviation is 1 at birth
        atol=1e-5,
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    result = prudent.train(
        "ppo-lag", env=Counting, budget=3.0, horizon=10, out=folder, quiet=True, hidden=(8,),
        passes=2, batch_size=16, steps=100, epoch_steps=40, evaluate_every=40,
        evaluation_episodes=2, checkpoint_every=40, snapshot_every=80,
    )  # fmt: skip
    return result.folder


def test_records_of_a_run_whose_last_epoch_is_shorter(finished):
    progress = [json.loads(line) for line in (finished / "progress.jsonl").read_text().splitlines()]
    assert [line["step"] for line in progress] == [0, 40, 80, 100]
    assert [line["updates"] for line in progress] == [0, 1, 2, 3]
    assert not progress[0]["training"]
    expected = {
        "reward_critic_error", "cost_critic_error", "divergence", "passes", "violation",
        "multiplier", "entropy",
    }  # fmt: skip
    assert set(progress[1]["training"]) == expected
    assert progress[-1]["evaluation"]["cost"] == 5.0
    episodes = [json.loads(line) for line in (finished / "episodes.jsonl").read_text().splitlines()]
    assert [e["step"] for e in episodes] == list(range(10, 101, 10))
    assert not (finished / "replay").exists()


def test_a_loaded_policy_sees_on_the_scale_of_training(finished):
    policy = prudent.load(finished)
    mean, deviation = (np.asarray(a) for a in policy.state.scaling)
    # Observations 0 to 10, equally often but for the first of each epoch.
    assert mean[0] == pytest.approx(5.0, abs=0.2)
    assert deviation[0] == pytest.approx(np.std(np.arange(11)), abs=0.2)
    at_clip = policy(np.array([[mean[0] + 5 * deviation[0]], [1e6]]))
    np.testing.assert_allclose(at_clip[0], at_clip[1], rtol=1e-6)
    np.testing.assert_array_equal(
        policy(np.zeros(1)), prudent.load(finished, step=100)(np.zeros(1))
    )


def test_interrupted_after_any_epoch_it_goes_on_the_same(finished, tmp_path):
    import shutil

    copy = shutil.copytree(finished, tmp_path / "copy")
    before = {f: lines(copy / f) for f in ("progress.jsonl", "episodes.jsonl")}
    for path in (copy / "checkpoints").glob("step-000000100*"):
        path.unlink()
    prudent.resume(copy, env=Counting, quiet=True)
    assert {f: lines(copy / f) for f in before} == before
    newest = "checkpoints/step-000000100.safetensors"
    assert (copy / newest).read_bytes() == (finished / newest).read_bytes()


def test_one_seed_gives_one_result_and_another_seed_another(tmp_path):
    run = small(ACTIVE)
    for name, again in (("a", run), ("b", run), ("c", replace(run, seed=1))):
        train_quietly(again, ACTIVE, tmp_path / name)
    first, second, other = (lines(tmp_path / n / "progress.jsonl") for n in "abc")
    assert first == second
    assert first != other


@pytest.mark.parametrize("quantity", ["observation", "reward", "cost"])
def test_a_number_that_is_not_finite_stops_the_run(quantity, session_of, tmp_path, monkeypatch):
    monkeypatch.setattr(Counting, "poison", {7: quantity})
    session = session_of(small(counting()), counting(), tmp_path)
    with pytest.raises(NonFinite, match=f"step 7: the environment's {quantity} is not finite"):
        collect(session)


class Souring(Counting):
    """Its 17th step brings something that is not finite."""

    def __init__(self, quantity):
        self.quantity, self.steps = quantity, 0

    def step(self, action):
        self.steps += 1
        self.poison = {self._time + 1: self.quantity} if self.steps == 17 else {}
        return super().step(action)


@pytest.mark.parametrize("quantity", ["observation", "reward", "cost"])
def test_episodes_before_a_number_that_is_not_finite_are_kept(quantity, session_of, tmp_path):
    task = replace(counting(), make=lambda: Souring(quantity))
    session = session_of(small(task), task, tmp_path)
    with pytest.raises(NonFinite, match=f"step 17: the environment's {quantity} is not finite"):
        collect(session)
    line = json.loads((tmp_path / "episodes.jsonl").read_text())
    assert (line["step"], line["length"], line["return"], line["cost"]) == (10, 10, 10.0, 5.0)


def test_very_large_numbers_are_finite(session_of, tmp_path):
    class Large(Counting):
        def step(self, action):
            observation, *rest = super().step(action)
            return 1e200 * observation, *rest

    task = replace(counting(), make=Large)
    session = session_of(small(task), task, tmp_path)
    with np.errstate(over="ignore", invalid="ignore"):
        rollout = collect(session)
    assert session.step == len(rollout.reward) == 40  # not stopped on the way


def test_schedules_that_cannot_work_are_refused(tmp_path):
    with pytest.raises(ValueError, match="no multiple of 3 environments"):
        train_quietly(small(counting(), environments=3), counting(), tmp_path)
    with pytest.raises(ValueError, match="ends before an episode of 10 does"):
        train_quietly(small(counting(), environments=8), counting(), tmp_path)
    with pytest.raises(ValueError, match="learns only from what its own policy does"):
        prudent.train(
            "ppo", env=Counting, budget=3.0, horizon=10, out=tmp_path / "w",
            warmup=lambda o: np.zeros(1),
        )  # fmt: skip


def rollout(violation, steps=32):
    keys = jax.random.split(jax.random.key(3), 2)
    column = jnp.ones((steps, 1))
    action = 0.3 * jax.random.normal(keys[0], (steps, 1, 1))
    seen = jax.random.normal(keys[1], (steps, 1, 1))
    # Reward for high actions, cost for high actions: what helps the one hurts the other.
    signal = action[..., 0]
    return Rollout(
        seen, action, signal, signal, 0 * column, 0 * column, column, seen,
        jnp.float32(violation), jnp.float32(1.0),
    )  # fmt: skip


def update(algorithm, violation, **values):
    """How far the mean action moves, and the metrics."""
    config, _ = settings(algorithm, "default", "test")
    config = replace(config, hidden=(8,), **values)
    learner = build(algorithm, config, make_spec(open_environment(ACTIVE), 1.0))
    state = learner.init(jax.random.key(0))
    seen = jnp.linspace(-1, 1, 9)[:, None]
    after, metrics = jax.jit(learner.update)(state, rollout(violation), jax.random.key(1))
    moved = learner.act_greedily(after, seen) - learner.act_greedily(state, seen)
    return float(jnp.mean(moved)), metrics


@pytest.mark.parametrize("base", ["trpo", "ppo"])
def test_crpo_follows_reward_up_to_its_tolerance_and_cost_beyond(base):
    earns, _ = update("crpo", 2.0, base=base)
    saves, _ = update("crpo", 2.01, base=base)
    assert earns > 0.0
    assert saves < 0.0


def test_trust_region_steps_keep_their_divergence():
    _, natural = update("rcpo", -1.0)
    assert float(natural["divergence"]) == pytest.approx(0.01, rel=0.3)
    assert float(natural["passes"]) == 10.0
    _, searched = update("crpo", -1.0)
    assert 0.0 < float(searched["divergence"]) <= 0.01


def test_passes_stop_when_the_policy_has_moved_too_far():
    _, metrics = update("ppo", 0.0, policy_learning_rate=3e-2)
    assert float(metrics["divergence"]) > 0.02
    assert float(metrics["passes"]) < 40
    _, metrics = update("ppo", 0.0, policy_learning_rate=1e-6)
    assert float(metrics["passes"]) == 40


def test_ipo_weighs_cost_by_its_barrier():
    _, far = update("ipo", -1.0)
    assert float(far["multiplier"]) == pytest.approx(0.01)
    _, broken = update("ipo", 1.0)
    assert float(broken["multiplier"]) == 1.0


def test_cups_projection_against_its_closed_form():
    """One state, no reward, the action is the cost. The slope of the divergence, (m - m_k) / σ²,
    meets that of the cost, ν (1 - γτ) / (1 - γ) / σ, where m = m_k - 5.95 ν σ.
    """
    config, _ = settings("cup", "default", "test")
    config = replace(
        config, hidden=(8,), passes=300, batch_size=4096, policy_learning_rate=1e-3,
        max_divergence=10.0, initial_multiplier=0.02, standardise_reward=False,
    )  # fmt: skip
    learner = build("cup", config, make_spec(open_environment(ACTIVE), 1.0))
    state = learner.init(jax.random.key(0))
    seen, column = jnp.zeros((4096, 1, 1)), jnp.ones((4096, 1))
    deviation = np.exp(-0.5)
    mean = learner.act_greedily(state, seen[:1])
    action = mean + deviation * jax.random.normal(jax.random.key(1), seen.shape)
    data = Rollout(
        seen, action, 0 * column, action[..., 0], 0 * column, 0 * column, column, seen,
        jnp.float32(0.0), jnp.float32(1.0),
    )  # fmt: skip
    after, metrics = jax.jit(learner.update)(state, data, jax.random.key(2))
    assert float(metrics["multiplier"]) == pytest.approx(0.02)
    moved = float((learner.act_greedily(after, seen[:1]) - mean)[0, 0, 0])
    assert moved == pytest.approx(-5.95 * 0.02 * deviation, rel=0.1)


def test_cup_moves_its_multiplier_by_plain_gradient_and_projects_towards_lower_cost():
    free, metrics = update("cup", -1.0, max_divergence=10.0)
    assert float(metrics["multiplier"]) == 0.0
    held, metrics = update("cup", 150.0, max_divergence=10.0)
    assert float(metrics["multiplier"]) == pytest.approx(1.5)
    assert held < free
    _, metrics = update("cup", 1e4)
    assert float(metrics["multiplier"]) == 2.0


def test_the_lagrangian_learners_step_their_multiplier_once_per_epoch():
    for name in ("pdo", "rcpo", "ppo-lag"):
        _, metrics = update(name, 5.0, passes=1)
        assert float(metrics["multiplier"]) == pytest.approx(0.036, rel=1e-4)
    _, metrics = update("ppo", 5.0, passes=1)
    assert float(metrics["multiplier"]) == 0.0


def test_the_controller_by_hand(float64):
    config = CPPOPIDConfig(
        proportional_gain=0.1, integral_gain=0.01, derivative_gain=2.0, smoothing=0.5,
        derivative_delay=2,
    )  # fmt: skip
    dual = controller(config)
    state, found = dual.init(), []
    for violation in (10.0, 20.0, -40.0, -100.0):
        state = dual.update(state, jnp.asarray(violation))
        found.append(float(dual.value(state)))
    # P: 5, 12.5, -13.75; I: 0.101, 0.301, 0; P rises by 5 and 12.5 from 0, then falls.
    np.testing.assert_allclose(found, [0.5 + 0.101 + 10.0, 1.25 + 0.301 + 25.0, 0.0, 0.0])


@pytest.mark.parametrize("algorithm", ON_POLICY)
def test_presets_are_those_of_the_table(algorithm):
    config, schedule = settings(algorithm, "paper", "hopper-velocity")
    assert schedule.steps == 5_000_000
    assert schedule.epoch_steps == (2048 if algorithm == "cup" else 20_000)
    assert config.passes == (10 if algorithm in ("ipo", "cup", "rcpo", "crpo") else 40)
    assert config.batch_size == (128 if algorithm in ("rcpo", "crpo") else 64)
    assert schedule.normalise_cost == schedule.normalise_reward == (algorithm in ("pdo", "ipo"))
    with pytest.raises(ValueError, match="no preset 'head' for task hopper-velocity"):
        settings(algorithm, "head", "hopper-velocity")
