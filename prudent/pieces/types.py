"""The containers that pieces, algorithms and training share: arrays in NamedTuples."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Params = Any  # a pytree of arrays
Metrics = dict[str, jax.Array]


class Transition(NamedTuple):
    observation: jax.Array  # [..., obs]
    action: jax.Array  # [..., act], in [-1, 1]
    reward: jax.Array  # [...]
    cost: jax.Array  # [...]
    reward_continues: jax.Array  # [...], 0 where the reward critic must not look past this step
    cost_continues: jax.Array  # [...], the same for the cost critic
    next_observation: jax.Array  # [..., obs]


class Rollout(NamedTuple):
    """One epoch of a policy's experience, and how it stands with its constraint."""

    observation: jax.Array  # [T, N, obs], as the policy saw it
    action: jax.Array  # [T, N, act], before the environment clipped it
    reward: jax.Array  # [T, N]
    cost: jax.Array  # [T, N]
    reward_continues: jax.Array  # [T, N], 0 where nothing follows
    cost_continues: jax.Array  # [T, N]
    ends: jax.Array  # [T, N], 1 where the next row is of another episode or epoch
    next_observation: jax.Array  # [T, N, obs], an episode's last one included
    violation: jax.Array  # [], mean cost of finished episodes minus the budget
    remaining: jax.Array  # [], share of the run still to come, from 1 to 0


class Spec(NamedTuple):
    """What an algorithm must know of a task. Action bounds enter only here (see `policies`)."""

    observation_size: int
    action_size: int
    cost_budget: float  # in the units of the cost critic
    action_scale: tuple[float, ...]  # environment action = scale * unit action + centre
    action_centre: tuple[float, ...]


class Minibatches(NamedTuple):
    """What an off-policy update learns from: some updates of a block, in order."""

    batches: Transition  # [updates, batch, ...]
    first: jax.Array | int = 0  # how many updates of the block came before


class ObservationScale(NamedTuple):
    """How observations are brought to scale: (x - mean) / deviation, then clipped."""

    mean: Any  # [obs]
    deviation: Any  # [obs]
    largest: float  # the bound on both sides


class PolicyNetwork(NamedTuple):
    """A policy as plain layers, so that it can act outside JAX.

    The greedy action is `head` of the first outputs. `prudent.exported` knows the names.
    """

    layers: Any  # in order, each {"weight": [in, out], "bias": [out]}
    activation: str  # between the layers
    head: str  # from the first outputs to an action in [-1, 1]
    log_std: Any = None  # [act], where exploring adds noise that no observation changes
    scaling: ObservationScale | None = None  # of observations, before the first layer


class CostEstimate(NamedTuple):
    """What an algorithm believes that an action, and its policy after it, will cost."""

    mean: jax.Array  # [B], discounted
    spread: jax.Array  # [B], a standard deviation, which it may add; 0 where it knows none
    conservative: jax.Array  # [B], what its constraint is compared with


class Algorithm(NamedTuple):
    """Five pure functions, the whole interface between an algorithm and the rest; and, where it has
    critics of the cost, a sixth for those who look at them.
    """

    init: Callable[[jax.Array], Any]  # key -> state
    act: Callable[..., jax.Array]  # state, observation, key -> action, exploring
    act_greedily: Callable[..., jax.Array]  # state, observation -> action, evaluating
    # state, data (Minibatches or a Rollout), key -> state, metrics
    update: Callable[[Any, Any, jax.Array], tuple[Any, Metrics]]
    network: Callable[[Any], PolicyNetwork]  # state -> what acts greedily
    # state, observations and actions in [-1, 1], one of each per row
    cost_estimate: Callable[..., CostEstimate] | None = None


def row_width(observation_size: int, action_size: int) -> int:
    """Numbers in one packed replay row."""
    return 2 * observation_size + action_size + 4


def transition_from_row(row: jax.Array, observation_size: int, action_size: int) -> Transition:
    """Read one packed replay row, [..., width]; `training.replay` writes the same order."""
    bounds = list(accumulate([observation_size, action_size, 1, 1, 1, 1]))
    parts = jnp.split(row, bounds, axis=-1)
    reward, cost, reward_continues, cost_continues = (part[..., 0] for part in parts[2:6])
    return Transition(parts[0], parts[1], reward, cost, reward_continues, cost_continues, parts[6])


def over_minibatches(step: Callable[..., tuple[Any, Metrics]]) -> Callable[..., Any]:
    """Turn `step(state, batch, key, index)` into an update over minibatches.

    The index counts within one block of updates, of which this call makes some.
    """

    def update(state: Any, data: Minibatches, key: jax.Array) -> tuple[Any, Metrics]:
        check_shapes(data.batches)
        updates = data.batches.reward.shape[0]
        inputs = data.batches, jax.random.split(key, updates), data.first + jnp.arange(updates)
        state, metrics = jax.lax.scan(lambda state, x: step(state, *x), state, inputs)
        return state, jax.tree.map(jnp.mean, metrics)

    return update


def check_shapes(batches: Transition) -> None:
    """That all fields have the same leading axes, [updates, batch]; once per trace."""
    leading = batches.reward.shape
    for name, array in batches._asdict().items():
        vector = name in ("observation", "action", "next_observation")
        if array.shape[: array.ndim - vector] != leading:
            raise ValueError(f"{name} has shape {array.shape}, {leading} rows are needed")
