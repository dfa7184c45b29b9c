"""WCSAC: one gradient step against a numpy transcription, its risk measure and its variance."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from steps import (
    SPEC,
    assert_same_metrics,
    assert_same_state,
    batch_of,
    moments,
    network_state,
    one_limit,
    several_steps,
)
from transcription import (
    backward,
    fit,
    forward,
    slope_at_action,
    squash,
    squash_backward,
    step_layers,
    step_scalar,
    track,
    values,
)

from prudent.algorithms.cal import CALConfig, cal
from prudent.algorithms.wcsac import WCSACConfig, wcsac
from prudent.pieces.critics import NextReturn, tail_weight, variance_target


def plain(state):
    return {
        **network_state(state, {"rewards": 2, "costs": 1, "variances": 1}),
        **moments("temperature", state.temperature, float),
        **moments("multiplier", one_limit(state.dual.multiplier), float),
    }


def softplus(x):
    return np.logaddexp(0, x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def transcribed_step(state, batch, noise, config):
    """Critics, then actor, temperature, multiplier, targets."""
    new = {"count": state["count"] + 1}
    scale, centre, rows = np.array(SPEC.action_scale), np.array(SPEC.action_centre), len(noise[0])
    rate, gamma = config.learning_rate, config.cost_discount
    temperature, multiplier = softplus(state["temperature"]), softplus(state["multiplier"])
    kappa = {0.1: 1.7549833193248687, 0.5: 0.7978845608028654, 1.0: 0.0}[config.risk_level]

    output, _ = forward(state["policy"], batch["next_observation"], "relu")
    action, log_density, _ = squash(output, noise[0], scale)
    then = np.concatenate([batch["next_observation"], scale * action + centre], axis=1)
    now = np.concatenate([batch["observation"], scale * batch["action"] + centre], axis=1)
    y_reward = values(state["reward_targets"], then).min(0) - temperature * log_density
    y_reward = batch["reward"] + config.discount * batch["reward_continues"] * y_reward
    mask = batch["cost_continues"] if config.cost_mask == "task" else 1.0
    next_cost = values(state["cost_targets"], then)[0]
    next_variance = np.clip(softplus(values(state["variance_targets"], then)[0]), 1e-8, 1e8)
    q = batch["cost"]
    y_cost = q + gamma * mask * next_cost
    y_variance = q**2 + mask * (2 * gamma * q * next_cost)
    y_variance += mask * gamma**2 * (next_variance + next_cost**2)
    y_variance = y_variance - values(state["costs"], now)[0] ** 2
    below = np.mean(y_variance < 1e-8)
    y_variance = np.clip(y_variance, 1e-8, 1e8)
    fit(state, new, "rewards", now, [y_reward] * 2, rate=rate, weight=0.5)
    fit(state, new, "costs", now, [y_cost], rate=rate, weight=0.5)
    raw, tape = forward(state["variances"][0], now, "relu")
    variance = softplus(raw[:, 0])
    slope = 0.5 * (1 - np.sqrt(y_variance / variance)) * sigmoid(raw[:, 0]) / rows
    gradients, _ = backward(state["variances"][0], tape, slope[:, None], "relu")
    step_layers(state, new, "variances", 0, gradients, rate)

    def at_risk(inputs):
        return values(new["costs"], inputs)[0] + kappa * np.sqrt(
            softplus(values(new["variances"], inputs)[0])
        )

    output, tape = forward(state["policy"], batch["observation"], "relu")
    action, log_density, kept = squash(output, noise[1], scale)
    chosen = np.concatenate([batch["observation"], scale * action + centre], axis=1)
    damp = config.damping * np.mean(SPEC.cost_budget - at_risk(now))
    weight = multiplier - (min(damp, multiplier) if config.clip_damping else damp)
    runs = [forward(layers, chosen, "relu") for layers in new["rewards"]]
    lowest = np.argmin([run[0][:, 0] for run in runs], axis=0)
    towards_reward = [-1.0 * (lowest == j) / rows for j in range(2)]
    at_action = slope_at_action(new["rewards"], runs, towards_reward, 2)
    run = forward(new["costs"][0], chosen, "relu")
    at_action += slope_at_action(new["costs"], [run], np.full((1, rows), weight / rows), 2)
    run = forward(new["variances"][0], chosen, "relu")
    raw = run[0][:, 0]
    slope = weight * kappa * sigmoid(raw) / (2 * np.sqrt(softplus(raw))) / rows
    at_action += slope_at_action(new["variances"], [run], [slope], 2)
    at_output = squash_backward(kept, at_action * scale, np.full(rows, temperature / rows))
    gradients, _ = backward(state["policy"], tape, at_output, "relu")
    step_layers(state, new, "policy", None, gradients, rate)

    floor = -2.0 if config.target_entropy is None else config.target_entropy
    towards_entropy = sigmoid(state["temperature"]) * (-log_density.mean() - floor)
    step_scalar(state, new, "temperature", towards_entropy, rate)
    towards_cost = sigmoid(state["multiplier"]) * np.mean(SPEC.cost_budget - at_risk(now))
    step_scalar(state, new, "multiplier", towards_cost, config.multiplier_learning_rate)
    for name in ("reward", "cost", "variance"):
        track(state, new, f"{name}s", f"{name}_targets", config.target_rate)
    violation = np.mean(at_risk(now)) - SPEC.cost_budget
    new["metrics"] |= {
        "violation": violation,
        "cost_estimate": violation + SPEC.cost_budget,
        "multiplier": softplus(new["multiplier"]),
        "temperature": softplus(new["temperature"]),
        "entropy": -log_density.mean(),
        "spread_error": np.mean((np.sqrt(variance) - np.sqrt(y_variance)) ** 2),
        "variance_target": y_variance.mean(),
        "variance_clipped": below,
        "cost_weight": weight,
    }
    return new


CASES = {
    "as the paper's runs": WCSACConfig(),
    "without a mask": WCSACConfig(cost_mask="never"),
    "risk neutral, damping clipped": WCSACConfig(risk_level=1.0, damping=1e3, clip_damping=True),
    "another risk and entropy": WCSACConfig(risk_level=0.5, target_entropy=1.5, damping=3.0),
}
UNEQUAL = {"discount": 0.97, "cost_discount": 0.9, "target_rate": 0.02}


@pytest.mark.parametrize("name", CASES)
def test_two_steps_equal_the_transcription(name, float64):
    config = replace(CASES[name], **UNEQUAL)
    steps = several_steps(wcsac, config)
    expected, metrics = plain(steps.before), []
    for batch, keys in zip(steps.batches, steps.keys(2), strict=True):
        expected = transcribed_step(expected, batch, [steps.noise(key) for key in keys], config)
        metrics.append(expected["metrics"])
    assert_same_state(plain(steps.after), expected)
    assert_same_metrics(steps.metrics, metrics)


@pytest.mark.parametrize(("level", "known"), [(0.1, 1.75498), (0.5, 0.79788), (0.9, 0.19500)])
def test_the_tail_weight_is_the_mean_of_the_worst_outcomes(level, known):
    outcomes = np.sort(np.random.default_rng(0).normal(size=1_000_000))
    worst = outcomes[-int(level * len(outcomes)) :].mean()
    assert tail_weight(level) == pytest.approx(known, abs=1e-5)
    assert tail_weight(level) == pytest.approx(worst, abs=0.01)


def test_of_all_outcomes_the_mean_is_the_mean():
    assert tail_weight(1.0) == 0.0
    with pytest.raises(ValueError, match="risk_level"):
        tail_weight(0.0)


def test_the_variance_backup_finds_the_variance_of_a_two_state_chain():
    """Cost 1 per step; after each step the chain goes on with probability p, else it is over.

    With N steps, N geometric, the return is (1 - γ^N) / (1 - γ), whose moments are known.
    """
    p, gamma = 0.7, 0.9
    power = lambda g: (1 - p) * g / (1 - p * g)  # noqa: E731  E[g^N]
    mean = (1 - power(gamma)) / (1 - gamma)
    known = (power(gamma**2) - power(gamma) ** 2) / (1 - gamma) ** 2

    estimate, variance = np.zeros(()), np.zeros(())
    for _ in range(400):
        estimate = 1 + gamma * p * estimate
        both = NextReturn(np.full(2, estimate), np.full(2, variance), np.array([1.0, 0.0]))
        targets = variance_target(np.ones(2), gamma, both, np.full(2, estimate))
        variance = p * targets[0] + (1 - p) * targets[1]
    assert estimate == pytest.approx(mean)
    assert variance == pytest.approx(known)


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("budget", [-1.0, 3.0])
def test_without_spread_and_with_the_clamp_it_is_cal(clip, budget, float64):
    """Item by item: no spread (κ = 0), damping as convexity, the same networks, optimisers and
    start. What is left apart are the variance, which nothing reads, and the temperature's later
    course. Without the clamp, the same holds only while the constraint is broken.
    """
    spec = SPEC._replace(cost_budget=budget)
    ours = WCSACConfig(hidden=(8, 6), risk_level=1.0, clip_damping=clip)
    theirs = CALConfig(
        hidden=(8, 6), learning_rate=ours.learning_rate, cost_learning_rate=ours.learning_rate,
        cost_critics=1, cost_network="relu-xavier", conservatism=0.0, convexity=ours.damping,
        multiplier="softplus_adam", initial_multiplier=np.log(2.0), target_period=1,
        multiplier_learning_rate=ours.multiplier_learning_rate, initial_temperature=np.log(2.0),
    )  # fmt: skip
    batch = jax.tree.map(lambda a: a[None], batch_of(np.random.default_rng(3)))
    start = jax.jit(cal(theirs, spec).init)(jax.random.key(0))
    same = {name: getattr(start, name) for name in ("policy", "rewards", "costs")}
    worst_case = jax.jit(wcsac(ours, spec).init)(jax.random.key(1))._replace(**same)
    key = jax.random.key(2)
    after, metrics = jax.jit(cal(theirs, spec).update)(start, batch, key)
    found, found_metrics = jax.jit(wcsac(ours, spec).update)(worst_case, batch, key)

    def apart(part):
        pairs = zip(*(jax.tree.leaves(part(state)) for state in (after, found)), strict=True)
        return max(float(np.max(np.abs(a - b))) for a, b in pairs)

    # Critics halve their losses, which Adam feels through its epsilon of 1e-8 only.
    assert apart(lambda state: (state.rewards.online.params, state.costs.online.params)) < 1e-6
    assert apart(lambda state: (state.rewards.target, state.costs.target)) < 1e-6
    assert apart(lambda state: state.dual.multiplier.parameter) < 1e-6
    weight = float(found_metrics["cost_weight"])
    difference = apart(lambda state: state.policy.params)
    assert float(metrics["cost_weight"]) == pytest.approx(max(weight, 0.0), abs=1e-6)
    if clip or budget < 0:
        assert weight >= 0
        assert difference < 1e-6
    else:
        assert weight < 0  # cost is rewarded
        assert difference > 1e-4
