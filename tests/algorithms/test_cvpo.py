"""CVPO: its dual, its divergences, and one update against a transcription."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy.optimize import minimize, root
from steps import (
    ROWS,
    SPEC,
    WARM,
    assert_same_metrics,
    assert_same_state,
    moments,
    network_state,
    several_steps,
)
from support import settings
from transcription import Adam, backward, fit, forward, step_layers, track, values

from prudent.algorithms.cvpo import CVPOConfig, cvpo
from prudent.pieces.variational import (
    Limits,
    Weighed,
)


def plain(state, reward_critics):
    to_numpy = lambda tree: jax.tree.map(np.asarray, tree)  # noqa: E731
    adam = state.policy.optimiser
    if not hasattr(adam[0], "mu"):  # behind the clipping of the gradient
        state = state._replace(policy=state.policy._replace(optimiser=adam[1]))
    return {
        **network_state(state, {"rewards": reward_critics, "costs": 1}),
        **moments("dual", state.dual, lambda dual: np.array(dual)),
        "old_policy": to_numpy(state.old_policy),
        **{name: trust_of(getattr(state, name)) for name in ("mean_trust", "spread_trust")},
    }


def trust_of(state):
    moving = getattr(state.optimiser[0], "mu", 0.0), getattr(state.optimiser[0], "nu", 0.0)
    return np.array([state.parameter, *moving])


def shape_of(layers, observation, covariance):
    """Mean and factor of the policy's Gaussian, from the equations."""
    raw, tape = forward(layers, observation, "relu")
    if covariance == "diagonal":
        std = np.exp(np.clip(raw[:, 2:], -20, 2))
        return np.tanh(raw[:, :2]), std[:, :, None] * np.eye(2), raw, tape
    entries = np.clip(raw[:, 2:], -5, 20)
    factor = np.zeros((len(raw), 2, 2))
    factor[:, 0, 0] = np.logaddexp(0, entries[:, 0]) + 1e-4
    factor[:, 1, 0] = entries[:, 1]
    factor[:, 1, 1] = np.logaddexp(0, entries[:, 2]) + 1e-4
    return 2 / (1 + np.exp(-np.clip(raw[:, :2], -5, 5))) - 1, factor, raw, tape


def executed(action):
    return np.array(SPEC.action_scale) * np.clip(action, -1, 1) + np.array(SPEC.action_centre)


def transcribed_step(state, batch, noise, config, index):
    """Critics, E-step, M-step, targets; gradients of the M-step by hand through the factor."""
    new = {"count": state["count"] + 1}
    state = dict(state)
    if config.old_policy == "copy" and index == 0:
        state["old_policy"] = state["policy"]
        state |= {"mean_trust": np.zeros(3), "spread_trust": np.zeros(3), "made": 0}
    join = lambda o, a: np.concatenate([o, executed(a)], axis=1)  # noqa: E731
    draw = lambda mean, factor, n: mean + np.einsum("bij,bj->bi", factor, n)  # noqa: E731

    # critics
    mean, factor, *_ = shape_of(state["policy"], batch["next_observation"], config.covariance)
    then = [join(batch["next_observation"], draw(mean, factor, n)) for n in noise[:2]]
    now = join(batch["observation"], batch["action"])
    y_reward = values(state["reward_targets"], then[0]).min(0)
    y_reward = batch["reward"] + config.discount * batch["reward_continues"] * y_reward
    mask = batch["cost_continues"] if config.cost_mask == "task" else 1.0
    y_cost = mask * values(state["cost_targets"], then[1])
    y_cost = batch["cost"] + config.cost_discount * y_cost
    critics = len(state["rewards"])
    fit(state, new, "rewards", now, [y_reward] * critics, rate=config.critic_learning_rate)
    fit(state, new, "costs", now, y_cost, rate=config.critic_learning_rate)

    # E-step
    observation = batch["observation"]
    old_mean, old_factor, *_ = shape_of(state["old_policy"], observation, config.covariance)
    actions = np.stack([draw(old_mean, old_factor, n) for n in noise[2:]])
    online = config.selection_critics == "online"
    sources = (new["rewards"], new["costs"]) if online else (
        state["reward_targets"], state["cost_targets"]
    )  # fmt: skip
    inputs = [join(observation, a) for a in actions]
    weighed = Weighed(*(np.stack([values(q, x).min(0) for x in inputs]) for q in sources))
    limits = Limits(config.selection_divergence, SPEC.cost_budget, config.largest_dual)
    if config.dual_solver == "adam":
        slope = numerical_gradient(lambda x: plain_dual(x, weighed, limits), state["dual"])
        adam = Adam(config.dual_learning_rate, None, None, new["count"])
        moved = adam.step(state["dual"], slope, state["dual_first"], state["dual_second"])
        dual, new["dual_first"], new["dual_second"] = moved
        new["dual"] = np.clip(dual, [1e-6, 0.0], config.largest_dual)
    else:
        new["dual"] = solved_dual(weighed, limits)
        new["dual_first"], new["dual_second"] = state["dual_first"], state["dual_second"]
    score = (weighed.reward - new["dual"][1] * weighed.cost) / new["dual"][0]
    weights = np.exp(score - score.max(0))
    weights = weights / weights.sum(0)

    # M-step
    old = {"mean": old_mean, "factor": old_factor}
    fitting = {name: state[name] for name in ("policy", "policy_first", "policy_second")}
    trust = {name: state[name] for name in ("mean_trust", "spread_trust", "made")}
    made = state["count"] * config.policy_iterations
    for iteration in range(config.policy_iterations):
        fitting, trust, apart = transcribed_fit(
            fitting, trust, observation, old, actions, weights, config, made + iteration + 1
        )
    new |= {**fitting, **trust}
    track(state, new, "rewards", "reward_targets", config.target_rate)
    track(state, new, "costs", "cost_targets", config.target_rate)
    rate = config.target_rate if config.old_policy == "drift" else 0.0
    wrapped = {"old": [state["old_policy"]]}
    track(wrapped, moving := {"policy": [new["policy"]]}, "policy", "old", rate)
    new["old_policy"] = moving["old"][0]
    new["metrics"] |= {
        "cost_estimate": weighed.cost.mean(),
        "violation": weighed.cost.mean() - SPEC.cost_budget,
        "selected_cost": (weights * weighed.cost).sum(0).mean(),
        "selection_temperature": new["dual"][0],
        "multiplier": new["dual"][1],
        "mean_divergence": apart[0],
        "spread_divergence": apart[1],
        "mean_trust": new["mean_trust"][0],
        "spread_trust": new["spread_trust"][0],
    }
    return new


def plain_dual(point, values, limits):
    """D as printed, in numpy, with the largest score taken out."""
    eta, multiplier = point
    score = np.asarray(values.reward) - multiplier * np.asarray(values.cost)
    largest = score.max(0)
    inner = np.log(np.mean(np.exp((score - largest) / eta), axis=0))
    linear = eta * limits.divergence + multiplier * limits.cost_budget
    return linear + largest.mean() + eta * inner.mean()


def solved_dual(weighed, limits):
    """SciPy's minimum within its bounds, then the root of the slopes of what is off its bound: a
    minimum found by height alone is known to half the digits.
    """
    bounds = np.array([[1e-6, limits.largest], [0.0, limits.largest]])
    near = minimize(
        plain_dual, (1.0, 1.0), args=(weighed, limits), method="L-BFGS-B", bounds=bounds,
        options={"ftol": 1e-15, "gtol": 1e-9},
    ).x  # fmt: skip
    free = (near > bounds[:, 0]) & (near < bounds[:, 1])

    def slopes(values_of_free):
        filled = near.copy()
        filled[free] = values_of_free
        eta, multiplier = filled
        score = (weighed.reward - multiplier * weighed.cost) / eta
        weights = np.exp(score - score.max(0))
        weights = weights / weights.sum(0)
        divergence = np.mean(np.sum(weights * np.log(len(weights) * weights), axis=0))
        cost = np.mean(np.sum(weights * weighed.cost, axis=0))
        return np.array([limits.divergence - divergence, limits.cost_budget - cost])[free]

    found = root(slopes, near[free], tol=1e-14)
    assert np.abs(found.fun).max() < 1e-12
    near[free] = found.x
    return near


def numerical_gradient(function, x, step=1e-6):
    """Central differences."""
    slope = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        shift = np.zeros_like(x)
        shift[place] = step
        slope[place] = (function(x + shift) - function(x - shift)) / (2 * step)
    return slope


def transcribed_fit(fitting, trust, observation, old, actions, weights, config, count):
    """One step of the policy; its loss at the network's output by differences, then by hand."""
    raw, tape = forward(fitting["policy"], observation, "relu")
    old_inverse = np.linalg.inv(old["factor"])

    def gaussian(raw_output):
        identity = [{"weight": np.eye(raw.shape[1]), "bias": np.zeros(raw.shape[1])}]
        return shape_of(identity, raw_output, config.covariance)[:2]

    def likelihood(mean, factor):
        inverse = np.linalg.inv(factor)
        square = (np.einsum("bij,nbj->nbi", inverse, actions - mean) ** 2).sum(-1)
        return -0.5 * square - np.log(np.linalg.det(factor)) - np.log(2 * np.pi)

    def divergences(mean, factor):
        shift = np.einsum("bij,bj->bi", old_inverse, mean - old["mean"])
        ratio = np.linalg.inv(factor) @ old["factor"]
        logs = 2 * np.log(np.linalg.det(factor) / np.linalg.det(old["factor"]))
        spread = 0.5 * np.mean(logs - 2 + (ratio**2).sum((1, 2)))
        return np.array([0.5 * np.mean((shift**2).sum(1)), spread])

    apart = divergences(*gaussian(raw))
    new_trust, prices = {}, []
    for name, moved, allowed, rate, upper in (
        ("mean_trust", apart[0], config.mean_divergence, config.mean_trust_rate,
         config.mean_trust_max),
        ("spread_trust", apart[1], config.spread_divergence, config.spread_trust_rate,
         config.spread_trust_max),
    ):  # fmt: skip
        price, first, second = trust[name]
        if config.trust_optimiser == "sgd":
            price = price + rate * (moved - allowed)
        else:
            adam = Adam(rate, None, None, trust["made"] + 1)
            price, first, second = adam.step(price, allowed - moved, first, second)
        new_trust[name] = np.array([np.clip(price, 0, upper), first, second])
        prices.append(new_trust[name][0])

    def loss(raw_output):
        mean, factor = gaussian(raw_output)
        fit_of = likelihood(mean, old["factor"]) + likelihood(old["mean"], factor)
        return divergences(mean, factor) @ prices - np.mean(weights * fit_of)

    gradients, _ = backward(fitting["policy"], tape, numerical_gradient(loss, raw), "relu")
    if config.max_gradient_norm is not None:
        norm = np.sqrt(sum((part**2).sum() for layer in gradients for part in layer.values()))
        shrink = min(1.0, config.max_gradient_norm / norm)
        gradients = [{name: shrink * part for name, part in layer.items()} for layer in gradients]
    new = {"count": count}
    step_layers(fitting, new, "policy", None, gradients, config.policy_learning_rate)
    del new["count"]
    return new, {**new_trust, "made": trust["made"] + 1}, apart


VERSIONS = {
    "Safety-Gym": CVPOConfig(samples=5),
    "MuJoCo": settings("cvpo", "paper", "hopper-velocity")[0],
    "between them": CVPOConfig(
        samples=4, cost_mask="never", selection_critics="online", trust_optimiser="adam",
        mean_trust_rate=0.05, spread_trust_rate=0.3, dual_solver="adam", covariance="diagonal",
    ),
}  # fmt: skip
VERSIONS["MuJoCo, later in a block"] = VERSIONS["MuJoCo"]
UNEQUAL = {
    "discount": 0.97, "cost_discount": 0.9, "target_rate": 0.02, "policy_learning_rate": 2e-3,
    "critic_learning_rate": 1e-3, "mean_divergence": 1e-4, "spread_divergence": 3e-4,
}  # fmt: skip


@pytest.mark.parametrize("name", VERSIONS)
def test_two_steps_equal_the_transcription(name, float64):
    config, first = replace(VERSIONS[name], **UNEQUAL), 1 if "later" in name else 0
    steps = several_steps(cvpo, config, first=first)
    expected, metrics = plain(steps.before, config.reward_critics), []
    expected["made"] = WARM * config.policy_iterations
    for index, (batch, key) in enumerate(
        zip(steps.batches, jax.random.split(steps.key, 2), strict=True)
    ):
        noise = np.asarray(jax.random.normal(key, (2 + config.samples, ROWS, 2)))
        expected = transcribed_step(expected, batch, noise, config, first + index)
        metrics.append(expected["metrics"])
    assert_same_state(plain(steps.after, config.reward_critics), expected)
    assert_same_metrics(steps.metrics, metrics)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_it_explores_by_its_own_spread_and_evaluates_its_mean(covariance, float64):
    algorithm = cvpo(CVPOConfig(hidden=(6,), covariance=covariance), SPEC)
    state = jax.jit(algorithm.init)(jax.random.key(0))
    seen = np.random.default_rng(0).normal(size=(4, 5))
    params = jax.tree.map(np.asarray, state.policy.params)
    mean, factor, *_ = shape_of(params, seen, covariance)
    noise = np.asarray(jax.random.normal(jax.random.key(1), (4, 2)))
    drawn = np.clip(mean + np.einsum("bij,bj->bi", factor, noise), -1, 1)
    np.testing.assert_allclose(algorithm.act(state, seen, jax.random.key(1)), drawn, atol=1e-12)
    np.testing.assert_allclose(algorithm.act_greedily(state, seen), mean, atol=1e-12)
