"""SAC-Lag: soft actor-critic with one cost critic and a Lagrange multiplier.

    violation     G = E[Q_c(s, a)] - d
    policy        minimise  α log π - min_j Q_r^j + λ Q_c
    multiplier    ascend    λ G

λ is `multiplier`, d `cost_budget`, α `temperature`. With λ fixed at 0 this is unconstrained SAC,
whose cost is estimated all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from prudent.algorithms.presets import conservative_entry
from prudent.compute import (
    calibration,
    critics,
    jax,
    jnp,
    multipliers,
    networks,
    policies,
    soft,
    types,
)
from prudent.settings.checks import Count, Finite, NotNegative, Positive
from prudent.settings.configs import DualConfig, OffPolicyConfig


@dataclass(frozen=True)
class SACConfig(OffPolicyConfig):
    learning_rate: Positive = 3e-4
    """Adam's rate for the policy, the reward critics, the temperature."""
    cost_learning_rate: Positive = 3e-4
    """Adam's rate for the cost critics."""
    target_period: Count = 2
    """Updates between two moves of the target copies."""
    target_counter: Literal["inner", "global"] = "inner"
    """Count that period within one environment step (as the official code) or over the run."""
    target_entropy: Finite | None = None
    """Entropy floor of the policy; by default minus the number of action dimensions."""
    initial_temperature: Positive = 1.0
    cost_network: Literal["silu-normal", "relu-xavier"] = "silu-normal"
    """Activation and initial weights of the cost critics."""
    critic_action_units: Literal["env", "unit"] = "env"
    """Whether critics see actions in the environment's units or in [-1, 1]."""


@dataclass(frozen=True)
class SACLagConfig(DualConfig, SACConfig):
    dual_action: Literal["buffer", "policy"] = "buffer"
    """Actions at which the violation is measured: those in the replay, or fresh ones."""
    multiplier: Literal["log_adam", "projected_sgd", "softplus_adam", "fixed"] = "log_adam"
    """How the Lagrange multiplier is kept and moved."""
    multiplier_learning_rate: Positive = 3e-4
    initial_multiplier: NotNegative = 0.6931
    rescale_policy_loss: bool = False
    """Divide the policy's loss by 1 + cost weight, so that large weights keep the step size."""


def sac_critics(
    config: SACConfig, spec: types.Spec, cost_critics: int = 1, cost_loss: str = "mean"
) -> dict[str, critics.Critic]:
    """Two reward critics, of which the lower is believed, and the cost critics."""
    return {
        "rewards": critics.q_ensemble(
            spec,
            config.hidden,
            networks.STYLES["relu-xavier"],
            size=2,
            optimiser=networks.adam(config.learning_rate),
            target_rate=config.target_rate,
        ),
        "costs": critics.q_ensemble(
            spec,
            config.hidden,
            networks.STYLES[config.cost_network],
            size=cost_critics,
            optimiser=networks.adam(config.cost_learning_rate),
            target_rate=config.target_rate,
            loss_over_members=jnp.sum if cost_loss == "sum" else jnp.mean,
        ),
    }


def sac_parts(
    config: SACConfig,
    spec: types.Spec,
    estimates: dict[str, critics.Critic],
    multiplier: multipliers.Multiplier | multipliers.Owned,
) -> soft.SoftActorCritic:
    optimiser = networks.adam(config.learning_rate)
    floor = config.target_entropy
    in_units = config.critic_action_units == "env"
    return soft.soft_actor_critic(
        spec,
        policies.tanh_gaussian(spec, config.hidden),
        estimates,
        multipliers.log_ascent(optimiser, config.initial_temperature),
        multiplier,
        optimiser=optimiser,
        discount=config.discount,
        target_entropy=-float(spec.action_size) if floor is None else floor,
        seen=lambda a: policies.in_environment_units(spec, a) if in_units else a,
        calibration=calibration_of(config, spec),
    )


def calibration_of(config: SACConfig, spec: types.Spec) -> calibration.Calibration | None:
    if not isinstance(config, DualConfig) or config.calibration == "none":
        return None
    window, limit = config.calibration_episodes, config.calibration_limit
    return calibration.to_episodes(spec.cost_budget, window, limit)


def needs_of(config: SACConfig, beside: tuple[str, ...] = ()) -> types.Needs:
    """What the options of the dual ask for."""
    if not isinstance(config, DualConfig):
        return types.Needs()
    recent = config.recent_steps if config.dual_states == "recent" else 0
    return types.Needs(recent, config.calibration == "episodes", beside)


def recent_rows(
    parts: soft.SoftActorCritic,
    state: soft.SoftState,
    rows: types.Transition | None,
    dual_action: str,
    key: jax.Array | None = None,
) -> soft.Where | None:
    """Where the violation is measured; None where that is not among recent steps."""
    if rows is None or key is None:
        return None
    if dual_action == "buffer":
        return soft.Where(rows.observation, parts.seen(rows.action))
    return soft.Where(rows.observation, parts.fresh(state, rows.observation, key))


def within_bounds(config: SACConfig, spec: types.Spec, targets: jax.Array) -> jax.Array:
    """Cost targets clipped to what can be to come at all, where that is known and wanted."""
    if not isinstance(config, DualConfig) or config.cost_bounds == "none":
        return targets
    return jnp.clip(targets, spec.least_cost_ahead, spec.largest_cost_ahead)


def moved_budget(parts: soft.SoftActorCritic, state: soft.SoftState) -> jax.Array | None:
    """What the violation is measured from, where it is not the task's own budget."""
    return None if parts.calibration is None else parts.calibration.budget(state.calibration)


def targets_due(config: SACConfig, state: soft.SoftState, index: jax.Array) -> jax.Array:
    """Whether the target copies move after the update that is `index` in its block."""
    count = index if config.target_counter == "inner" else state.updates
    return count % config.target_period == 0


def lagrangian_sac(
    config: SACConfig,
    spec: types.Spec,
    multiplier: multipliers.Multiplier,
    dual_action: str = "buffer",
    rescale: bool = False,
) -> types.Algorithm:
    estimates = sac_critics(config, spec)
    parts, costs = sac_parts(config, spec, estimates, multiplier), estimates["costs"]
    needs = needs_of(config)

    def step(
        state: soft.SoftState,
        batch: types.Transition,
        key: jax.Array,
        index: jax.Array,
        also: types.Also,
    ) -> tuple[soft.SoftState, types.Metrics]:
        key_next, key_now, *key_dual = jax.random.split(key, 3 if needs.recent_steps else 2)
        now, weight = batch.observation, multiplier.value(state.multiplier)

        # Critics first, each towards its own target, one sampled action ahead.
        following = parts.follow(state, batch, key_next)
        ahead = costs.target_values(state.costs, following.observation, following.action)  # [1, B]
        targets = batch.cost[None] + config.cost_discount * batch.cost_continues[None] * ahead
        state, errors = parts.fit(
            state,
            batch,
            rewards=parts.reward_target(state, batch, following)[None],
            costs=within_bounds(config, spec, targets),
        )

        # Then the policy, against the critics just learned.
        taken = costs.values(state.costs, now, parts.seen(batch.action))[0]
        recent = recent_rows(parts, state, also.recent, dual_action, *key_dual)
        budget = moved_budget(parts, state)

        def price(action: jax.Array) -> soft.Price:
            cost = costs.values(state.costs, now, action)[0]
            measured = taken if dual_action == "buffer" else cost
            if recent is not None:
                measured = costs.values(state.costs, *recent)[0]
            limit = spec.cost_budget if budget is None else budget
            violation = jax.lax.stop_gradient(jnp.mean(measured)) - limit
            divisor = 1.0 + weight if rescale else 1.0
            return soft.Price(cost, weight, violation, divisor=divisor, budget=budget)

        improved = parts.improve(state, now, key_now, price)

        # The two dual variables answer to their constraints, the bootstrap copies drift.
        raised = multiplier.update(state.multiplier, improved.price.violation)
        new_state = parts.advance(state, improved, raised, targets_due(config, state, index))
        return new_state, {
            **errors,
            **parts.metrics(new_state, improved),
            "cost_weight": weight,
            "ensemble_spread": jnp.zeros_like(weight),  # of a single critic
        }

    def estimate(state: soft.SoftState, *inputs: jax.Array) -> types.CostEstimate:
        return critics.one_estimate(costs.values(state.costs, *inputs))

    return parts.algorithm(step, estimate, needs)


def sac_lag(config: SACLagConfig, spec: types.Spec) -> types.Algorithm:
    ascent = multipliers.ASCENTS[config.multiplier]
    multiplier = ascent(config.multiplier_learning_rate, config.initial_multiplier)
    return lagrangian_sac(config, spec, multiplier, config.dual_action, config.rescale_policy_loss)


def sac(config: SACConfig, spec: types.Spec) -> types.Algorithm:
    return lagrangian_sac(config, spec, multipliers.fixed(0.0))


SAC_LAG = conservative_entry(
    "sac-lag", "SAC with one cost critic and a Lagrange multiplier", sac_lag, SACLagConfig
)
SAC = conservative_entry("sac", "soft actor-critic, cost ignored but estimated", sac, SACConfig)
