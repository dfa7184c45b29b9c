"""Policies by their descriptions: rules, references and exported networks; no JAX."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from prudent.policies.exported import EXPLORATIONS, HEADS, ExportedPolicy, load_exported
from prudent_bidding.schema import K_HIGH, K_LOW, OBSERVATION_SIZE, Policy, View

# The incumbent: its track record within bounds, times a level, and exploration.
INCUMBENT_LEVEL, INCUMBENT_BOUNDS, INCUMBENT_NOISE = 0.885, (0.6, 1.5), 0.15
FEEDBACK_BOUNDS = (0.4, 2.0)
ROWS_AT_ONCE = 1024  # through a network: its layers then stay in the cache
LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0  # as in `pieces.policies`, which imports JAX


class Rule(NamedTuple):
    needs: frozenset[str]
    act: Callable[[View, np.random.Generator], np.ndarray]


def constant(k: float) -> Rule:
    """The same k for all."""
    return Rule(frozenset(), lambda view, generator: np.full(view.size, k, np.float32))


def incumbent() -> Rule:
    """The rule whose log the first learner gets: careful feedback, and noise to learn from."""

    def act(view: View, generator: np.random.Generator) -> np.ndarray:
        noise = generator.standard_normal(view.size, dtype=np.float32)
        level = np.clip(view.track_record, *INCUMBENT_BOUNDS)
        return INCUMBENT_LEVEL * level + INCUMBENT_NOISE * noise

    return Rule(frozenset({"track_record"}), act)


def feedback(aim: float) -> Rule:
    """Bids for `aim` of what earlier days' realised GMV would allow."""

    def act(view: View, generator: np.random.Generator) -> np.ndarray:
        return np.float32(aim) * np.clip(view.track_record, *FEEDBACK_BOUNDS)

    return Rule(frozenset({"track_record"}), act)


def dual(rate: float) -> Rule:
    """Online dual descent on the return-on-spend constraint.

    With multiplicative steps the multiplier is exp(rate * deficit so far), and
    the best answer to it a bid proportional to 1 + 1 / multiplier.
    """

    def act(view: View, generator: np.random.Generator) -> np.ndarray:
        return 0.5 + 0.5 * np.exp(np.clip(-rate * view.week_deficit, -20.0, 20.0))

    return Rule(frozenset({"week_deficit"}), act)


def informed(aim: float) -> Rule:
    """Knows the lasting error of the predictions: an upper reference, no method."""
    return Rule(frozenset({"bias"}), lambda view, _: np.float32(aim) * np.exp(view.bias))


# With the least and the largest number that each takes.
RULES: dict[str, tuple[Callable[[float], Rule], float, float]] = {
    "constant": (constant, K_LOW, K_HIGH),
    "feedback": (feedback, 0.0, 2.0),
    "dual": (dual, 0.0, 1000.0),
    "informed": (informed, 0.0, 2.0),
}
GREEDY = "@greedy"


class Network(NamedTuple):
    """An exported policy, sampled as its algorithm explores, or its mode."""

    policy: ExportedPolicy
    greedy: bool
    path: Path  # for messages
    needs: frozenset[str] = frozenset({"observations"})

    def act(self, view: View, generator: np.random.Generator) -> np.ndarray:
        noise = generator.standard_normal((view.size, 1), dtype=np.float32)
        parts = []
        for start in range(0, view.size, ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            observations = view.observations[part]
            if self.greedy:
                parts.append(self.policy(observations))
            else:
                parts.append(sampled(self.policy, observations, noise[part]))
        k = np.concatenate(parts)[:, 0]
        if not np.isfinite(k).all():
            raise ValueError(f"{self.path}: the policy's k is {k[~np.isfinite(k)][0]}")
        return k


def sampled(policy: ExportedPolicy, observations: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Actions [N, 1] of standard normal noise [N, 1], as `pieces.policies` samples them."""
    exploration, head = policy.exploration, HEADS[policy.about["head"]]
    assert exploration is not None
    outputs = exploration.outputs(policy.spaces.flat(observations))
    mean, further = outputs[:, :1], outputs[:, 1:2]
    spread = np.exp(np.clip(further, LOG_STD_MIN, LOG_STD_MAX)) * noise
    match explores(policy):
        case "constant":
            assert exploration.log_std is not None
            unit = mean + np.exp(exploration.log_std) * noise
        case "squashed":
            unit = head(mean + spread)
        case "diagonal":
            unit = head(mean) + spread
        case "full":  # of which one action has one entry
            unit = head(mean) + (np.logaddexp(np.clip(further, -5.0, 20.0), 0.0) + 1e-4) * noise
    action = exploration.scale * np.clip(unit, -1.0, 1.0) + exploration.centre
    return policy.spaces.shaped(action)


def explores(policy: ExportedPolicy) -> str:
    """As the file says; those of older versions do not, and are of algorithms of ours."""
    about, exploration = policy.about, policy.exploration
    if "explores" in about:
        return about["explores"]
    if exploration is not None and exploration.log_std is not None:
        return "constant"
    if about["head"] == "sigmoid":
        return "full"
    return "diagonal" if about.get("algorithm") == "cvpo" else "squashed"


def make_policy(description: str) -> Policy:
    """The policy that a command line or a manifest describes."""
    if description == "incumbent":
        return incumbent()
    rule, colon, number = description.partition(":")
    if colon and rule in RULES:
        return RULES[rule][0](checked_number(description, rule, number))
    path = Path(description.removesuffix(GREEDY))
    if not path.is_file():
        raise ValueError(
            f"no policy {description!r}; there is: incumbent, "
            f"{', '.join(f'{name}:NUMBER' for name in RULES)}, or a file by `prudent export`"
        )
    policy = load_exported(path)
    check_spaces(path, policy)
    greedy = description.endswith(GREEDY)
    if policy.exploration is None and not greedy:
        raise ValueError(f"{path}: an ONNX file acts greedily only; give {path}{GREEDY}")
    if not greedy and explores(policy) not in EXPLORATIONS:
        raise ValueError(f"{path} does not say how its policy explores; give {path}{GREEDY}")
    network = Network(policy, greedy, path)
    # Weights that are no numbers show at any observation: now, not amid a simulation.
    nothing = np.zeros((1, OBSERVATION_SIZE), np.float32)
    network.act(View(1, observations=nothing), np.random.default_rng(0))
    return network


def checked_number(description: str, rule: str, number: str) -> float:
    _, low, high = RULES[rule]
    try:
        value = float(number)
    except ValueError:
        value = np.nan
    if not low <= value <= high:
        raise ValueError(
            f"policy {description!r}: {number!r} must be a number from {low:g} to {high:g}"
        )
    return value


def rule_numbers(description: str) -> list[float]:
    """What decides how a rule bids and its description does not say."""
    match description.partition(":")[0]:
        case "incumbent":
            return [INCUMBENT_LEVEL, *INCUMBENT_BOUNDS, INCUMBENT_NOISE]
        case "feedback":
            return [*FEEDBACK_BOUNDS]
    return []


def check_spaces(path: Path, policy: ExportedPolicy) -> None:
    observation, action = policy.spaces.observation_shape, policy.spaces.action_shape
    if observation != (OBSERVATION_SIZE,) or action != (1,):
        raise ValueError(
            f"{path}: a policy for observations {observation} and actions {action}; bidding has "
            f"({OBSERVATION_SIZE},) and (1,): train it on a task named bidding-..."
        )
    bounds = policy.spaces.action_bounds
    if bounds is None and policy.exploration is not None:  # of a run that recorded no spaces
        centre, scale = policy.exploration.centre, policy.exploration.scale
        bounds = (centre - scale, centre + scale)
    if bounds is not None and not np.allclose(np.ravel(bounds), (K_LOW, K_HIGH)):
        low, high = np.ravel(bounds)
        raise ValueError(
            f"{path}: a policy for actions from {low:g} to {high:g}; bidding has k from {K_LOW:g} "
            f"to {K_HIGH:g}: train it on a task named bidding-..."
        )


def network_file(description: str) -> Path | None:
    """The file of a policy that has one."""
    path = Path(description.removesuffix(GREEDY))
    is_rule = description == "incumbent" or description.partition(":")[0] in RULES
    return None if is_rule else path
