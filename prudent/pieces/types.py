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
    # Least and largest discounted cost that can be to come, where they are known and used.
    least_cost_ahead: float | None = None
    largest_cost_ahead: float | None = None


class Beside(NamedTuple):
    """What an update may be told of each row beside its transition; None where nobody asks.

    An algorithm says in its `Needs` which of these it cannot do without. They stand beside the
    transition and not in the observation, since observations may be scaled and these must not be:

        owner           which multiplier answers for the row, from 0: its group's with
                        `multiplier_scope="group"`, its advertiser's with `"advertiser"`. Below
                        the setting `multiplier_count`; with a number outside of it the weight
                        of cost is NaN, which stops a run
        reward_budget   the most reward an episode of the row's owner can earn, in the unit of
                        `reward` (an advertiser's daily budget, where reward is pay). The floor of
                        the denominator of `constraint="ratio"` is a share of it
        accrued         the part of the constrained sum that the row's episode had before this row,
                        in the unit of `cost`; where it is given, it is added to what is still to
                        come before the mean is compared with the budget

    How the costs of `prudent.settings.constraint.FORMS` reach the update: `cost` holds the form's
    step cost and `Spec.cost_budget` its bound. With `deficit` and `budget` nothing else is needed.
    `ratio` divides the cost to come, -gmv / target ROI, by the reward to come, so that `reward`
    must be pay in the same unit of money.
    """

    owner: Any = None  # [updates, batch], whole numbers
    reward_budget: Any = None  # [updates, batch]
    accrued: Any = None  # [updates, batch]


class Finished(NamedTuple):
    """Training episodes that ended since the last call of an update."""

    episodes: Any  # [], how many
    mean_cost: Any  # [], in the unit of the cost critic; 0 where there was none


class Minibatches(NamedTuple):
    """What an off-policy update learns from: some updates of a block, in order."""

    batches: Transition  # [updates, batch, ...]
    first: jax.Array | int = 0  # how many updates of the block came before
    recent: Transition | None = None  # [updates, batch, ...], of the last environment steps
    finished: Finished | None = None
    beside: Beside = Beside()


class Needs(NamedTuple):
    """What an update must be given besides batches from the replay."""

    recent_steps: int = 0  # rows of that many last environment steps; 0: none
    finished: bool = False  # the cost of training episodes
    beside: tuple[str, ...] = ()  # fields of `Beside`


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
    # state, data (Minibatches or a Rollout), key -> state, metrics
    update: Callable[[Any, Any, jax.Array], tuple[Any, Metrics]]
    network: Callable[[Any], PolicyNetwork]  # state -> what acts greedily
    # state, observations and actions in [-1, 1], one of each per row
    cost_estimate: Callable[..., CostEstimate] | None = None
    needs: Needs = Needs()


def row_width(observation_size: int, action_size: int) -> int:
    """Numbers in one packed replay row."""
    return 2 * observation_size + action_size + 4


def transition_from_row(row: jax.Array, observation_size: int, action_size: int) -> Transition:
    """Read one packed replay row, [..., width]; `training.replay` writes the same order."""
    bounds = list(accumulate([observation_size, action_size, 1, 1, 1, 1]))
    parts = jnp.split(row, bounds, axis=-1)
    reward, cost, reward_continues, cost_continues = (part[..., 0] for part in parts[2:6])
    return Transition(parts[0], parts[1], reward, cost, reward_continues, cost_continues, parts[6])


class Also(NamedTuple):
    """What one update is given besides its batch; see `Minibatches`."""

    recent: Transition | None  # [batch, ...]
    beside: Beside  # [batch]


def over_minibatches(step: Callable[..., tuple[Any, Metrics]]) -> Callable[..., Any]:
    """Turn `step(state, batch, key, index)` into an update over minibatches.

    The index counts within one block of updates, of which this call makes some.
    """
    return over_all(lambda state, batch, key, index, also: step(state, batch, key, index), Needs())


def over_all(step: Callable[..., tuple[Any, Metrics]], needs: Needs) -> Callable[..., Any]:
    """The same for `step(state, batch, key, index, also)`."""

    def update(state: Any, data: Minibatches, key: jax.Array) -> tuple[Any, Metrics]:
        check_shapes(data.batches)
        check_needs(data, needs)
        updates = data.batches.reward.shape[0]
        also = Also(data.recent, data.beside)
        keys, indices = jax.random.split(key, updates), data.first + jnp.arange(updates)
        inputs = data.batches, keys, indices, also
        state, metrics = jax.lax.scan(lambda state, x: step(state, *x), state, inputs)
        return state, jax.tree.map(jnp.mean, metrics)

    return update


def check_needs(data: Minibatches, needs: Needs) -> None:
    """That the update is given what it cannot do without; once per trace."""
    leading = data.batches.reward.shape
    for name in needs.beside:
        array = getattr(data.beside, name)
        if array is None or array.shape != leading:
            found = "missing" if array is None else f"of shape {array.shape}"
            raise ValueError(f"beside.{name} is {found}; one for each of {leading} rows is needed")
    if needs.recent_steps:
        if data.recent is None:
            raise ValueError("rows of recent steps are missing, which dual_states='recent' needs")
        check_shapes(data.recent)
    if needs.finished and data.finished is None:
        raise ValueError("the cost of finished episodes is missing, which calibration needs")


def check_shapes(batches: Transition) -> None:
    """That all fields have the same leading axes, [updates, batch]; once per trace."""
    leading = batches.reward.shape
    for name, array in batches._asdict().items():
        vector = name in ("observation", "action", "next_observation")
        if array.shape[: array.ndim - vector] != leading:
            raise ValueError(f"{name} has shape {array.shape}, {leading} rows are needed")
