"""Gradient steps in plain numpy, written from the equations and sharing no code with ours.

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


def tanh_slope(x: np.ndarray) -> np.ndarray:
    return 1 - np.tanh(x) ** 2


ACTIVATIONS = {
    "relu": (relu, relu_slope),
    "silu": (silu, silu_slope),
    "tanh": (np.tanh, tanh_slope),
}


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


def keep(new: dict[str, Any], name: str, updated, *, member: bool) -> None:
    """Parameters and both moments under their names; one more member of an ensemble, or alone."""
    for place, value in zip((name, f"{name}_first", f"{name}_second"), updated, strict=True):
        if member:
            new.setdefault(place, []).append(value)
        else:
            new[place] = value


def fit(state, new, name, inputs, targets, *, rate, activation="relu", weight=1.0) -> None:
    """Each member one Adam step down `weight` times its mean squared error; targets are [E, B]."""
    squares = []
    for i, layers in enumerate(state[name]):
        value, tape = forward(layers, inputs, activation)
        squares.append((value[:, 0] - targets[i]) ** 2)
        slope = (weight * 2 * (value[:, 0] - targets[i]) / len(inputs))[:, None]
        step_layers(state, new, name, i, backward(layers, tape, slope, activation)[0], rate)
    new.setdefault("metrics", {})[f"{name[:-1]}_critic_error"] = np.mean(squares)


def step_layers(state, new, name, member, gradients, rate) -> None:
    """One Adam step of a network, or of one member of an ensemble."""
    parts = [state[name], state[f"{name}_first"], state[f"{name}_second"]]
    if member is not None:
        parts = [part[member] for part in parts]
    updated = adam_layers(rate, new["count"], parts[0], gradients, *parts[1:])
    keep(new, name, updated, member=member is not None)


def step_scalar(state, new, name, gradient, rate) -> None:
    adam = Adam(rate, None, None, new["count"])
    parts = [state[f"{name}_first"], state[f"{name}_second"]]
    keep(new, name, adam.step(state[name], gradient, *parts), member=False)


def slope_at_action(members, runs, slopes, action_size, activation="relu") -> np.ndarray:
    """How the sum of slope times value over members, [E, B], changes with the action."""
    total = 0.0
    for layers, run, slope in zip(members, runs, slopes, strict=True):
        total = total + backward(layers, run[1], slope[:, None], activation)[1][:, -action_size:]
    return total


def track(state, new, online: str, target: str, rate: float) -> None:
    new[target] = [
        [{n: rate * o[n] + (1 - rate) * t[n] for n in o} for o, t in zip(a, b, strict=True)]
        for a, b in zip(new[online], state[target], strict=True)
    ]


def values(members: list[Layers], inputs: np.ndarray, activation: str = "relu") -> np.ndarray:
    return np.stack([forward(layers, inputs, activation)[0][:, 0] for layers in members])


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
    cost_discount: float
    tau: float
    cost_activation: str
    cost_loss: str  # "sum" or "mean" over members
    dual_action: str
    scale: np.ndarray
    centre: np.ndarray
    in_units: bool  # whether critics see actions as the environment does
    target_entropy: float
    track: bool
    multiplier: str  # how the dual variable is kept and moved
    rescale: bool  # divide the policy's loss by 1 + cost weight
    fixed: float = 0.0  # the multiplier that never moves
    drawn_members: np.ndarray | None = None
    moved: bool = False  # whether the budget is not the task's own
    bounds: tuple[float, float] | None = None  # of cost targets
    ratio_floor: float | None = None  # share of the row's budget; None where sums are limited
    owners: int = 0  # that have a multiplier each
    measured: bool = False  # whether those answer to measurements and not to critics


def dual_value(kind: str, parameter: Any, fixed: float) -> Any:
    if kind == "fixed":
        return fixed
    if kind == "projected_sgd":
        return parameter
    return np.exp(parameter) if kind == "log_adam" else np.logaddexp(0, parameter)


def move_multiplier(state, new, violation: float, s: "Settings") -> None:
    """Ascend the multiplier times the violation, on the parameter by which it is kept."""
    if s.multiplier == "fixed":
        return
    parameter = state["multiplier"]
    if s.multiplier == "projected_sgd":
        new["multiplier"] = max(0.0, parameter + s.dual_rate * violation)
        return
    slope = {"log_adam": np.exp(parameter), "softplus_adam": 1 / (1 + np.exp(-parameter))}
    step_scalar(state, new, "multiplier", -slope[s.multiplier] * violation, s.dual_rate)


def as_limited(q_u: np.ndarray, q_r: np.ndarray, batch, s: "Settings"):
    """What the budget limits, [B], and how it changes with the mean reward to come."""
    if s.ratio_floor is None:
        return q_u, np.zeros_like(q_u)
    mean, floor = q_r.mean(0), s.ratio_floor * batch["reward_budget"]
    below = np.maximum(mean, floor)
    return q_u / below, -q_u / below**2 * (mean > floor)


def weights(state, multiplier, measured: np.ndarray, batch, s: "Settings"):
    """The official code's form of the rectified multiplier, one for each owner's rows."""
    if not s.owners:
        return multiplier - min(s.c * np.mean(s.budget - measured), multiplier)
    if s.measured:
        told = np.asarray(state["violation"])
        return np.array([max(0, multiplier[o] + s.c * told[o]) for o in batch["owner"]])
    result = np.zeros(len(measured))
    for owner in set(batch["owner"]):
        mine = batch["owner"] == owner
        rect = min(s.c * np.mean(s.budget - measured[mine]), multiplier[owner])
        result[mine] = multiplier[owner] - rect
    return result


def moved_owners(state, measured: np.ndarray, batch, s: "Settings") -> np.ndarray:
    """Projected ascent of those that have rows."""
    new = np.array(state["multiplier"], float)
    for owner in [] if s.measured else set(batch["owner"]):
        violation = np.mean(measured[batch["owner"] == owner]) - s.budget
        new[owner] = max(0.0, new[owner] + s.dual_rate * violation)
    return new


def calibrated(state: dict[str, float], finished, budget: float, window: int, limit: float):
    """The shift of the budget after episodes ended, and its counters."""
    episodes, cost = finished
    if not episodes or not state["updates"]:
        return state
    gap = cost - state["estimates"] / state["updates"]
    seen, shift = state["episodes"] + episodes, state["shift"]
    if state["episodes"] >= window:
        shift = shift + min(1.0, episodes / window) * (gap - shift)
        shift = min(max(shift, -limit * abs(budget)), 0.9 * abs(budget))
    return {"shift": shift, "episodes": seen, "estimates": 0.0, "updates": 0}


def cal_step(state: dict[str, Any], batch: dict[str, np.ndarray], noise, settings: Settings):
    """The new state, in the order of the official code: critics, actor, temperature, λ, targets."""
    s = settings
    count = state["count"] + 1
    alpha, multiplier = (
        np.exp(state["log_alpha"]),
        dual_value(s.multiplier, state.get("multiplier"), s.fixed),
    )
    members = len(state["costs"])
    rows = len(batch["reward"])
    new: dict[str, Any] = {"count": count}

    seen_scale = s.scale if s.in_units else np.ones_like(s.scale)

    def units(y: np.ndarray) -> np.ndarray:
        return seen_scale * y + (s.centre if s.in_units else 0.0)

    # 1. next actions
    output, _ = forward(state["policy"], batch["next_observation"], "relu")
    next_y, next_log_density, _ = squash(output, noise["next"], s.scale)
    then = np.concatenate([batch["next_observation"], units(next_y)], axis=1)
    now = np.concatenate([batch["observation"], units(batch["action"])], axis=1)

    # 2. reward critics
    bootstrap = values(state["reward_targets"], then).min(0) - alpha * next_log_density
    y_reward = batch["reward"] + s.discount * batch["reward_continues"] * bootstrap
    fit(state, new, "rewards", now, [y_reward] * 2, rate=s.rate)

    # 3. cost critics, each from its own target copy (or all from the highest of those drawn)
    act = s.cost_activation
    next_cost = values(state["cost_targets"], then, act)
    if s.drawn_members is not None:
        next_cost = np.broadcast_to(next_cost[s.drawn_members].max(0), next_cost.shape)
    y_cost = batch["cost"] + s.cost_discount * batch["cost_continues"] * next_cost
    if s.bounds:
        y_cost = np.minimum(np.maximum(y_cost, s.bounds[0]), s.bounds[1])
    share = 1 / members if s.cost_loss == "mean" else 1.0
    fit(state, new, "costs", now, y_cost, rate=s.cost_rate, activation=act, weight=share)

    # 4. actor, with the critics just updated
    output, policy_tape = forward(state["policy"], batch["observation"], "relu")
    y, log_density, kept = squash(output, noise["now"], s.scale)
    chosen = np.concatenate([batch["observation"], units(y)], axis=1)
    reward_runs = [forward(q, chosen, "relu") for q in new["rewards"]]
    cost_runs = [forward(q, chosen, act) for q in new["costs"]]
    policy_costs = np.stack([run[0][:, 0] for run in cost_runs])
    q_u, q_u_slope = conservative(policy_costs, s.k, s.ddof)
    taken_costs = values(new["costs"], now, act)
    q_r = np.stack([run[0][:, 0] for run in reward_runs])
    limited, through_reward = as_limited(q_u, q_r, batch, s)
    if "recent" in batch:
        where = batch["recent"]
        if s.dual_action == "buffer":
            then_y = where["action"]
        else:
            output, _ = forward(state["policy"], where["observation"], "relu")
            then_y = squash(output, noise["dual"], s.scale)[0]
        asked = np.concatenate([where["observation"], units(then_y)], axis=1)
        measured = conservative(values(new["costs"], asked, act), s.k, s.ddof)[0]
    elif s.dual_action == "buffer":
        taken = conservative(taken_costs, s.k, s.ddof)[0]
        measured = as_limited(taken, values(new["rewards"], now), batch, s)[0]
    else:
        measured = limited
    measured = measured + batch.get("accrued", 0.0)
    weight = weights(state, multiplier, measured, batch, s)
    q_u_slope = q_u_slope * (limited / q_u)
    lowest = q_r.argmin(0)
    towards_reward = [(-1.0 * (lowest == j) + weight * through_reward / 2) / rows for j in range(2)]
    at_action = slope_at_action(new["rewards"], reward_runs, towards_reward, y.shape[1])
    at_action += slope_at_action(
        new["costs"], cost_runs, weight * q_u_slope / rows, y.shape[1], act
    )
    density_slope = np.full(rows, alpha / rows)
    at_output = squash_backward(kept, at_action * seen_scale, density_slope)
    at_output = at_output / (1 + np.mean(weight) if s.rescale else 1.0)
    gradients, _ = backward(state["policy"], policy_tape, at_output, "relu")
    step_layers(state, new, "policy", None, gradients, s.rate)

    # 5. temperature and 6. multiplier, the temperature on its logarithm
    towards_entropy = alpha * (-log_density.mean() - s.target_entropy)
    step_scalar(state, new, "log_alpha", towards_entropy, s.rate)
    if s.owners:
        new["multiplier"] = moved_owners(state, measured, batch, s)
    else:
        move_multiplier(state, new, measured.mean() - s.budget, s)

    # 7. targets
    track(state, new, "rewards", "reward_targets", s.tau if s.track else 0.0)
    track(state, new, "costs", "cost_targets", s.tau if s.track else 0.0)
    spreads = taken_costs.std(0, ddof=s.ddof) if members > 1 else np.zeros(rows)
    new["metrics"] |= {
        "violation": measured.mean() - s.budget,
        "cost_estimate": measured.mean(),
        "multiplier": np.mean(dual_value(s.multiplier, new.get("multiplier"), s.fixed)),
        "temperature": np.exp(new["log_alpha"]),
        "entropy": -log_density.mean(),
        "cost_weight": np.mean(weight),
        "ensemble_spread": spreads.mean(),
        **({"effective_budget": s.budget} if s.moved else {}),
    }
    return new
