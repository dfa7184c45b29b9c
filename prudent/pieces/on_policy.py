"""What the on-policy learners share: one epoch's data, two advantages, one improvement.

    dual variable       λ moves once per epoch, by the episodes' measured violation
    two advantages      A_r and A_c by generalised advantage estimation
    combination         A = combine(A_r, A_c, λ): what tells the algorithms apart
    improvement         minibatch passes with a stop on divergence, or one second-order step

`on_policy` runs these in this order; an algorithm's file hands it the pieces.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from prudent.pieces.advantages import centred, generalised_advantages, standardised
from prudent.pieces.critics import Value, value_function
from prudent.pieces.dual import ASCENTS, Multiplier
from prudent.pieces.networks import STYLES, Trained, clipped_adam, start
from prudent.pieces.policies import Gaussian, gaussian
from prudent.pieces.surrogates import penalised
from prudent.pieces.types import Algorithm, Metrics, Params, PolicyNetwork, Rollout, Spec
from prudent.settings.configs import (
    CostAdvantageConfig,
    FirstOrderConfig,
    LagrangianConfig,
    OnPolicyConfig,
)


class ActorCritic(NamedTuple):
    policy: Trained
    rewards: Trained
    costs: Trained
    multiplier: Any


class Parts(NamedTuple):
    """The pieces at the learning rates of one epoch."""

    policy: Gaussian
    optimiser: optax.GradientTransformation  # the policy's
    rewards: Value
    costs: Value


class Samples(NamedTuple):
    """One epoch, time and environments on one axis."""

    observation: jax.Array  # [B, obs]
    action: jax.Array  # [B, act]
    log_density: jax.Array  # [B], under the policy that collected
    reward_advantage: jax.Array  # [B]
    cost_advantage: jax.Array  # [B]
    reward_target: jax.Array  # [B]
    cost_target: jax.Array  # [B]
    advantage: jax.Array  # [B], the two combined
    weight: jax.Array  # [B], 0 for rows that only fill up a minibatch


class Epoch(NamedTuple):
    """All that an improvement step may read."""

    parts: Parts
    batch: Samples
    cost_weight: jax.Array
    key: jax.Array


Improve = Callable[[ActorCritic, Epoch], tuple[ActorCritic, Metrics]]
Combine = Callable[
    [Samples, jax.Array, jax.Array], jax.Array
]  # batch, multiplier, violation -> [B]


def make_parts(config: OnPolicyConfig, spec: Spec, remaining: float | jax.Array = 1.0) -> Parts:
    """`remaining`, the share of the run still to come, is what decaying rates are scaled by."""
    style = STYLES[config.initial_weights]
    critics_slower = remaining if config.rate_decay == "all" else 1.0
    critic_optimiser = clipped_adam(
        config.critic_learning_rate * critics_slower, config.max_critic_gradient_norm
    )

    def value() -> Value:
        return value_function(
            spec,
            config.hidden,
            style,
            optimiser=critic_optimiser,
            weight_decay=config.critic_weight_decay,
        )

    return Parts(
        policy=gaussian(spec, config.hidden, style, config.initial_log_std),
        optimiser=policy_optimiser(config, remaining),
        rewards=value(),
        costs=value(),
    )


def policy_optimiser(
    config: OnPolicyConfig, remaining: float | jax.Array
) -> optax.GradientTransformation:
    if not isinstance(config, FirstOrderConfig):  # a second-order step needs none
        return optax.identity()
    slower = remaining if config.rate_decay != "none" else 1.0
    return clipped_adam(config.policy_learning_rate * slower, config.max_gradient_norm)


def flat(array: jax.Array) -> jax.Array:
    return array.reshape((-1, *array.shape[2:]))  # [T, N, ...] -> [B, ...]


def estimate(config: OnPolicyConfig, parts: Parts, state: ActorCritic, rollout: Rollout) -> Samples:
    """Advantages and value targets of reward and cost; the combination is left open."""
    now, then = rollout.observation, rollout.next_observation

    def values(critic: Value, trained: Trained) -> tuple[jax.Array, jax.Array]:
        return critic.values(trained, now), critic.values(trained, then)

    reward_values, next_rewards = values(parts.rewards, state.rewards)
    cost_values, next_costs = values(parts.costs, state.costs)
    reward = generalised_advantages(
        rollout.reward,
        reward_values,
        next_rewards,
        rollout.reward_continues,
        rollout.ends,
        (config.discount, config.trace_decay),
    )
    cost = generalised_advantages(
        rollout.cost,
        cost_values,
        next_costs,
        rollout.cost_continues,
        rollout.ends,
        (config.cost_discount, config.cost_trace_decay),
    )
    standardise_cost = isinstance(config, CostAdvantageConfig) and config.standardise_cost
    cost_scaled = standardised(cost, 1e-6) if standardise_cost else centred(cost)
    reward_scaled = standardised(reward) if config.standardise_reward else centred(reward)
    density = parts.policy.log_density(state.policy.params, now, rollout.action)
    nothing = jnp.zeros_like(reward)
    return Samples(
        observation=flat(now),
        action=flat(rollout.action),
        log_density=flat(density),
        reward_advantage=flat(reward_scaled),
        cost_advantage=flat(cost_scaled),
        reward_target=flat(reward + reward_values),
        cost_target=flat(cost + cost_values),
        advantage=flat(nothing),
        weight=flat(nothing + 1.0),
    )


def probability_ratio(policy: Gaussian, params: Params, batch: Samples) -> jax.Array:
    return jnp.exp(policy.log_density(params, batch.observation, batch.action) - batch.log_density)


def fit_critics(parts: Parts, state: ActorCritic, batch: Samples) -> tuple[ActorCritic, Metrics]:
    rewards, reward_error = parts.rewards.fit(
        state.rewards, batch.reward_target, batch.observation, batch.weight
    )
    costs, cost_error = parts.costs.fit(
        state.costs, batch.cost_target, batch.observation, batch.weight
    )
    errors = {"reward_critic_error": reward_error, "cost_critic_error": cost_error}
    return state._replace(rewards=rewards, costs=costs), errors


def adaptive(config: LagrangianConfig) -> Multiplier:
    """The Lagrange multiplier by gradient ascent on λ (J_C - budget), kept within its bounds."""
    rate = config.multiplier_learning_rate
    upper = config.largest_multiplier
    return ASCENTS[config.multiplier](rate, config.initial_multiplier, upper=upper)


def lagrangian(batch: Samples, multiplier: jax.Array, violation: jax.Array) -> jax.Array:
    """(A_r - λ A_c) / (1 + λ)."""
    return penalised(batch.reward_advantage, batch.cost_advantage, multiplier)


def reward_only(batch: Samples, multiplier: jax.Array, violation: jax.Array) -> jax.Array:
    return batch.reward_advantage


def on_policy(
    config: OnPolicyConfig, spec: Spec, dual: Multiplier, combine: Combine, improve: Improve
) -> Algorithm:
    policy = make_parts(config, spec).policy

    def init(key: jax.Array) -> ActorCritic:
        parts = make_parts(config, spec)
        key_policy, key_rewards, key_costs = jax.random.split(key, 3)
        return ActorCritic(
            policy=start(policy.init(key_policy), parts.optimiser),
            rewards=parts.rewards.init(key_rewards),
            costs=parts.costs.init(key_costs),
            multiplier=dual.init(),
        )

    def update(state: ActorCritic, rollout: Rollout, key: jax.Array) -> tuple[ActorCritic, Metrics]:
        # The dual variable first, by what the episodes cost.
        state = state._replace(multiplier=dual.update(state.multiplier, rollout.violation))
        multiplier = dual.value(state.multiplier)

        # Two advantages, made one.
        parts = make_parts(config, spec, rollout.remaining)
        batch = estimate(config, parts, state, rollout)
        batch = batch._replace(advantage=combine(batch, multiplier, rollout.violation))

        # The policy follows it, the critics their targets.
        state, metrics = improve(state, Epoch(parts, batch, multiplier, key))
        return state, {
            **metrics,
            "violation": rollout.violation,
            "multiplier": multiplier,
            "entropy": policy.entropy(state.policy.params),
        }

    def act(state: ActorCritic, observation: jax.Array, key: jax.Array) -> jax.Array:
        return policy.sample(state.policy.params, observation, key)

    def act_greedily(state: ActorCritic, observation: jax.Array) -> jax.Array:
        return policy.mode(state.policy.params, observation)

    def network(state: ActorCritic) -> PolicyNetwork:
        return policy.network(state.policy.params)

    return Algorithm(init, act, act_greedily, update, network)
