"""Three epochs of every on-policy algorithm against a transcription of its equations in numpy.

A minibatch holds the whole epoch, so that the order of the rows does not matter.
"""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
from support import ON_POLICY, build, settings
from transcription import Adam, backward, forward

from prudent.pieces.types import Rollout, Spec
from prudent.settings.checks import fitting

SPEC = Spec(3, 2, 1.0, (1.0, 1.0), (0.0, 0.0))
TIME, PLACES = 7, 2
VIOLATIONS, REMAINING = (4.0, -0.05, 0.3), (1.0, 0.6, 0.2)


def random_rollout(generator: np.random.Generator, violation: float, remaining: float) -> Rollout:
    shape = TIME, PLACES
    ends = generator.integers(0, 2, shape).astype(float)
    ends[-1] = 1.0
    return Rollout(
        observation=generator.normal(size=(*shape, 3)),
        action=generator.normal(size=(*shape, 2)),
        reward=300.0 * generator.normal(size=shape),  # gradients of the critics longer than 40
        cost=200.0 * generator.uniform(size=shape),
        reward_continues=generator.integers(0, 2, shape).astype(float),
        cost_continues=generator.integers(0, 2, shape).astype(float),
        ends=ends,
        next_observation=generator.normal(size=(*shape, 3)),
        violation=np.asarray(violation),
        remaining=np.asarray(remaining),
    )


def to_vector(tree: Any) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def rebuilt(vector: np.ndarray, like: Any) -> Any:
    leaves, shape = jax.tree.flatten(like)
    bounds = np.cumsum([np.size(leaf) for leaf in leaves])[:-1]
    parts = np.split(vector, bounds)
    return shape.unflatten(
        [p.reshape(np.shape(leaf)) for p, leaf in zip(parts, leaves, strict=True)]
    )


class Descending:
    """Parameters moved by Adam, their gradient first cut to a length."""

    def __init__(self, params: Any) -> None:
        self.params = jax.tree.map(np.asarray, params)
        self.first = self.second = np.zeros_like(to_vector(params))
        self.count = 0

    def step(self, gradient: Any, rate: float, longest: float | None) -> None:
        vector = to_vector(gradient)
        length = np.sqrt(vector @ vector)
        if longest is not None and length > longest:
            vector = vector * longest / length
        self.count += 1
        adam = Adam(rate, None, None, self.count)
        here = to_vector(self.params)
        here, self.first, self.second = adam.step(here, vector, self.first, self.second)
        self.params = rebuilt(here, self.params)


def density(params: Any, seen: np.ndarray, action: np.ndarray) -> np.ndarray:
    mean, sigma = forward(params["mean"], seen, "tanh")[0], np.exp(params["log_std"])
    normal = np.exp(-(((action - mean) / sigma) ** 2) / 2) / (sigma * np.sqrt(2 * np.pi))
    return np.log(normal).sum(1)


def density_slope(params: Any, seen: np.ndarray, action: np.ndarray, weights: np.ndarray) -> Any:
    """Gradient of the sum over rows of weight times log density."""
    mean, tape = forward(params["mean"], seen, "tanh")
    variance = np.exp(2 * params["log_std"])
    at_mean = weights[:, None] * (action - mean) / variance
    at_spread = weights[:, None] * ((action - mean) ** 2 / variance - 1)
    gradients, _ = backward(params["mean"], tape, at_mean, "tanh")
    return {"mean": gradients, "log_std": at_spread.sum(0)}


def divergence(first: Any, second: Any, seen: np.ndarray) -> np.ndarray:
    """KL(first || second), [B]."""
    a, b = (forward(p["mean"], seen, "tanh")[0] for p in (first, second))
    s, t = np.exp(first["log_std"]), np.exp(second["log_std"])
    return (np.log(t / s) + (s**2 + (a - b) ** 2) / (2 * t**2) - 0.5).sum(1)


def advantages(signal, values, next_values, continues, ends, decay) -> np.ndarray:
    found, (discount, trace) = np.zeros_like(signal), decay
    for place in range(PLACES):
        later = 0.0
        for t in reversed(range(TIME)):
            look = discount * continues[t, place]
            surprise = signal[t, place] + look * next_values[t, place] - values[t, place]
            reach = 0.0 if ends[t, place] else trace * look
            later = surprise + reach * later
            found[t, place] = later
    return found


class Transcribed:
    """The state of one algorithm, and its epoch."""

    def __init__(self, algorithm: str, config: Any, state: Any) -> None:
        self.algorithm, self.config = algorithm, config
        self.policy = Descending(state.policy.params)
        self.rewards = Descending(state.rewards.params)
        self.costs = Descending(state.costs.params)
        self.multiplier = np.asarray(getattr(config, "initial_multiplier", 0.0))
        self.dual_first = self.dual_second = 0.0
        self.epochs = 0
        self.seen_costs: list[float] = []

    def move_multiplier(self, violation: float) -> None:
        c = self.config
        if self.algorithm in ("pdo", "rcpo", "ppo-lag", "cup"):
            raised = self.multiplier + c.multiplier_learning_rate * violation
            if c.multiplier == "projected_adam":
                adam = Adam(c.multiplier_learning_rate, None, None, self.epochs)
                raised, self.dual_first, self.dual_second = adam.step(
                    self.multiplier, -violation, self.dual_first, self.dual_second
                )
            upper = np.inf if c.largest_multiplier is None else c.largest_multiplier
            self.multiplier = min(max(raised, 0.0), upper)
        elif self.algorithm == "ipo":
            slope = c.barrier_strength / (-violation + 1e-8)
            self.multiplier = slope if 0.0 <= slope <= c.barrier_cap else c.barrier_cap
        elif self.algorithm == "cppo-pid":
            self.seen_costs.append(violation)
            smoothed, integral = [0.0], 0.001
            for e in self.seen_costs:
                smoothed.append(c.smoothing * smoothed[-1] + (1 - c.smoothing) * e)
                integral = max(0.0, integral + c.integral_gain * e)
            before = smoothed[max(0, len(smoothed) - 1 - c.derivative_delay)]
            rise = max(0.0, smoothed[-1] - before)
            output = c.proportional_gain * smoothed[-1] + integral + c.derivative_gain * rise
            self.multiplier = max(0.0, output)
        else:
            self.multiplier = np.asarray(0.0)

    def epoch(self, rollout: Rollout) -> None:
        self.epochs += 1
        self.metrics: dict[str, Any] = {}
        self.move_multiplier(float(rollout.violation))
        self.improve(rollout)
        spread = self.policy.params["log_std"] + 0.5 * np.log(2 * np.pi * np.e)
        self.metrics |= {
            "violation": rollout.violation,
            "multiplier": self.multiplier,
            "entropy": spread.sum(),
        }

    def improve(self, rollout: Rollout) -> None:
        c, decay = self.config, float(rollout.remaining)
        policy_rate = getattr(c, "policy_learning_rate", 0.0)
        self.policy_rate = policy_rate * (decay if c.rate_decay != "none" else 1.0)
        self.critic_rate = c.critic_learning_rate * (decay if c.rate_decay == "all" else 1.0)

        flat = lambda a: a.reshape(TIME * PLACES, *a.shape[2:])  # noqa: E731
        self.seen, self.action = flat(rollout.observation), flat(rollout.action)
        now, then = rollout.observation, rollout.next_observation
        found = []
        of_reward, of_cost = (c.discount, c.trace_decay), (c.cost_discount, c.cost_trace_decay)
        for critic, signal, continues, reach in (
            (self.rewards, rollout.reward, rollout.reward_continues, of_reward),
            (self.costs, rollout.cost, rollout.cost_continues, of_cost),
        ):
            v, v_then = (forward(critic.params, x, "tanh")[0][..., 0] for x in (now, then))
            a = advantages(signal, v, v_then, continues, rollout.ends, reach)
            found.append((flat(a), flat(a + v)))
        (reward, self.reward_target), (cost, self.cost_target) = found
        reward, cost = reward - reward.mean(), cost - cost.mean()
        if c.standardise_reward:
            reward = reward / (reward.std() + 1e-8)
        if getattr(c, "standardise_cost", False):
            cost = cost / (cost.std() + 1e-6)

        self.collector = self.policy.params
        self.old_density = density(self.collector, self.seen, self.action)
        m = self.multiplier
        if self.algorithm in ("ppo", "cup"):
            combined = reward
        elif self.algorithm == "crpo":
            combined = reward if rollout.violation <= c.tolerance else -cost
        else:
            combined = (reward - m * cost) / (1 + m)

        if self.algorithm == "rcpo" or (self.algorithm == "crpo" and c.base == "trpo"):
            self.natural_step(combined)
            for _ in range(c.passes):
                self.fit_critics()
            moved = divergence(self.collector, self.policy.params, self.seen).mean() / 2
            self.metrics |= {"passes": c.passes, "divergence": moved}
            return
        for count in range(c.passes):
            self.fit_critics()
            self.ratio_step(combined, clip=None if self.algorithm == "pdo" else c.clip)
            self.metrics |= {"passes": count + 1, "divergence": self.moved(c.divergence)}
            if self.moved(c.divergence) > c.max_divergence:
                break
        if self.algorithm == "cup":
            self.project(cost)

    def moved(self, direction: str) -> float:
        new, old = self.policy.params, self.collector
        pair = (new, old) if direction == "from_new" else (old, new)
        return divergence(*pair, self.seen).mean()

    def fit_critics(self) -> None:
        c = self.config
        for name, critic, target in (
            ("reward", self.rewards, self.reward_target),
            ("cost", self.costs, self.cost_target),
        ):
            value, tape = forward(critic.params, self.seen, "tanh")
            self.metrics[f"{name}_critic_error"] = np.mean((value[:, 0] - target) ** 2)
            slope = 2 * (value[:, 0] - target)[:, None] / len(target)
            gradient, _ = backward(critic.params, tape, slope, "tanh")
            decay = 2 * c.critic_weight_decay
            gradient = jax.tree.map(lambda g, p, k=decay: g + k * p, gradient, critic.params)
            critic.step(gradient, self.critic_rate, c.max_critic_gradient_norm)

    def ratio(self) -> np.ndarray:
        return np.exp(density(self.policy.params, self.seen, self.action) - self.old_density)

    def ratio_step(self, advantage: np.ndarray, clip: float | None) -> None:
        ratio = self.ratio()
        counts = np.ones(len(ratio))
        if clip is not None:
            counts[(advantage > 0) & (ratio > 1 + clip)] = 0.0
            counts[(advantage < 0) & (ratio < 1 - clip)] = 0.0
        weights = -counts * ratio * advantage / len(ratio)
        gradient = density_slope(self.policy.params, self.seen, self.action, weights)
        self.policy.step(gradient, self.policy_rate, self.config.max_gradient_norm)

    def project(self, cost: np.ndarray) -> None:
        halfway = self.policy.params
        goal = forward(halfway["mean"], self.seen, "tanh")[0]
        gamma, trace = self.config.cost_discount, self.config.cost_trace_decay
        price = self.multiplier * (1 - gamma * trace) / (1 - gamma)
        for count in range(self.config.passes):
            params, rows = self.policy.params, len(self.seen)
            weights = price * self.ratio() * cost / rows
            towards = density_slope(params, self.seen, self.action, weights)
            mean, tape = forward(params["mean"], self.seen, "tanh")
            variance, there = np.exp(2 * params["log_std"]), np.exp(2 * halfway["log_std"])
            back, _ = backward(params["mean"], tape, (mean - goal) / there / rows, "tanh")
            away = {"mean": back, "log_std": variance / there - 1}
            gradient = jax.tree.map(np.add, towards, away)
            self.policy.step(gradient, self.policy_rate, self.config.max_gradient_norm)
            moved = self.moved("from_new")
            self.metrics |= {"projection_passes": count + 1, "projection_divergence": moved}
            if moved > self.config.max_divergence:
                break

    def natural_step(self, advantage: np.ndarray) -> None:
        rows, size = self.action.shape
        old = self.collector
        gradient = to_vector(density_slope(old, self.seen, self.action, advantage / rows))
        matrix = self.config.damping * np.eye(len(gradient))
        nothing = jax.tree.map(np.zeros_like, old)
        for row in range(rows):
            for i in range(size):
                _, tape = forward(old["mean"], self.seen[row : row + 1], "tanh")
                one = backward(old["mean"], tape, np.eye(size)[i : i + 1], "tanh")[0]
                slope = to_vector({**nothing, "mean": one})
                matrix += np.outer(slope, slope) / np.exp(2 * old["log_std"][i]) / rows / size
        spread = to_vector({**nothing, "log_std": np.ones(size)})
        matrix += np.diag(2 * spread) / size

        x, residual = np.zeros_like(gradient), gradient.copy()
        direction, square = residual, residual @ residual
        for _ in range(15):
            if np.sqrt(square) < 1e-10:
                break
            alpha = square / (direction @ matrix @ direction + 1e-6)
            x = x + alpha * direction
            residual = residual - alpha * matrix @ direction
            before, square = square, residual @ residual
            direction = residual + square / (before + 1e-6) * direction
        delta = self.config.max_divergence
        step = x * np.sqrt(2 * delta / (x @ matrix @ x + 1e-8))

        here = to_vector(old)
        if self.algorithm == "rcpo":
            self.policy.params = rebuilt(here + step, old)
            return
        for trial in range(15):
            self.policy.params = rebuilt(here + 0.8**trial * step, old)
            far = divergence(old, self.policy.params, self.seen).mean() / size
            if far <= delta and (self.ratio() * advantage).mean() >= advantage.mean():
                return
        self.policy.params = old


# No two alike, so that one in the place of another is noticed.
UNEQUAL = {
    "hidden": (5,), "passes": 3, "batch_size": 20, "discount": 0.97, "cost_discount": 0.9,
    "trace_decay": 0.95, "cost_trace_decay": 0.8, "policy_learning_rate": 2e-2,
    "critic_learning_rate": 1e-3, "critic_weight_decay": 2e-3, "max_gradient_norm": 0.7,
    "max_critic_gradient_norm": 30.0, "clip": 0.15, "damping": 0.2, "initial_log_std": -0.3,
    "multiplier_learning_rate": 0.04, "initial_multiplier": 0.02, "derivative_delay": 2,
    "proportional_gain": 0.3, "integral_gain": 0.05, "derivative_gain": 0.2, "smoothing": 0.6,
    "barrier_strength": 0.02, "barrier_cap": 0.9, "largest_multiplier": 1.5,
}  # fmt: skip
CASES = [(name, {}) for name in ON_POLICY]
CASES += [("crpo", {"base": "ppo"}), ("crpo", {"tolerance": 5.0})]
CASES += [("ppo", {"max_divergence": 1e-4}), ("cup", {"max_divergence": 1e-4})]
# Each option's every choice.
CASES += [
    ("ppo-lag", {"rate_decay": "none", "standardise_reward": False, "standardise_cost": True}),
    ("ppo-lag", {"rate_decay": "all", "multiplier": "projected_sgd", "largest_multiplier": 0.1}),
    ("ppo-lag", {"divergence": "from_new", "max_divergence": 1e-4, "largest_multiplier": None}),
    ("cup", {"divergence": "from_old", "multiplier": "projected_adam", "rate_decay": "policy"}),
    ("pdo", {"max_critic_gradient_norm": None, "initial_weights": "tanh-uniform-small"}),
]


@pytest.mark.parametrize(("algorithm", "values"), CASES)
def test_three_epochs_against_the_equations(algorithm, values, float64):
    config, _ = settings(algorithm, "default", "test")
    wide = {"max_divergence": 1.0} if config.max_divergence == 0.02 else {}
    config = replace(config, **fitting(UNEQUAL, config) | wide | values)
    learner = build(algorithm, config, SPEC)
    state = jax.jit(learner.init)(jax.random.key(0))
    assert np.all(np.asarray(state.policy.params["log_std"]) == config.initial_log_std)
    ours = Transcribed(algorithm, config, state)
    generator = np.random.default_rng(1)
    update = jax.jit(learner.update)
    for epoch, (violation, remaining) in enumerate(zip(VIOLATIONS, REMAINING, strict=True)):
        rollout = random_rollout(generator, violation, remaining)
        state, metrics = update(state, rollout, jax.random.key(epoch))
        ours.epoch(rollout)
        assert float(metrics["multiplier"]) == pytest.approx(float(ours.multiplier), abs=1e-12)
        for part in ("policy", "rewards", "costs"):
            found, expected = getattr(state, part).params, getattr(ours, part).params
            assert np.abs(to_vector(expected) - to_vector(found)).max() < 1e-9, (epoch, part)
        assert set(metrics) == set(ours.metrics)
        for name, value in metrics.items():
            assert float(value) == pytest.approx(float(ours.metrics[name]), rel=1e-9, abs=1e-9), (
                name
            )
