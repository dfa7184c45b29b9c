"""Updates against a transcription in NumPy, written from the equations, which shares no code with
them; and a problem whose answer is known.
"""

from dataclasses import replace

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.spaces import Box
from prudent_td3.td3_lag import TD3LagConfig, td3_lag

import prudent
from prudent.pieces.types import Batch, Spec

SPEC = Spec(
    observation_size=3,
    action_size=2,
    cost_budget=0.3,
    action_scale=(0.5, 2.0),
    action_centre=(0.0, 1.0),
)
CONFIG = TD3LagConfig(
    hidden=(6, 5),
    discount=0.97,
    cost_discount=0.9,
    target_rate=0.1,
    policy_learning_rate=2e-3,
    target_noise=0.4,
    multiplier_learning_rate=0.05,
)
ROWS = 7


# Networks of dense layers with ReLUs between them: forward, backward, and Adam.


def forward(layers, x):
    tape = []
    for place, layer in enumerate(layers):
        z = x @ layer["weight"] + layer["bias"]
        tape.append((x, z))
        x = z if place == len(layers) - 1 else np.maximum(z, 0.0)
    return x, tape


def backward(layers, tape, slope):
    """Gradients of the layers, and of the input."""
    gradients = []
    for place in reversed(range(len(layers))):
        x, z = tape[place]
        slope = slope if place == len(layers) - 1 else slope * (z > 0)
        gradients.insert(0, {"weight": x.T @ slope, "bias": slope.sum(0)})
        slope = slope @ layers[place]["weight"].T
    return gradients, slope


def adam(trained, gradients, rate):
    """`trained` is parameters, first and second moments, and how many steps there were."""
    layers, first, second, count = trained
    count, new = count + 1, ([], [], [])
    for layer, gradient, m, v in zip(layers, gradients, first, second, strict=True):
        m = {n: 0.9 * m[n] + 0.1 * gradient[n] for n in m}
        v = {n: 0.999 * v[n] + 0.001 * gradient[n] ** 2 for n in v}
        step = {n: m[n] / (1 - 0.9**count) / (np.sqrt(v[n] / (1 - 0.999**count)) + 1e-8) for n in m}
        for part, value in zip(new, ({n: layer[n] - rate * step[n] for n in m}, m, v), strict=True):
            part.append(value)
    return (*new, count)


def towards(slow, online, rate):
    return [{n: s[n] + rate * (o[n] - s[n]) for n in s} for s, o in zip(slow, online, strict=True)]


# The algorithm.


def transcribed(state, batch, noise, config):
    """One update of a plain dictionary."""
    scale, centre = np.array(SPEC.action_scale), np.array(SPEC.action_centre)
    together = lambda observation, unit: np.concatenate(  # noqa: E731
        [observation, scale * unit + centre], axis=1
    )
    new = {**state, "updates": state["updates"] + 1}

    bounded = np.clip(config.target_noise * noise, -0.5, 0.5)
    ahead = np.tanh(forward(state["old_policy"], batch.next_observation)[0]) + bounded
    following = together(batch.next_observation, np.clip(ahead, -1, 1))
    future = {
        name: [forward(slow, following)[0][:, 0] for slow in state[f"slow_{name}"]]
        for name in ("rewards", "costs")
    }
    targets = {
        "rewards": batch.reward
        + config.discount * batch.reward_continues * np.minimum(*future["rewards"]),
        "costs": batch.cost + config.cost_discount * batch.cost_continues * future["costs"][0],
    }
    taken, metrics = together(batch.observation, batch.action), {}
    for name, target in targets.items():
        new[name], squares = [], []
        for critic in state[name]:
            value, tape = forward(critic[0], taken)
            error = value[:, 0] - target
            squares.append(np.mean(error**2))
            gradients, _ = backward(critic[0], tape, (2 * error / ROWS)[:, None])
            new[name].append(adam(critic, gradients, config.learning_rate))
        metrics[f"{name[:-1]}_critic_error"] = np.mean(squares)

    raw, policy_tape = forward(state["policy"][0], batch.observation)
    chosen = together(batch.observation, np.tanh(raw))
    (reward, reward_tape), (cost, cost_tape) = (
        forward(new[name][0][0], chosen) for name in ("rewards", "costs")
    )
    violation = cost.mean() - SPEC.cost_budget
    if new["updates"] % config.policy_delay == 0:
        price = state["multiplier"]
        ones = np.full_like(reward, 1 / ROWS / (1 + price))
        at_input = backward(new["rewards"][0][0], reward_tape, -ones)[1]
        at_input += backward(new["costs"][0][0], cost_tape, price * ones)[1]
        at_raw = at_input[:, 3:] * scale * (1 - np.tanh(raw) ** 2)
        gradients, _ = backward(state["policy"][0], policy_tape, at_raw)
        new["policy"] = adam(state["policy"], gradients, config.policy_learning_rate)
        rate = config.target_rate
        new["old_policy"] = towards(state["old_policy"], new["policy"][0], rate)
        for name in ("rewards", "costs"):
            pairs = zip(state[f"slow_{name}"], new[name], strict=True)
            new[f"slow_{name}"] = [towards(slow, online[0], rate) for slow, online in pairs]
        new["multiplier"] = max(0.0, price + config.multiplier_learning_rate * violation)
    new["metrics"] = {
        **metrics,
        "cost_estimate": cost.mean(),
        "violation": violation,
        "multiplier": new["multiplier"],
    }
    return new


def plain(state):
    """The algorithm's state as the transcription has it."""
    array = lambda tree: jax.tree.map(np.asarray, tree)  # noqa: E731

    def trained(found, pick=lambda leaf: leaf):
        moments = found.optimiser[0]
        parts = (found.params, moments.mu, moments.nu)
        return (*(jax.tree.map(pick, array(part)) for part in parts), int(moments.count))

    def member(place):
        return lambda leaf: leaf[place]

    found = {
        "policy": trained(state.policy),
        "old_policy": array(state.old_policy),
        "multiplier": float(state.multiplier.parameter),
        "updates": int(state.updates),
    }
    for name, size in (("rewards", 2), ("costs", 1)):
        critic = getattr(state, name)
        found[name] = [trained(critic.online, member(i)) for i in range(size)]
        found[f"slow_{name}"] = [jax.tree.map(member(i), array(critic.target)) for i in range(size)]
    return found


def some_batches(count):
    draw = np.random.default_rng(3)
    flags = lambda: draw.integers(0, 2, (count, ROWS)).astype(float)  # noqa: E731
    return Batch(
        observation=draw.normal(size=(count, ROWS, 3)),
        action=np.tanh(draw.normal(size=(count, ROWS, 2))),
        reward=draw.normal(size=(count, ROWS)),
        cost=np.abs(draw.normal(size=(count, ROWS))),
        reward_continues=flags(),
        cost_continues=flags(),
        next_observation=draw.normal(size=(count, ROWS, 3)),
    )


@pytest.mark.parametrize("delay", [1, 2, 3])
def test_updates_equal_the_transcription(delay):
    config = replace(CONFIG, policy_delay=delay)
    with jax.enable_x64(True):
        algorithm = td3_lag(config, SPEC)
        state, batches = jax.jit(algorithm.init)(jax.random.key(0)), some_batches(6)
        key = jax.random.key(5)
        noises = [jax.random.normal(k, (ROWS, 2)) for k in jax.random.split(key, 6)]
        after, metrics = jax.jit(algorithm.update)(state, batches, key)
        expected, of_updates = plain(state), []
        for place, noise in enumerate(noises):
            batch = jax.tree.map(lambda leaf, place=place: leaf[place], batches)
            expected = transcribed(expected, batch, np.asarray(noise), config)
            of_updates.append(expected.pop("metrics"))
        assert expected["policy"][-1] == 6 // delay  # the policy's own updates
        assert expected["multiplier"] != config.initial_multiplier
        jax.tree.map(
            lambda ours, theirs: np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9),
            plain(after),
            expected,
        )
        assert metrics.keys() == of_updates[0].keys()
        for name, value in metrics.items():
            np.testing.assert_allclose(value, np.mean([m[name] for m in of_updates]), atol=1e-9)


def test_exploration_is_of_the_size_that_is_set_and_stays_in_bounds():
    quiet, loud = (td3_lag(replace(CONFIG, exploration=e), SPEC) for e in (0.05, 5.0))

    @jax.jit
    def actions(key):
        state, observation = quiet.init(key), np.zeros((4000, 3), np.float32)
        greedy = quiet.act_greedily(state, observation)
        return greedy, quiet.act(state, observation, key), loud.act(state, observation, key)

    greedy, noisy, noisier = map(np.asarray, actions(jax.random.key(0)))
    assert np.std(noisy - greedy) == pytest.approx(0.05, rel=0.05)
    assert np.abs(noisier).max() == 1.0


class OneStep(gymnasium.Env):
    """One action a in [-1, 1], then the end. Reward -(a - 1/2)²; cost 1 + a.

    With a budget of 3/4 the best action is -1/4, where cost has the price 2 (1/2 + 1/4).
    """

    observation_space = Box(-1.0, 1.0, (1,), np.float64)
    action_space = Box(-1.0, 1.0, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action):
        a = float(action[0])
        return np.zeros(1), -((a - 0.5) ** 2), True, False, {"cost": 1.0 + a}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "action", "price"), [(0.75, -0.25, 1.5), (5.0, 0.5, 0.0)], ids=["active", "slack"]
)
def test_the_answer_of_one_step_is_found(budget, action, price, tmp_path):
    prices = []
    result = prudent.train(
        "td3-lag",
        env=OneStep,
        budget=budget,
        horizon=1,
        discounted=True,
        out=tmp_path / "run",
        quiet=True,
        callbacks=[lambda line: prices.append(line.get("training", {}).get("multiplier"))],
        hidden=(32, 32),
        learning_rate=1e-3,
        multiplier_learning_rate=5e-3,
        steps=2000,
        warmup_steps=200,
        updates_per_step=4,
        batch_size=32,
        replay_capacity=500,
        evaluate_every=500,
        checkpoint_every=2000,
    )
    policy = prudent.load(result.folder)
    assert policy(np.zeros(1))[0] == pytest.approx(action, abs=0.1)
    assert prices[-1] == pytest.approx(price, abs=0.2)
