"""One CAL gradient step in plain numpy, written from the equations and sharing no code with ours.

Backpropagation is by hand. The only thing taken from the library's side is the noise.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

Layers = list[dict[str, np.ndarray]]


def relu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, 0.0)


def relu_slope(x: np.ndarray) -> np.ndarray:
    return (x > 0).astype(float)


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def silu_slope(x: np.ndarray) -> np.ndarray:
    sigmoid = 1 / (1 + np.exp(-x))
    return sigmoid * (1 + x * (1 - sigmoid))


ACTIVATIONS = {"relu": (relu, relu_slope), "silu": (silu, silu_slope)}


def forward(layers: Layers, x: np.ndarray, activation: str) -> tuple[np.ndarray, list]:
    """Output, and what the backward pass needs: each layer's input and pre-activation."""
    tape = []
    for index, layer in enumerate(layers):
        z = x @ layer["weight"] + layer["bias"]
        tape.append((x, z))
        x = z if index == len(layers) - 1 else ACTIVATIONS[activation][0](z)
    return x, tape


def backward(layers: Layers, tape: list, slope: np.ndarray, activation: str):
    """Gradients of the parameters, and of the input."""
    gradients: Layers = []
    for index in reversed(range(len(layers))):
        x, z = tape[index]
        if index < len(layers) - 1:
            slope = slope * ACTIVATIONS[activation][1](z)
        gradients.insert(0, {"weight": x.T @ slope, "bias": slope.sum(axis=0)})
        slope = slope @ layers[index]["weight"].T
    return gradients, slope


@dataclass
class Adam:
    rate: float
    first: Any
    second: Any
    count: int

    def step(self, parameter: np.ndarray, gradient: np.ndarray, first, second):
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        m_hat = first / (1 - 0.9**self.count)
        v_hat = second / (1 - 0.999**self.count)
        return parameter - self.rate * m_hat / (np.sqrt(v_hat) + 1e-8), first, second


def adam_layers(rate, count, layers: Layers, gradients: Layers, first: Layers, second: Layers):
    """Adam over all layers; `count` is that of the step being made."""
    adam = Adam(rate, None, None, count)
    result: tuple[Layers, Layers, Layers] = ([], [], [])
    for parts in zip(layers, gradients, first, second, strict=True):
        new = [{}, {}, {}]
        for name in ("weight", "bias"):
            for place, value in zip(new, adam.step(*(p[name] for p in parts)), strict=True):
                place[name] = value
        for whole, part in zip(result, new, strict=True):
            whole.append(part)
    return result


def squash(raw_output: np.ndarray, noise: np.ndarray, scale: np.ndarray):
    """Action in [-1, 1], log density in environment units, and what the gradient needs."""
    mean, raw_log_std = np.split(raw_output, 2, axis=1)
    log_std = np.clip(raw_log_std, -20.0, 2.0)
    u = mean + np.exp(log_std) * noise
    y = np.tanh(u)
    normal = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi)
    log_density = (normal - 2 * (np.log(2) - u - np.logaddexp(0, -2 * u)) - np.log(scale)).sum(1)
    inside = ((raw_log_std > -20.0) & (raw_log_std < 2.0)).astype(float)
    return y, log_density, (u, y, np.exp(log_std) * noise, inside)


def squash_backward(kept, action_slope: np.ndarray, density_slope: np.ndarray) -> np.ndarray:
    """Gradient at the network's output, given those at the action and at the log density."""
    u, y, std_noise, inside = kept
    # d(-2(log 2 - u - softplus(-2u)))/du = 2 - 4 sigmoid(-2u) = 2 tanh(u)
    at_u = action_slope * (1 - y**2) + density_slope[:, None] * 2 * np.tanh(u)
    at_log_std = at_u * std_noise - density_slope[:, None]
    return np.concatenate([at_u, at_log_std * inside], axis=1)


def conservative(values: np.ndarray, k: float, ddof: int):
    """Mean + k std over members [E, B], and its gradient with respect to each value."""
    members = len(values)
    mean = values.mean(0)
    if members == 1:
        return mean, np.ones_like(values)
    std = np.sqrt(((values - mean) ** 2).sum(0) / (members - ddof))
    slope = 1 / members + k * (values - mean) / ((members - ddof) * std)
    return mean + k * std, slope


@dataclass
class Settings:
    k: float
    c: float
    ddof: int
    budget: float
    rate: float
    cost_rate: float
    dual_rate: float
    discount: float
    tau: float
    cost_activation: str
    cost_loss: str  # "sum" or "mean" over members
    dual_action: str
    scale: np.ndarray
    centre: np.ndarray
    target_entropy: float
    track: bool
    drawn_members: np.ndarray | None = None


def cal_step(state: dict[str, Any], batch: dict[str, np.ndarray], noise, settings: Settings):
    """The new state, in the order of the official code: critics, actor, temperature, λ, targets."""
    s = settings
    count = state["count"] + 1
    alpha, multiplier = np.exp(state["log_alpha"]), np.exp(state["log_lambda"])
    members = len(state["costs"])
    rows = len(batch["reward"])
    new: dict[str, Any] = {"count": count}

    def units(y: np.ndarray) -> np.ndarray:
        return s.scale * y + s.centre

    # 1. next actions
    output, _ = forward(state["policy"], batch["next_observation"], "relu")
    next_y, next_log_density, _ = squash(output, noise["next"], s.scale)
    then = np.concatenate([batch["next_observation"], units(next_y)], axis=1)
    now = np.concatenate([batch["observation"], units(batch["action"])], axis=1)

    # 2. reward critics
    next_values = [forward(q, then, "relu")[0][:, 0] for q in state["reward_targets"]]
    bootstrap = np.minimum(*next_values) - alpha * next_log_density
    y_reward = batch["reward"] + s.discount * batch["reward_continues"] * bootstrap
    new["rewards"], new["rewards_first"], new["rewards_second"] = [], [], []
    for j in range(2):
        value, tape = forward(state["rewards"][j], now, "relu")
        slope = (2 * (value[:, 0] - y_reward) / rows)[:, None]
        gradients, _ = backward(state["rewards"][j], tape, slope, "relu")
        updated = adam_layers(
            s.rate, count, state["rewards"][j], gradients,
            state["rewards_first"][j], state["rewards_second"][j],
        )  # fmt: skip
        for name, value in zip(
            ("rewards", "rewards_first", "rewards_second"), updated, strict=True
        ):
            new[name].append(value)

    # 3. cost critics, each from its own target copy (or all from the highest of those drawn)
    act = s.cost_activation
    next_cost = np.stack([forward(q, then, act)[0][:, 0] for q in state["cost_targets"]])
    if s.drawn_members is not None:
        next_cost = np.broadcast_to(next_cost[s.drawn_members].max(0), next_cost.shape)
    new["costs"], new["costs_first"], new["costs_second"] = [], [], []
    for i in range(members):
        y_cost = batch["cost"] + s.discount * batch["cost_continues"] * next_cost[i]
        value, tape = forward(state["costs"][i], now, act)
        slope = (2 * (value[:, 0] - y_cost) / rows)[:, None]
        if s.cost_loss == "mean":
            slope = slope / members
        gradients, _ = backward(state["costs"][i], tape, slope, act)
        updated = adam_layers(
            s.cost_rate, count, state["costs"][i], gradients,
            state["costs_first"][i], state["costs_second"][i],
        )  # fmt: skip
        for name, value in zip(("costs", "costs_first", "costs_second"), updated, strict=True):
            new[name].append(value)

    # 4. actor, with the critics just updated
    output, policy_tape = forward(state["policy"], batch["observation"], "relu")
    y, log_density, kept = squash(output, noise["now"], s.scale)
    chosen = np.concatenate([batch["observation"], units(y)], axis=1)
    reward_runs = [forward(q, chosen, "relu") for q in new["rewards"]]
    cost_runs = [forward(q, chosen, act) for q in new["costs"]]
    policy_costs = np.stack([run[0][:, 0] for run in cost_runs])
    q_u, q_u_slope = conservative(policy_costs, s.k, s.ddof)
    taken_costs = np.stack([forward(q, now, act)[0][:, 0] for q in new["costs"]])
    measured = conservative(taken_costs, s.k, s.ddof)[0] if s.dual_action == "buffer" else q_u
    rect = min(s.c * np.mean(s.budget - measured), multiplier)  # the official code's form
    weight = multiplier - rect
    q_r = np.stack([run[0][:, 0] for run in reward_runs])
    lowest = q_r.argmin(0)
    action_size = y.shape[1]
    at_action = np.zeros_like(y)
    for j in range(2):
        slope = (-1.0 * (lowest == j) / rows)[:, None]
        at_input = backward(new["rewards"][j], reward_runs[j][1], slope, "relu")[1]
        at_action += at_input[:, -action_size:]
    for i in range(members):
        slope = (weight * q_u_slope[i] / rows)[:, None]
        at_input = backward(new["costs"][i], cost_runs[i][1], slope, act)[1]
        at_action += at_input[:, -action_size:]
    density_slope = np.full(rows, alpha / rows)
    at_output = squash_backward(kept, at_action * s.scale, density_slope)
    gradients, _ = backward(state["policy"], policy_tape, at_output, "relu")
    new["policy"], new["policy_first"], new["policy_second"] = adam_layers(
        s.rate, count, state["policy"], gradients, state["policy_first"], state["policy_second"]
    )

    # 5. temperature and 6. multiplier, both on their logarithms
    for name, gradient, rate in (
        ("log_alpha", alpha * (-log_density.mean() - s.target_entropy), s.rate),
        ("log_lambda", multiplier * (s.budget - measured.mean()), s.dual_rate),
    ):
        adam = Adam(rate, None, None, count)
        new[name], new[f"{name}_first"], new[f"{name}_second"] = adam.step(
            state[name], gradient, state[f"{name}_first"], state[f"{name}_second"]
        )

    # 7. targets
    for online, target in (("rewards", "reward_targets"), ("costs", "cost_targets")):
        rate = s.tau if s.track else 0.0
        new[target] = [
            [{n: rate * o[n] + (1 - rate) * t[n] for n in o} for o, t in zip(a, b, strict=True)]
            for a, b in zip(new[online], state[target], strict=True)
        ]
    new["violation"] = measured.mean() - s.budget
    new["cost_weight"] = weight
    return new
