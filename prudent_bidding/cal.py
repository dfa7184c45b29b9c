"""CAL for logged days of many advertisers: limits on a quotient, several multipliers.

It is `prudent.algorithms.cal` with three options, each at its default there:

    constraint="ratio"                C = Q_U / max(mean_j Q_r^j, ε B) takes the place of Q_U, with
                                      B the most reward of an episode, ε `ratio_floor`
    multiplier_scope                  λ~ = max(0, λ_i + c G_i) with i the owner of the row, its
                                      group or its advertiser
    constraint_at="accumulated"       what an episode has cost before the row counts for G too

The batch tells of each row its `owner`, the `reward_budget` B and what has `accrued`, as far as the
options ask.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp

from prudent.algorithms.cal import CALConfig
from prudent.algorithms.entry import Entry
from prudent.pieces.critics import highest_of_random_members, spread, upper_confidence
from prudent.pieces.dual import ASCENTS, DualConfig, DualState, make_dual
from prudent.pieces.soft import SoftState, sac_agent
from prudent.pieces.types import Algorithm, Batch, CostEstimate, Metrics, Spec
from prudent.settings.checks import Count, PositiveShare
from prudent.settings.schedules import OffPolicySchedule
from prudent_bidding.multipliers import Owned, by_group, shared, table

# Settings of CAL that look at the present policy's steps and episodes.
ON_EPISODES = (
    *("dual_states", "recent_steps"),
    *("calibration", "calibration_episodes", "calibration_limit"),
)


@dataclass(frozen=True)
class BiddingCALConfig(CALConfig):
    constraint: Literal["sum", "ratio"] = "sum"
    """What the budget limits: the sum of costs, or the sum of costs over that of rewards."""
    ratio_floor: PositiveShare = 0.01
    """Of a ratio's denominator, as a share of the most reward there can be (epsilon)."""
    constraint_at: Literal["batch", "accumulated"] = "batch"
    """Measure what is to come from a row on, or add what its episode has cost before."""
    multiplier_scope: Literal["global", "group", "advertiser"] = "global"
    """One multiplier for all rows, one for each group of them, or one for each advertiser that
    answers to measurements instead of critics."""
    multiplier_count: Count = 1
    """How many groups or advertisers there are."""


def required(config: BiddingCALConfig) -> Mapping[str, int]:
    """The extras of a batch, one number for each row. Refuses options that cannot be combined."""
    usual = DualConfig()
    refused = [name for name in ON_EPISODES if getattr(config, name) != getattr(usual, name)]
    if refused:
        raise ValueError(
            f"a log has no recent steps or episodes of its policy; leave {', '.join(refused)} as "
            "by default"
        )
    accumulated, ratio = config.constraint_at == "accumulated", config.constraint == "ratio"
    if accumulated and ratio:
        raise ValueError("constraint_at='accumulated' adds to a sum; constraint='ratio' has none")
    asked = {"owner": config.multiplier_scope != "global", "reward_budget": ratio}
    return {name: 1 for name, wanted in {**asked, "accrued": accumulated}.items() if wanted}


def make_multipliers(config: BiddingCALConfig) -> Owned:
    ascent = ASCENTS[config.multiplier]
    multiplier = ascent(config.multiplier_learning_rate, config.initial_multiplier)
    if config.multiplier_scope == "global":
        return shared(multiplier)
    if config.multiplier_scope == "group":
        return by_group(multiplier, config.multiplier_count)
    return table(config.multiplier_count, config.initial_multiplier)


def bidding_cal(config: BiddingCALConfig, spec: Spec) -> Algorithm:
    requires = required(config)
    agent = sac_agent(config, spec, config.cost_critics, config.cost_loss)
    multipliers = make_multipliers(config)
    dual = make_dual(config, spec, agent)._replace(
        init=lambda: DualState(multipliers.init(), ()), requires=requires
    )
    rewards, costs = agent.rewards, agent.costs

    def conservative(values: jax.Array) -> jax.Array:  # [E, B] -> [B]
        return upper_confidence(values, config.conservatism, config.spread_ddof)

    def constrained(state: SoftState, batch: Batch, *where: jax.Array) -> jax.Array:  # [B]
        cost = conservative(costs.values(state.costs, *where))
        if config.constraint == "sum":
            return cost
        # The mean of both: their minimum would make pay look small, and the limit kept.
        reward = jnp.mean(rewards.values(state.rewards, *where), axis=0)
        return cost / jnp.maximum(reward, config.ratio_floor * batch.extras["reward_budget"])

    def step(state: SoftState, batch: Batch, key: jax.Array) -> tuple[SoftState, Metrics]:
        key_next, key_now, key_members = jax.random.split(key, 3)
        s, s2 = batch.observation, batch.next_observation

        # The critics, as CAL's.
        following = agent.sample(state.policy.params, s2, key_next)
        ahead = costs.target_values(state.costs, s2, following.action)  # [E, B]
        if config.random_targets:
            highest = highest_of_random_members(ahead, config.random_targets, key_members)
            ahead = jnp.broadcast_to(highest[None], ahead.shape)
        state, errors = agent.fit(
            state,
            batch,
            rewards=agent.reward_target(state, batch, following),
            costs=dual.bounded(agent.cost_target(batch, ahead)),
        )

        # What is limited, row by row, and how the multipliers answer.
        measured = constrained(state, batch, *dual.where(state, batch, key_now, key_now))
        measured = measured + batch.extras.get("accrued", 0.0)
        answer = multipliers.answer(
            state.dual.multiplier,
            measured - spec.cost_budget,
            batch.extras.get("owner", 0),
            config.convexity,
        )
        weight = answer.weight  # [] or [B]

        # The policy, against the critics just learned.
        def price(action: jax.Array) -> jax.Array:  # [B]
            return weight * constrained(state, batch, s, action)

        divisor = 1.0 + jnp.mean(weight) if config.rescale_policy_loss else 1.0
        policy, entropy = agent.improve(state, s, key_now, price, divisor)

        taken = costs.values(state.costs, s, agent.seen(batch.action))
        new_dual = state.dual._replace(multiplier=answer.new_state)
        state = agent.advance(state, batch, policy, entropy, new_dual)
        return state, {
            **errors,
            "cost_estimate": jnp.mean(measured),
            "violation": jnp.mean(measured) - spec.cost_budget,
            "multiplier": jnp.mean(multipliers.value(new_dual.multiplier)),
            "entropy": entropy,
            "temperature": agent.temperature.value(state.temperature),
            "cost_weight": jnp.mean(weight),
            "ensemble_spread": jnp.mean(spread(taken, config.spread_ddof)),
        }

    def estimate(state: SoftState, *where: jax.Array) -> CostEstimate:
        values = costs.values(state.costs, *where)
        deviation = spread(values, config.spread_ddof)
        return CostEstimate(jnp.mean(values, axis=0), deviation, conservative(values))

    return agent.algorithm(step, dual, estimate)


BIDDING_CAL = Entry(
    "bidding-cal",
    "CAL with multipliers per group or advertiser, and limits on a quotient",
    bidding_cal,
    BiddingCALConfig,
    OffPolicySchedule,
    lambda task: {"default": {}},
)
