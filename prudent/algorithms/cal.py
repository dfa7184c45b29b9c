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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from prudent.algorithms.presets import conservative_entry
from prudent.algorithms.sac_lag import SACLagConfig, sac_critics, sac_parts, targets_due
from prudent.compute import critics, jax, jnp, multipliers, soft, types
from prudent.settings import Count, CountOrZero, NotNegative


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


@dataclass(frozen=True)
class CALConfig(UCBConfig):
    convexity: NotNegative = 10.0
    """Strength of the augmented Lagrangian's quadratic term (c)."""


def cal(config: CALConfig, spec: types.Spec) -> types.Algorithm:
    return conservative_lagrangian(config, spec, config.convexity)


def ucb(config: UCBConfig, spec: types.Spec) -> types.Algorithm:
    return conservative_lagrangian(config, spec, convexity=0.0)


def conservative_lagrangian(
    config: UCBConfig, spec: types.Spec, convexity: float
) -> types.Algorithm:
    ascent = multipliers.ASCENTS[config.multiplier]
    multiplier = ascent(config.multiplier_learning_rate, config.initial_multiplier)
    estimates = sac_critics(config, spec, config.cost_critics, config.cost_loss)
    parts, costs = sac_parts(config, spec, estimates, multiplier), estimates["costs"]

    def conservative(values: jax.Array) -> jax.Array:
        return critics.upper_confidence(values, config.conservatism, config.spread_ddof)

    def cost_targets(
        state: soft.SoftState, batch: types.Transition, following: soft.Following, key: jax.Array
    ) -> jax.Array:
        """[E, B], each member from its own target copy or all from the highest of a few."""
        ahead = costs.target_values(state.costs, following.observation, following.action)
        if config.random_targets:
            highest = critics.highest_of_random_members(ahead, config.random_targets, key)
            ahead = jnp.broadcast_to(highest[None], ahead.shape)
        return batch.cost[None] + config.cost_discount * batch.cost_continues[None] * ahead

    def step(
        state: soft.SoftState, batch: types.Transition, key: jax.Array, index: jax.Array
    ) -> tuple[soft.SoftState, types.Metrics]:
        key_next, key_now, key_members = jax.random.split(key, 3)
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
        taken = costs.values(state.costs, now, parts.seen(batch.action))  # [E, B]

        def price(action: jax.Array) -> soft.Price:
            cost = conservative(costs.values(state.costs, now, action))
            measured = conservative(taken) if config.dual_action == "buffer" else cost
            violation = jax.lax.stop_gradient(jnp.mean(measured)) - spec.cost_budget
            weight = multipliers.rectify(multiplier.value(state.multiplier), violation, convexity)
            divisor = 1.0 + weight if config.rescale_policy_loss else 1.0
            return soft.Price(cost, weight, violation, divisor=divisor)

        improved = parts.improve(state, now, key_now, price)

        # The two dual variables answer to their constraints, the bootstrap copies drift.
        raised = multiplier.update(state.multiplier, improved.price.violation)
        new_state = parts.advance(state, improved, raised, targets_due(config, state, index))
        return new_state, {
            **errors,
            **parts.metrics(new_state, improved),
            "cost_weight": improved.price.weight,
            "ensemble_spread": jnp.mean(critics.spread(taken, config.spread_ddof)),
        }

    def estimate(state: soft.SoftState, *inputs: jax.Array) -> types.CostEstimate:
        values = costs.values(state.costs, *inputs)
        spread = critics.spread(values, config.spread_ddof)
        return types.CostEstimate(jnp.mean(values, axis=0), spread, conservative(values))

    return parts.algorithm(step, estimate)


CAL = conservative_entry(
    "cal", "conservative augmented Lagrangian SAC (the paper's method)", cal, CALConfig
)
UCB = conservative_entry("ucb", "CAL without the quadratic term (UCB-k)", ucb, UCBConfig)
