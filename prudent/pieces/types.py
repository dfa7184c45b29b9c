"""The containers that pieces, algorithms and training share: arrays in NamedTuples."""

from collections.abc import Callable, Mapping
from itertools import accumulate
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Params = Any  # a pytree of arrays
Metrics = dict[str, jax.Array]


class Batch(NamedTuple):
    """What one off-policy update learns from. A block of updates has one more leading axis."""

    observation: Any  # [B, obs]
    action: Any  # [B, act], in [-1, 1]
    reward: Any  # [B]
    cost: Any  # [B]
    reward_continues: Any  # [B], 0 where the reward critic must not look past this step
    cost_continues: Any  # [B], the same for the cost critic
    next_observation: Any  # [B, obs]
    index: Any = None  # [], place of the update in its block; None: counted from 0
    # What `Algorithm.requires` names, by name. The off-policy loop has
    #   recent        a `Batch` of the last environment steps; required with their number
    #   episodes      [], training episodes that ended since the last update
    #   episode_cost  [K], their mean cost in the unit of the cost critics; required with K
    # A loop of one's own may have others, such as one number for each row, [B].
    extras: Mapping[str, Any] = {}


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
    # Least and largest discounted cost that can be to come, where they are known and used.
    least_cost_ahead: float | None = None
    largest_cost_ahead: float | None = None


class ObservationScale(NamedTuple):
    """How observations are brought to scale: (x - mean) / deviation, then clipped."""

    mean: Any  # [obs]
    deviation: Any  # [obs]
    largest: float  # the bound on both sides


class PolicyNetwork(NamedTuple):
    """A policy as plain layers, so that it can act outside JAX.

    The greedy action is `head` of the first outputs. `prudent.policies.exported` knows the names.
    """

    layers: Any  # in order, each {"weight": [in, out], "bias": [out]}
    activation: str  # between the layers
    head: str  # from the first outputs to an action in [-1, 1]
    log_std: Any = None  # [act], where exploring adds noise that no observation changes
    scaling: ObservationScale | None = None  # of observations, before the first layer
    explores: str | None = None  # how `act` adds noise; None: in a way without a name


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
    # state, Batch of [updates, B, ...] or Rollout, key -> state, metrics
    update: Callable[[Any, Any, jax.Array], tuple[Any, Metrics]]
    network: Callable[[Any], PolicyNetwork]  # state -> what acts greedily
    # state, observations and actions in [-1, 1], one of each per row
    cost_estimate: Callable[..., CostEstimate] | None = None
    requires: Mapping[str, int] = MappingProxyType({})  # extras of a batch, see `Batch`


def row_width(observation_size: int, action_size: int) -> int:
    """Numbers in one packed replay row."""
    return 2 * observation_size + action_size + 4


def batch_from_rows(rows: jax.Array, observation_size: int, action_size: int) -> Batch:
    """Read packed replay rows, [..., width]; `training.replay` writes the same order."""
    bounds = list(accumulate([observation_size, action_size, 1, 1, 1, 1]))
    parts = jnp.split(rows, bounds, axis=-1)
    reward, cost, reward_continues, cost_continues = (part[..., 0] for part in parts[2:6])
    return Batch(parts[0], parts[1], reward, cost, reward_continues, cost_continues, parts[6])


def each_update(
    step: Callable[..., tuple[Any, Metrics]], requires: Mapping[str, int] = MappingProxyType({})
) -> Callable[..., tuple[Any, Metrics]]:
    """Turn `step(state, batch, key)` into an update over a block of batches."""

    def update(state: Any, batches: Batch, key: jax.Array) -> tuple[Any, Metrics]:
        check_batches(batches, requires)
        updates = batches.reward.shape[0]
        if batches.index is None:
            batches = batches._replace(index=jnp.arange(updates))
        keys = jax.random.split(key, updates)
        state, metrics = jax.lax.scan(lambda state, x: step(state, *x), state, (batches, keys))
        return state, jax.tree.map(jnp.mean, metrics)

    return update


def check_batches(batches: Batch, requires: Mapping[str, int]) -> None:
    """That all fields have the same leading axes, and all extras are there; once per trace."""
    updates, rows = batches.reward.shape
    for name in batches._fields[:7]:
        array = getattr(batches, name)
        vector = name in ("observation", "action", "next_observation")
        if array.shape[: array.ndim - vector] != (updates, rows):
            raise ValueError(f"{name} has shape {array.shape}, {(updates, rows)} rows are needed")
    if missing := sorted(requires.keys() - batches.extras.keys()):
        raise ValueError(f"the batch lacks {', '.join(missing)}, which the algorithm requires")
    for name in requires:
        for array in jax.tree.leaves(batches.extras[name]):
            if array.shape[:1] != (updates,):
                raise ValueError(f"{name} has shape {array.shape}, one of {updates} updates each")
