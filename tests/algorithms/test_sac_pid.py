"""One gradient step of SAC-PIDLag against a numpy transcription: every number of the state."""

from dataclasses import replace

import numpy as np
import pytest
from steps import SPEC, assert_same_metrics, assert_same_state, network_state, several_steps
from transcription import (
    backward,
    fit,
    forward,
    slope_at_action,
    squash,
    squash_backward,
    step_layers,
    track,
    values,
)

from prudent.algorithms.sac_pid import SACPIDConfig, sac_pid


def plain(state):
    return {
        **network_state(state, {"rewards": 2, "costs": 1}),
        "integral": float(state.dual.multiplier.integral[0]),
        "error": float(state.dual.multiplier.error[0]),
        "multiplier": float(state.dual.multiplier.value[0]),
    }


def transcribed_step(state, batch, noise, config, spec):
    """In the order of the reference: critics, then actor with its multiplier, then targets."""
    new = {"count": state["count"] + 1}
    scale, centre, rows = np.array(SPEC.action_scale), np.array(SPEC.action_centre), len(noise[0])
    output, _ = forward(state["policy"], batch["next_observation"], "relu")
    action, log_density, _ = squash(output, noise[0], scale)
    then = np.concatenate([batch["next_observation"], scale * action + centre], axis=1)
    now = np.concatenate([batch["observation"], scale * batch["action"] + centre], axis=1)
    entropy = config.temperature * (log_density + np.log(scale).sum())  # of the action in [-1, 1]
    y_reward = values(state["reward_targets"], then).min(0) - entropy
    y_reward = batch["reward"] + config.discount * batch["reward_continues"] * y_reward
    y_cost = values(state["cost_targets"], then) - entropy * config.entropy_in_cost_target
    mask = batch["cost_continues"] if config.cost_mask == "task" else 1.0
    y_cost = batch["cost"] + config.cost_discount * mask * y_cost
    fit(state, new, "rewards", now, [y_reward] * 2, rate=config.learning_rate)
    fit(state, new, "costs", now, y_cost, rate=config.learning_rate)

    output, tape = forward(state["policy"], batch["observation"], "relu")
    action, log_density, kept = squash(output, noise[1], scale)
    chosen = np.concatenate([batch["observation"], scale * action + centre], axis=1)
    reward_runs = [forward(layers, chosen, "relu") for layers in new["rewards"]]
    cost_run = forward(new["costs"][0], chosen, "relu")
    error = cost_run[0].mean() - spec.cost_budget
    new["integral"] = max(0.0, state["integral"] + error)
    new["error"] = error
    new["multiplier"] = max(
        0.0,
        config.proportional_gain * max(0.0, error)
        + config.integral_gain * new["integral"]
        + config.derivative_gain * max(0.0, error - state["error"]),
    )
    lowest = np.argmin([run[0][:, 0] for run in reward_runs], axis=0)
    towards_reward = [-1.0 * (lowest == j) / rows for j in range(2)]
    at_action = slope_at_action(new["rewards"], reward_runs, towards_reward, 2)
    price = np.full((1, rows), new["multiplier"] / rows)
    at_action += slope_at_action(new["costs"], [cost_run], price, 2)
    at_output = squash_backward(kept, at_action * scale, np.full(rows, config.temperature / rows))
    gradients, _ = backward(state["policy"], tape, at_output, "relu")
    step_layers(state, new, "policy", None, gradients, config.learning_rate)
    track(state, new, "rewards", "reward_targets", config.target_rate)
    track(state, new, "costs", "cost_targets", config.target_rate)
    new["metrics"] |= {
        "violation": error,
        "cost_estimate": error + spec.cost_budget,
        "multiplier": new["multiplier"],
        "multiplier_integral": new["integral"],
        "entropy": -log_density.mean(),
    }
    return new


CASES = {
    "as the reference": SACPIDConfig(cost_mask="never"),
    "as the paper's runs": SACPIDConfig(),
    "without entropy in the cost": SACPIDConfig(entropy_in_cost_target=False),
    "large gains": SACPIDConfig(proportional_gain=5.0, derivative_gain=3.0),
}
UNEQUAL = {"discount": 0.97, "cost_discount": 0.9, "target_rate": 0.02}


@pytest.mark.parametrize("name", CASES)
def test_two_steps_equal_the_transcription(name, float64):
    config, spec = replace(CASES[name], **UNEQUAL), SPEC._replace(cost_budget=0.2)
    steps = several_steps(sac_pid, config, spec)
    expected, metrics = plain(steps.before), []
    for batch, keys in zip(steps.batches, steps.keys(2), strict=True):
        expected = transcribed_step(
            expected, batch, [steps.noise(key) for key in keys], config, spec
        )
        metrics.append(expected["metrics"])
    assert expected["multiplier"] > 0
    assert_same_state(plain(steps.after), expected)
    assert_same_metrics(steps.metrics, metrics)
