"""CAL: Conservative Augmented Lagrangian (Wu et al., ICLR 2024).

Soft actor-critic that maximises reward while the expected cost stays under a budget d.

    conservative cost   Q_U(s, a) = mean_i Q_c^i(s, a) + k * std_i Q_c^i(s, a)
    violation           G = E[Q_U(s, a)] - d
    cost weight         λ~ = max(0, λ + c * G)
    policy              minimise  α * log π - min_j Q_r^j + λ~ * Q_U
    multiplier          ascend    λ * G

λ is `multiplier`, λ~ `cost_weight`, k `conservatism`, c `convexity`, α `temperature`, E
`cost_critics`. With c = 0 this is the paper's "UCB-k"; with one cost critic and k = 0 as well it is
SAC-Lag, which has a file of its own.

With `constraint="ratio"` the quotient of cost and reward to come takes the place of Q_U, above a
floor under the reward: C = Q_U / max(mean_j Q_r^j, ε B), G = E[C] - d, B `reward_budget`. With
`multiplier_scope` there are several λ, each for the rows of its owner (`multipliers.Owned`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from prudent.algorithms.presets import conservative_entry
from prudent.algorithms.sac_lag import (
    SACLagConfig,
    moved_budget,
    needs_of,
    recent_rows,
    sac_critics,
    sac_parts,
    targets_due,
    within_bounds,
)
from prudent.compute import critics, jax, jnp, multipliers, soft, types
from prudent.settings.checks import LATER, Count, CountOrZero, NotNegative, PositiveShare


@dataclass(frozen=True)
class UCBConfig(SACLagConfig):
    cost_critics: Count = 4
    """Size of the cost ensemble (E)."""
    cost_loss: Literal["mean", "sum"] = "mean"
    """How the members' squared errors are joined; felt only through Adam's epsilon."""
    conservatism: NotNegative = 0.5
    """Standard deviations added to the ensemble's mean (k)."""
    spread_ddof: Literal[0, 1] = 1
    """Divide the ensemble's variance by E - 1 (1, the official code) or by E (0, the paper)."""
    random_targets: CountOrZero = 0
    """Bootstrap all members from the highest of this many randomly drawn target copies
    (`intrgt_max`); 0: each member from its own."""
    constraint: Annotated[Literal["sum", "ratio"], LATER] = "sum"
    """What the budget limits: the sum of costs, or the sum of costs over that of rewards."""
    ratio_floor: Annotated[PositiveShare, LATER] = 0.01
    """Of a ratio's denominator, as a share of the most reward there can be (epsilon)."""
    multiplier_scope: Annotated[Literal["global", "group", "advertiser"], LATER] = "global"
    """One multiplier for all rows, one for each group of them, or one for each advertiser that
    answers to measurements instead of critics."""
    multiplier_count: Annotated[Count, LATER] = 1
    """How many groups or advertisers there are."""


@dataclass(frozen=True)
class CALConfig(UCBConfig):
    convexity: NotNegative = 10.0
    """Strength of the augmented Lagrangian's quadratic term (c)."""


def cal(config: CALConfig, spec: types.Spec) -> types.Algorithm:
    return conservative_lagrangian(config, spec, config.convexity)


def ucb(config: UCBConfig, spec: types.Spec) -> types.Algorithm:
    return conservative_lagrangian(config, spec, convexity=0.0)


def beside_of(config: UCBConfig) -> tuple[str, ...]:
    """What rows must carry; refuses what does not go together."""
    scoped, ratio = config.multiplier_scope != "global", config.constraint == "ratio"
    if config.dual_states == "recent" and (scoped or ratio):
        raise ValueError(
            "dual_states='recent' knows no owners and no budgets of its rows; with "
            f"{'multiplier_scope' if scoped else 'constraint'}="
            f"'{config.multiplier_scope if scoped else 'ratio'}' choose dual_states='replay'"
        )
    if config.calibration == "episodes" and ratio:
        raise ValueError(
            "calibration='episodes' compares costs with costs, and constraint='ratio' limits a "
            "quotient; choose calibration='none'"
        )
    return ("owner",) * scoped + ("reward_budget",) * ratio


def owned_multiplier(
    config: UCBConfig, multiplier: multipliers.Multiplier
) -> multipliers.Owned | None:
    if config.multiplier_scope == "global":
        return None
    if config.multiplier_scope == "group":
        return multipliers.by_group(multiplier, config.multiplier_count)
    return multipliers.table(config.multiplier_count, config.initial_multiplier)


def conservative_lagrangian(
    config: UCBConfig, spec: types.Spec, convexity: float
) -> types.Algorithm:
    ascent = multipliers.ASCENTS[config.multiplier]
    multiplier = ascent(config.multiplier_learning_rate, config.initial_multiplier)
    owned = owned_multiplier(config, multiplier)
    estimates = sac_critics(config, spec, config.cost_critics, config.cost_loss)
    parts, costs = sac_parts(config, spec, estimates, owned or multiplier), estimates["costs"]
    needs = needs_of(config, beside_of(config))

    def conservative(values: jax.Array) -> jax.Array:
        return critics.upper_confidence(values, config.conservatism, config.spread_ddof)

    def constrained(
        state: soft.SoftState, values: jax.Array, where: soft.Where, beside: types.Beside
    ) -> jax.Array:
        """[B], from the cost critics' values [E, B] there: what the budget limits."""
        cost = conservative(values)
        if config.constraint == "sum":
            return cost
        # The mean of both: their minimum would make pay look small, and the limit kept.
        reward = jnp.mean(estimates["rewards"].values(state.rewards, *where), axis=0)
        return cost / jnp.maximum(reward, config.ratio_floor * beside.reward_budget)

    def answered(
        state: soft.SoftState, measured: jax.Array, budget: jax.Array | None, also: types.Also
    ) -> soft.Price:
        """Price of a cost that is still to be named, from what was measured of the limit, [B]."""
        limit = spec.cost_budget if budget is None else budget
        if also.beside.accrued is not None:
            if config.constraint == "ratio":
                raise ValueError("beside.accrued is part of a sum; constraint='ratio' takes none")
            measured = measured + also.beside.accrued
        violation = jax.lax.stop_gradient(jnp.mean(measured)) - limit
        if owned is None:
            weight = multipliers.rectify(multiplier.value(state.multiplier), violation, convexity)
            return soft.Price(measured, weight, violation, budget=budget)
        each = jax.lax.stop_gradient(measured) - limit
        answer = owned.answer(state.multiplier, each, also.beside.owner, convexity)
        return soft.Price(measured, answer.weight, violation, answer.raised, budget=budget)

    def cost_targets(
        state: soft.SoftState, batch: types.Transition, following: soft.Following, key: jax.Array
    ) -> jax.Array:
        """[E, B], each member from its own target copy or all from the highest of a few."""
        ahead = costs.target_values(state.costs, following.observation, following.action)
        if config.random_targets:
            highest = critics.highest_of_random_members(ahead, config.random_targets, key)
            ahead = jnp.broadcast_to(highest[None], ahead.shape)
        targets = batch.cost[None] + config.cost_discount * batch.cost_continues[None] * ahead
        return within_bounds(config, spec, targets)

    def step(
        state: soft.SoftState,
        batch: types.Transition,
        key: jax.Array,
        index: jax.Array,
        also: types.Also,
    ) -> tuple[soft.SoftState, types.Metrics]:
        keys = jax.random.split(key, 4 if needs.recent_steps else 3)
        key_next, key_now, key_members, *key_dual = keys
        now = batch.observation

        # Critics first, each towards its own target, one sampled action ahead.
        following = parts.follow(state, batch, key_next)
        state, errors = parts.fit(
            state,
            batch,
            rewards=parts.reward_target(state, batch, following)[None],
            costs=cost_targets(state, batch, following, key_members),
        )

        # Then the policy, against the critics just learned: it trades entropy and reward against
        # conservative cost, whose weight grows with the violation.
        before = soft.Where(now, parts.seen(batch.action))
        taken = costs.values(state.costs, *before)  # [E, B]
        recent = recent_rows(parts, state, also.recent, config.dual_action, *key_dual)
        budget = moved_budget(parts, state)

        def price(action: jax.Array) -> soft.Price:
            fresh = soft.Where(now, action)
            cost = constrained(state, costs.values(state.costs, *fresh), fresh, also.beside)
            measured = cost
            if recent is not None:
                measured = conservative(costs.values(state.costs, *recent))
            elif config.dual_action == "buffer":
                measured = constrained(state, taken, before, also.beside)
            paid = answered(state, measured, budget, also)
            divisor = 1.0 + jnp.mean(paid.weight) if config.rescale_policy_loss else 1.0
            return paid._replace(cost=cost, divisor=divisor)

        improved = parts.improve(state, now, key_now, price)

        # The two dual variables answer to their constraints, the bootstrap copies drift.
        raised = improved.price.multiplier
        if owned is None:
            raised = multiplier.update(state.multiplier, improved.price.violation)
        new_state = parts.advance(state, improved, raised, targets_due(config, state, index))
        return new_state, {
            **errors,
            **parts.metrics(new_state, improved),
            "cost_weight": jnp.mean(improved.price.weight),
            "ensemble_spread": jnp.mean(critics.spread(taken, config.spread_ddof)),
        }

    def estimate(state: soft.SoftState, *inputs: jax.Array) -> types.CostEstimate:
        values = costs.values(state.costs, *inputs)
        spread = critics.spread(values, config.spread_ddof)
        return types.CostEstimate(jnp.mean(values, axis=0), spread, conservative(values))

    return parts.algorithm(step, estimate, needs)


CAL = conservative_entry(
    "cal", "conservative augmented Lagrangian SAC (the paper's method)", cal, CALConfig
)
UCB = conservative_entry("ucb", "CAL without the quadratic term (UCB-k)", ucb, UCBConfig)
