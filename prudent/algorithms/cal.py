"""CAL: Conservative Augmented Lagrangian (Wu et al., ICLR 2024).

Soft actor-critic that maximises reward while the expected cost stays under a budget d.

    conservative cost   Q_U(s, a) = mean_i Q_c^i(s, a) + k * std_i Q_c^i(s, a)
    violation           G = E[Q_U(s, a)] - d
    cost weight         λ~ = max(0, λ + c * G)
    policy              minimise  α * log π - min_j Q_r^j + λ~ * Q_U
    multiplier          ascend    λ * G

λ is `multiplier`, λ~ `cost_weight`, k `conservatism`, c `convexity`, α `temperature`, E
`cost_critics`. With one cost critic and k = c = 0 this is SAC-Lag, with c = 0 the paper's "UCB-k",
and with a multiplier fixed at 0 unconstrained SAC.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from prudent.configs import CALConfig
from prudent.pieces.critics import (
    CriticState,
    highest_of_random_members,
    q_ensemble,
    spread,
    upper_confidence,
)
from prudent.pieces.multipliers import (
    Multiplier,
    fixed,
    log_ascent,
    projected_ascent,
    rectify,
    softplus_ascent,
)
from prudent.pieces.networks import STYLES, Trained, adam, descend, start
from prudent.pieces.policies import in_environment_units, tanh_gaussian
from prudent.pieces.types import Algorithm, Metrics, Params, Spec, Transition, over_minibatches


class CALState(NamedTuple):
    policy: Trained
    rewards: CriticState
    costs: CriticState
    temperature: Any
    multiplier: Any
    updates: jax.Array  # gradient steps so far


class Targets(NamedTuple):
    """What the critics are fitted to."""

    reward: jax.Array  # [B]
    cost: jax.Array  # [E, B]


class Improvement(NamedTuple):
    """The policy after its step, and what the dual variables and the record need of it."""

    policy: Trained
    violation: jax.Array
    cost_weight: jax.Array
    entropy: jax.Array
    spread: jax.Array


def make_multiplier(config: CALConfig) -> Multiplier:
    rate, initial = config.multiplier_learning_rate, config.initial_multiplier
    if config.multiplier == "log_adam":
        return log_ascent(adam(rate), initial)
    if config.multiplier == "softplus_adam":
        return softplus_ascent(adam(rate), initial)
    if config.multiplier == "projected_sgd":
        return projected_ascent(optax.sgd(rate), initial)
    return fixed(initial)


def cal(config: CALConfig, spec: Spec) -> Algorithm:
    optimiser = adam(config.learning_rate)
    policy = tanh_gaussian(spec, config.hidden)
    rewards = q_ensemble(
        spec,
        config.hidden,
        STYLES["relu-xavier"],
        size=2,
        optimiser=optimiser,
        target_rate=config.target_rate,
    )
    costs = q_ensemble(
        spec,
        config.hidden,
        STYLES[config.cost_network],
        size=config.cost_critics,
        optimiser=adam(config.cost_learning_rate),
        target_rate=config.target_rate,
        loss_over_members=jnp.sum if config.cost_loss == "sum" else jnp.mean,
    )
    temperature = log_ascent(optimiser, initial=config.initial_temperature)
    multiplier = make_multiplier(config)
    target_entropy = config.target_entropy
    if target_entropy is None:
        target_entropy = -float(spec.action_size)

    def init(key: jax.Array) -> CALState:
        key_policy, key_rewards, key_costs = jax.random.split(key, 3)
        return CALState(
            policy=start(policy.init(key_policy), optimiser),
            rewards=rewards.init(key_rewards),
            costs=costs.init(key_costs),
            temperature=temperature.init(),
            multiplier=multiplier.init(),
            updates=jnp.zeros((), jnp.int32),
        )

    def as_critics_see(action: jax.Array) -> jax.Array:
        units = config.critic_action_units
        return action if units == "unit" else in_environment_units(spec, action)

    def conservative(values: jax.Array) -> jax.Array:
        return upper_confidence(values, config.conservatism, config.spread_ddof)

    def bootstrap(
        state: CALState, batch: Transition, key_action: jax.Array, key_members: jax.Array
    ) -> Targets:
        """Both critics look one step ahead, to one sample of what the policy would do there."""
        then = batch.next_observation
        following = policy.sample(state.policy.params, then, key_action)
        action = as_critics_see(following.action)

        reward = jnp.min(rewards.target_values(state.rewards, then, action), axis=0)
        reward = reward - temperature.value(state.temperature) * following.log_density
        cost = costs.target_values(state.costs, then, action)  # [E, B]
        if config.random_targets:
            highest = highest_of_random_members(cost, config.random_targets, key_members)
            cost = jnp.broadcast_to(highest[None], cost.shape)
        return Targets(
            reward=batch.reward + config.discount * batch.reward_continues * reward,
            cost=batch.cost[None] + config.cost_discount * batch.cost_continues[None] * cost,
        )

    def improve(state: CALState, batch: Transition, key: jax.Array) -> Improvement:
        """The policy trades entropy and reward against conservative cost, whose weight grows with
        the violation. That weight is a number to the policy's gradient, not a path.
        """
        now = batch.observation
        alpha = temperature.value(state.temperature)
        taken_costs = costs.values(state.costs, now, as_critics_see(batch.action))  # [E, B]

        def loss(params: Params) -> tuple[jax.Array, Any]:
            sample = policy.sample(params, now, key)
            action = as_critics_see(sample.action)
            reward = jnp.min(rewards.values(state.rewards, now, action), axis=0)
            cost = conservative(costs.values(state.costs, now, action))
            measured = conservative(taken_costs) if config.dual_action == "buffer" else cost
            violation = jax.lax.stop_gradient(jnp.mean(measured)) - spec.cost_budget
            weight = rectify(multiplier.value(state.multiplier), violation, config.convexity)
            total = jnp.mean(alpha * sample.log_density - reward + weight * cost)
            if config.rescale_policy_loss:
                total = total / (1.0 + weight)
            return total, (violation, weight, -jnp.mean(sample.log_density))

        improved, (violation, weight, entropy) = descend(loss, state.policy, optimiser)
        agreement = jnp.mean(spread(taken_costs, config.spread_ddof))
        return Improvement(improved, violation, weight, entropy, agreement)

    def step(
        state: CALState, batch: Transition, key: jax.Array, index: jax.Array
    ) -> tuple[CALState, Metrics]:
        key_next, key_now, key_members = jax.random.split(key, 3)

        # Critics first, each towards its own target.
        now, taken = batch.observation, as_critics_see(batch.action)
        targets = bootstrap(state, batch, key_next, key_members)
        new_rewards, reward_error = rewards.fit(state.rewards, targets.reward[None], now, taken)
        new_costs, cost_error = costs.fit(state.costs, targets.cost, now, taken)

        # Then the policy, against the critics just learned.
        state = state._replace(rewards=new_rewards, costs=new_costs)
        improved = improve(state, batch, key_now)

        # The two dual variables answer to their constraints.
        new_temperature = temperature.update(state.temperature, target_entropy - improved.entropy)
        new_multiplier = multiplier.update(state.multiplier, improved.violation)

        # The bootstrap copies drift after the critics.
        count = index if config.target_counter == "inner" else state.updates
        new_rewards, new_costs = jax.lax.cond(
            count % config.target_period == 0,
            lambda: (rewards.track(new_rewards), costs.track(new_costs)),
            lambda: (new_rewards, new_costs),
        )

        new_state = CALState(
            policy=improved.policy,
            rewards=new_rewards,
            costs=new_costs,
            temperature=new_temperature,
            multiplier=new_multiplier,
            updates=state.updates + 1,
        )
        return new_state, {
            "reward_critic_error": reward_error,
            "cost_critic_error": cost_error,
            "cost_estimate": improved.violation + spec.cost_budget,
            "violation": improved.violation,
            "ensemble_spread": improved.spread,
            "cost_weight": improved.cost_weight,
            "multiplier": multiplier.value(new_multiplier),
            "temperature": temperature.value(new_temperature),
            "entropy": improved.entropy,
        }

    def act(state: CALState, observation: jax.Array, key: jax.Array) -> jax.Array:
        return policy.sample(state.policy.params, observation, key).action

    def act_greedily(state: CALState, observation: jax.Array) -> jax.Array:
        return policy.mode(state.policy.params, observation)

    return Algorithm(init, act, act_greedily, over_minibatches(step))
