"""The dual side of a constrained problem: the multiplier, its budget, where cost is measured.

    violation     G = Q̂ - d,  Q̂ the mean of the cost critics' estimate where it is measured
    multiplier    λ follows G by one of the rules in `ASCENTS`
    budget        d, or d - b where it is calibrated by finished episodes:

        b <- clip(b + min(1, n / W) (J - Q̄ - b), -L |d|, 0.9 |d|)

A multiplier compares Q̂ with d, and holds the wrong number at d where Q̂ is wrong about what episodes
cost. Calibration measures that error each time episodes end: J is the mean cost of the n episodes
in the critics' unit, and Q̄ the mean of Q̂ over the updates since the last ones ended. In the long
run Q̂ - (d - b) is J - d: the constraint on episodes. In the short run b rests, and Q̂ alone answers
to a change of the policy. b averages a measured gap and does not sum violations, so it stays finite
under a budget that cannot be kept. The first W episodes, of a policy and critics that know nothing,
do not count. The bounds limit what few and wild episodes can do; the upper one is below |d| since
no Q̄ can be below 0 where costs are not negative.

A `Dual` has a leading axis [K] everywhere, one entry per limit; most tasks have one. A `Multiplier`
alone is a scalar. SAC's temperature is one too, of the constraint that entropy stay above a floor.

A new rule needs only this file: a function, its entry in `ASCENTS`, its name in `DualConfig`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from prudent.pieces.fast import adam
from prudent.pieces.types import Batch, Metrics, Spec
from prudent.settings.checks import STORED_IF_CHANGED, Count, NotNegative, Positive

if TYPE_CHECKING:  # `soft` imports this module
    from prudent.pieces.soft import SoftActorCritic, SoftState


class Multiplier(NamedTuple):
    """A dual variable: what one unit of violation costs, in units of reward. A violation is the
    constrained quantity minus its bound, so it is positive where the constraint is broken.
    """

    init: Callable[[], Any]
    value: Callable[[Any], jax.Array]  # state -> scalar >= 0
    update: Callable[[Any, jax.Array], Any]  # state, violation -> state


class AscentState(NamedTuple):
    parameter: jax.Array
    optimiser: Any


Optimiser = Callable[[float], optax.GradientTransformation]  # of a learning rate


def _ascent(
    optimiser: optax.GradientTransformation,
    initial: float,
    value: Callable[[jax.Array], jax.Array],
    lower: float | None = None,
    upper: float | None = None,
) -> Multiplier:
    """Gradient ascent on value(parameter) * violation, the parameter clipped to its bounds."""

    def init() -> AscentState:
        parameter = jnp.asarray(initial, jnp.result_type(float))
        return AscentState(parameter, optimiser.init(parameter))

    def update(state: AscentState, violation: jax.Array) -> AscentState:
        descent = -jax.grad(value)(state.parameter) * violation
        step, optimiser_state = optimiser.update(descent, state.optimiser)
        return AscentState(jnp.clip(state.parameter + step, lower, upper), optimiser_state)

    return Multiplier(init, lambda state: value(state.parameter), update)


# Beyond any meaning, but finite: under a budget that cannot be kept a multiplier grows forever, and
# the square of its gradient must still fit a float32.
LARGEST = 1e12


def log_ascent(rate: float, initial: float, optimiser: Optimiser = adam) -> Multiplier:
    """On the logarithm, which keeps the multiplier positive."""
    return _ascent(optimiser(rate), math.log(initial), jnp.exp, upper=math.log(LARGEST))


def softplus_ascent(rate: float, initial: float, optimiser: Optimiser = adam) -> Multiplier:
    """On p with multiplier = log(1 + exp(p))."""
    return _ascent(optimiser(rate), math.log(math.expm1(initial)), jax.nn.softplus)


def projected_ascent(
    rate: float, initial: float, optimiser: Optimiser = adam, upper: float | None = None
) -> Multiplier:
    """On the multiplier itself, clipped into [0, upper]."""
    return _ascent(optimiser(rate), initial, lambda multiplier: multiplier, 0.0, upper)


class PIDState(NamedTuple):
    integral: jax.Array
    error: jax.Array  # the violation seen last
    value: jax.Array


def pid(proportional: float, integral: float, derivative: float) -> Multiplier:
    """Proportional, integral and derivative control of the violation e (Stooke et al., 2020):

    λ = max(0, P max(0, e) + I Σe + D max(0, e - e_before)), the sum kept at 0 or above.
    """

    def init() -> PIDState:
        zero = jnp.zeros((), jnp.result_type(float))
        return PIDState(zero, zero + 0.0, zero + 0.0)

    def update(state: PIDState, violation: jax.Array) -> PIDState:
        total = jnp.maximum(state.integral + violation, 0.0)
        rise = jnp.maximum(violation - state.error, 0.0)
        control = proportional * jnp.maximum(violation, 0.0)
        control = control + integral * total + derivative * rise
        return PIDState(total, violation, jnp.maximum(control, 0.0))

    return Multiplier(init, lambda state: state.value, update)


def fixed(value: float) -> Multiplier:
    """A penalty that never moves; 0 ignores the constraint."""
    return Multiplier(
        init=lambda: (),
        value=lambda state: jnp.asarray(value, jnp.result_type(float)),
        update=lambda state, violation: state,
    )


ASCENTS: dict[str, Callable[..., Multiplier]] = {  # rate, initial value
    "log_adam": log_ascent,
    "softplus_adam": softplus_ascent,
    "projected_adam": projected_ascent,
    "projected_sgd": partial(projected_ascent, optimiser=optax.sgd),
    "fixed": lambda rate, initial: fixed(initial),
}


@dataclass(frozen=True)
class DualConfig:
    """What is read where a multiplier answers to cost critics (`docs/algorithms/cal.md` has the
    equations).
    """

    dual_action: Literal["buffer", "policy"] = "buffer"
    """Actions at which the violation is measured: those in the replay, or fresh ones."""
    multiplier: Literal["log_adam", "projected_sgd", "softplus_adam", "fixed"] = "log_adam"
    """How the Lagrange multiplier is kept and moved."""
    multiplier_learning_rate: Positive = 3e-4
    initial_multiplier: NotNegative = 0.6931
    rescale_policy_loss: bool = False
    """Divide the policy's loss by 1 + cost weight, so that large weights keep the step size."""
    dual_states: Annotated[Literal["replay", "recent"], STORED_IF_CHANGED] = "replay"
    """States at which the violation is measured: all in the replay, or those of recent steps."""
    recent_steps: Annotated[Count, STORED_IF_CHANGED] = 2_000
    """How many environment steps are recent."""
    calibration: Annotated[Literal["none", "episodes"], STORED_IF_CHANGED] = "none"
    """Move the budget of the multiplier by what its estimate misses of training episodes' cost."""
    calibration_episodes: Annotated[Count, STORED_IF_CHANGED] = 10
    """Episodes that this averages over, and that it waits for first."""
    calibration_limit: Annotated[Positive, STORED_IF_CHANGED] = 10.0
    """Farthest that it raises the budget, in multiples of the budget."""
    cost_bounds: Annotated[Literal["none", "task"], STORED_IF_CHANGED] = "none"
    """Clip the cost critics' targets to what the task's range of costs allows. One that declares
    none charges 0 or more."""


def rectify(multiplier: jax.Array, violation: jax.Array, convexity: float) -> jax.Array:
    """Slope of the augmented Lagrangian, max(λ + c G, 0); λ itself if c = 0."""
    return jnp.maximum(multiplier + convexity * violation, 0.0)


LARGEST_CUT = 0.9  # of the budget


class Calibration(NamedTuple):
    shift: jax.Array  # [K], b
    episodes: jax.Array  # [], how many have ended
    estimates: jax.Array  # [K], sum of Q̂ since an episode last ended
    updates: jax.Array  # [], how many that were


class DualState(NamedTuple):
    multiplier: Any  # each leaf [K, ...]
    calibration: Calibration | tuple[()]


class Dual(NamedTuple):
    init: Callable[[], DualState]
    requires: Mapping[str, int]  # extras of a batch
    # state, batch, key of actions for the batch, key of actions for recent states
    # -> observation, action where the violation is measured
    where: Callable[..., tuple[jax.Array, jax.Array]]
    bounded: Callable[[jax.Array], jax.Array]  # cost targets, clipped to what is possible
    hear: Callable[[DualState, Batch], DualState]  # of the episodes that ended before this update
    budget: Callable[[DualState], jax.Array]  # -> [K]
    multiplier: Callable[[DualState], jax.Array]  # -> [K]
    divisor: Callable[[jax.Array], jax.Array | float]  # cost weight [K] -> of the policy's loss
    ascend: Callable[[DualState, jax.Array], DualState]  # state, estimate [K]
    metrics: Callable[[DualState, DualState, jax.Array], Metrics]  # before, after, estimate [K]


def calibrated(
    old: Calibration, batch: Batch, budgets: jax.Array, window: int, limit: float
) -> Calibration:
    """After the episodes that the batch tells of; `window` is W and `limit` L."""
    ended, cost = batch.extras["episodes"], batch.extras["episode_cost"]  # [], [K]
    # Without an update in between nothing was estimated: the next episodes are compared then.
    compared = (ended > 0) & (old.updates > 0)
    gap = cost - old.estimates / jnp.maximum(old.updates, 1)
    share = jnp.minimum(1.0, ended / window)
    bounds = -limit * jnp.abs(budgets), LARGEST_CUT * jnp.abs(budgets)
    moved = jnp.clip(old.shift + share * (gap - old.shift), *bounds)
    counts = compared & (old.episodes >= window)
    return Calibration(
        shift=jnp.where(counts, moved, old.shift).astype(old.shift.dtype),
        episodes=old.episodes + jnp.where(compared, ended, 0).astype(jnp.int32),
        estimates=jnp.where(compared, 0.0, old.estimates).astype(old.estimates.dtype),
        updates=jnp.where(compared, 0, old.updates).astype(jnp.int32),
    )


def make_dual(
    config: DualConfig, spec: Spec, agent: "SoftActorCritic", rule: Multiplier | None = None
) -> Dual:
    """`rule` says how a multiplier moves; by default the settings do."""
    if rule is None:
        ascent = ASCENTS[config.multiplier]
        rule = ascent(config.multiplier_learning_rate, config.initial_multiplier)
    budgets = jnp.atleast_1d(jnp.asarray(spec.cost_budget, jnp.result_type(float)))
    # One for each limit. The size is named, since a rule may have no state.
    multiplier = Multiplier._make(jax.vmap(part, axis_size=len(budgets)) for part in rule)
    by_episodes, recent = config.calibration == "episodes", config.dual_states == "recent"
    requires = {"recent": config.recent_steps} if recent else {}
    requires |= {"episodes": 1, "episode_cost": len(budgets)} if by_episodes else {}

    def init() -> DualState:
        zero, none = jnp.zeros_like(budgets), jnp.zeros((), jnp.int32)
        begun = Calibration(zero, none, zero + 0.0, none + 0) if by_episodes else ()
        return DualState(multiplier.init(), begun)

    def where(
        state: "SoftState", batch: Batch, key: jax.Array, key_recent: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        rows, key = (batch.extras["recent"], key_recent) if recent else (batch, key)
        if config.dual_action == "buffer":
            return rows.observation, agent.seen(rows.action)
        action, _ = agent.sample(state.policy.params, rows.observation, key)
        return rows.observation, action

    def bounded(targets: jax.Array) -> jax.Array:
        if config.cost_bounds == "none":
            return targets
        return jnp.clip(targets, spec.least_cost_ahead, spec.largest_cost_ahead)

    def hear(state: DualState, batch: Batch) -> DualState:
        if not isinstance(state.calibration, Calibration):
            return state
        window, limit = config.calibration_episodes, config.calibration_limit
        told = calibrated(state.calibration, batch, budgets, window, limit)
        return state._replace(calibration=told)

    def budget(state: DualState) -> jax.Array:
        return budgets - state.calibration.shift if state.calibration else budgets

    def rounded(state: DualState, estimate: jax.Array) -> jax.Array:
        """The estimate as versions before 0.5 rounded it, so that records stay the same."""
        if not isinstance(state.calibration, Calibration):
            return estimate
        return (estimate - budget(state)) + budget(state)

    def ascend(state: DualState, estimate: jax.Array) -> DualState:
        moved = multiplier.update(state.multiplier, estimate - budget(state))
        if not isinstance(state.calibration, Calibration):
            return state._replace(multiplier=moved)
        old = state.calibration
        estimates = old.estimates + rounded(state, estimate).astype(old.estimates.dtype)
        return DualState(moved, old._replace(estimates=estimates, updates=old.updates + 1))

    def metrics(before: DualState, after: DualState, estimate: jax.Array) -> Metrics:
        values = {
            "cost_estimate": rounded(before, estimate),
            "violation": estimate - budget(before),
            "multiplier": multiplier.value(after.multiplier),
        }
        if by_episodes:
            values["effective_budget"] = budget(before)
        return {  # scalars; those of several limits are numbered
            name if len(budgets) == 1 else f"{name}_{k}": each[k]
            for name, each in values.items()
            for k in range(len(budgets))
        }

    return Dual(
        init=init,
        requires=requires,
        where=where,
        bounded=bounded,
        hear=hear,
        budget=budget,
        multiplier=lambda state: multiplier.value(state.multiplier),
        divisor=lambda weight: 1.0 + jnp.sum(weight) if config.rescale_policy_loss else 1.0,
        ascend=ascend,
        metrics=metrics,
    )
