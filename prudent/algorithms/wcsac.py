"""WCSAC: worst-case soft actor-critic with a Gaussian cost (Yang et al., AAAI 2021).

The cost return of (s, a) is taken for Gaussian, with a learned mean Q_c and variance V_c, and the
constraint is put on the mean of its worst outcomes:

    cost at risk    C(s, a) = Q_c(s, a) + κ(α) sqrt(V_c(s, a)),  κ(α) = φ(Φ⁻¹(α)) / α
    variance        V_c towards  q² + 2γ q Q_c' + γ² (V_c' + Q_c'²) - Q_c²
    violation       G = E[C(s, a)] - d, a from the replay
    policy          minimise  α_T log π - min_j Q_r^j + (β + ζ G) C
    multiplier      ascend    β G

α is `risk_level`, β `multiplier`, ζ `damping`, β + ζ G `cost_weight` (of either sign unless
`clip_damping`), α_T `temperature`, d `cost_budget`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from prudent.algorithms.entry import Entry
from prudent.algorithms.presets import baseline_presets
from prudent.compute import critics, jax, jnp, multipliers, networks, policies, soft, types
from prudent.settings.checks import Finite, NotNegative, Positive, PositiveShare, Values
from prudent.settings.configs import OffPolicyConfig
from prudent.settings.schedules import OffPolicySchedule
from prudent.tasks.task import Task


@dataclass(frozen=True)
class WCSACConfig(OffPolicyConfig):
    learning_rate: Positive = 1e-3
    """Adam's rate for every network and the temperature."""
    multiplier_learning_rate: Positive = 0.05
    target_entropy: Finite | None = None
    """Entropy floor of the policy; by default minus the number of action dimensions."""
    risk_level: PositiveShare = 0.1
    """Share of the worst outcomes that the constraint is about; 1: all, that is, the mean."""
    damping: NotNegative = 10.0
    """How much the price of cost answers to the violation itself (zeta)."""
    clip_damping: bool = False
    """Keep that price at 0 or above, as CAL does; the reference lets it reward cost when safe."""
    cost_mask: Literal["task", "never"] = "task"
    """Stop the targets of cost and variance where the task says so (as CAL does), or never."""


# The paper's runs, as far as it and their code say.
SCHEDULE: Values = {
    "warmup_steps": 500,
    "updates_per_step": 1,
    "update_every": 100,
    "updates_cap": None,
    "batch_size": 256,
}


def presets(task: Task) -> dict[str, Values]:
    return baseline_presets(WCSACConfig, task, SCHEDULE)


class CostTargets(NamedTuple):
    """What the critics of cost and variance are fitted to."""

    cost: jax.Array  # [B]
    variance: jax.Array  # [B]
    clipped: jax.Array  # share of the variances that had to be


def wcsac(config: WCSACConfig, spec: types.Spec) -> types.Algorithm:
    optimiser = networks.adam(config.learning_rate)

    def critic(size: int, **options: Any) -> critics.Critic:
        return critics.q_ensemble(
            spec,
            config.hidden,
            networks.STYLES["relu-xavier"],
            size=size,
            optimiser=optimiser,
            target_rate=config.target_rate,
            loss_over_members=lambda errors: 0.5 * jnp.sum(errors),
            **options,
        )

    rewards, costs = critic(2), critic(1)
    variances = critic(1, output=critics.positive, error=critics.wasserstein)
    multiplier = multipliers.softplus_ascent(
        networks.adam(config.multiplier_learning_rate), math.log(2.0)
    )
    floor = config.target_entropy
    parts = soft.soft_actor_critic(
        spec,
        policies.tanh_gaussian(spec, config.hidden),
        {"rewards": rewards, "costs": costs, "variances": variances},
        multipliers.softplus_ascent(optimiser, math.log(2.0)),
        multiplier,
        optimiser=optimiser,
        discount=config.discount,
        target_entropy=-float(spec.action_size) if floor is None else floor,
        seen=lambda action: policies.in_environment_units(spec, action),
    )

    def cost_at_risk(state: soft.SoftState, *inputs: jax.Array) -> jax.Array:
        mean = costs.values(state.costs, *inputs)[0]
        variance = variances.values(state.variances, *inputs)[0]
        return critics.conditional_value_at_risk(mean, variance, config.risk_level)

    def cost_targets(
        state: soft.SoftState, batch: types.Transition, following: soft.Following
    ) -> CostTargets:
        then = following.observation, following.action
        on_task = config.cost_mask == "task"
        ahead = critics.NextReturn(
            mean=costs.target_values(state.costs, *then)[0],
            variance=variances.target_values(state.variances, *then)[0],
            continues=batch.cost_continues if on_task else jnp.ones_like(batch.cost_continues),
        )
        mean = costs.values(state.costs, batch.observation, parts.seen(batch.action))[0]
        variance = critics.variance_target(batch.cost, config.cost_discount, ahead, mean)
        bounded = jnp.clip(variance, critics.VARIANCE_MIN, critics.VARIANCE_MAX)
        return CostTargets(
            cost=batch.cost + config.cost_discount * ahead.continues * ahead.mean,
            variance=bounded,
            clipped=jnp.mean(bounded != variance),
        )

    def step(
        state: soft.SoftState, batch: types.Transition, key: jax.Array, index: jax.Array
    ) -> tuple[soft.SoftState, types.Metrics]:
        key_next, key_now = jax.random.split(key)
        now = batch.observation

        # Critics first, each towards its own target, one sampled action ahead.
        following = parts.follow(state, batch, key_next)
        targets = cost_targets(state, batch, following)
        state, errors = parts.fit(
            state,
            batch,
            rewards=parts.reward_target(state, batch, following)[None],
            costs=targets.cost[None],
            variances=targets.variance[None],
        )

        # Then the policy, against the critics just learned: it trades entropy and reward against
        # cost at risk, whose weight grows with the violation.
        price_before = multiplier.value(state.multiplier)
        violation = jnp.mean(cost_at_risk(state, now, parts.seen(batch.action))) - spec.cost_budget
        weight = price_before + config.damping * violation
        if config.clip_damping:
            weight = multipliers.rectify(price_before, violation, config.damping)

        def price(action: jax.Array) -> soft.Price:
            return soft.Price(cost_at_risk(state, now, action), weight, violation)

        improved = parts.improve(state, now, key_now, price)

        # The dual variables answer to their constraints; the bootstrap copies drift.
        new_state = parts.advance(state, improved, multiplier.update(state.multiplier, violation))
        return new_state, {
            **errors,
            **parts.metrics(new_state, improved),
            "variance_target": jnp.mean(targets.variance),
            "variance_clipped": targets.clipped,
            "cost_weight": weight,
        }

    def estimate(state: soft.SoftState, *inputs: jax.Array) -> types.CostEstimate:
        mean = costs.values(state.costs, *inputs)[0]
        deviation = jnp.sqrt(variances.values(state.variances, *inputs)[0])
        return types.CostEstimate(mean, deviation, cost_at_risk(state, *inputs))

    return parts.algorithm(step, estimate)


WCSAC = Entry(
    "wcsac",
    "SAC that bounds the mean of the worst outcomes",
    wcsac,
    WCSACConfig,
    OffPolicySchedule,
    presets,
)
