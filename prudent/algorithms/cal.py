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
from prudent.critics import (
    CriticState,
    highest_of_random_members,
    q_ensemble,
    spread,
    upper_confidence,
)
from prudent.multipliers import (
    Multiplier,
    fixed,
    log_ascent,
    projected_ascent,
    rectify,
    softplus_ascent,
)
from prudent.networks import STYLES, Trained, adam, descend, start
from prudent.policies import tanh_gaussian
from prudent.types import Algorithm, Metrics, Params, Spec, Transition, over_minibatches


class CALState(NamedTuple):
    policy: Trained
    rewards: CriticState
    costs: CriticState
    temperature: Any
    multiplier: Any
    updates: jax.Array  # gradient steps so far


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
        if config.critic_action_units == "unit":
            return action
        scale = jnp.asarray(spec.action_scale, action.dtype)[None]
        return scale * action + jnp.asarray(spec.action_centre, action.dtype)[None]

    def step(
        state: CALState, batch: Transition, key: jax.Array, index: jax.Array
    ) -> tuple[CALState, Metrics]:
        key_next, key_now, key_members = jax.random.split(key, 3)
        alpha = temperature.value(state.temperature)
        now, then = batch.observation, batch.next_observation
        taken = as_critics_see(batch.action)

        # Both critics bootstrap from one sample of what the policy would do next.
        following = policy.sample(state.policy.params, then, key_next)
        next_action = as_critics_see(following.action)
        next_reward = jnp.min(rewards.target_values(state.rewards, then, next_action), axis=0)
        next_reward = next_reward - alpha * following.log_density
        reward_targets = batch.reward + config.discount * batch.reward_continues * next_reward
        next_cost = costs.target_values(state.costs, then, next_action)  # [E, B]
        if config.random_targets:
            drawn = highest_of_random_members(next_cost, config.random_targets, key_members)
            next_cost = jnp.broadcast_to(drawn[None], next_cost.shape)
        cost_continues = batch.cost_continues[None]
        cost_targets = batch.cost[None] + config.cost_discount * cost_continues * next_cost
        new_rewards, reward_error = rewards.fit(state.rewards, reward_targets[None], now, taken)
        new_costs, cost_error = costs.fit(state.costs, cost_targets, now, taken)

        def conservative(values: jax.Array) -> jax.Array:
            return upper_confidence(values, config.conservatism, config.spread_ddof)

        # The policy trades entropy and reward against conservative cost, whose weight grows with
        # the violation. That weight is a number to the policy's gradient, not a path.
        taken_costs = costs.values(new_costs, now, taken)  # [E, B]

        def policy_loss(params: Params) -> tuple[jax.Array, Any]:
            sample = policy.sample(params, now, key_now)
            action = as_critics_see(sample.action)
            reward = jnp.min(rewards.values(new_rewards, now, action), axis=0)
            cost = conservative(costs.values(new_costs, now, action))
            measured = conservative(taken_costs) if config.dual_action == "buffer" else cost
            violation = jax.lax.stop_gradient(jnp.mean(measured)) - spec.cost_budget
            weight = rectify(multiplier.value(state.multiplier), violation, config.convexity)
            loss = jnp.mean(alpha * sample.log_density - reward + weight * cost)
            if config.rescale_policy_loss:
                loss = loss / (1.0 + weight)
            return loss, (violation, weight, -jnp.mean(sample.log_density))

        new_policy, (violation, cost_weight, entropy) = descend(
            policy_loss, state.policy, optimiser
        )

        # The two dual variables answer to their constraints.
        new_temperature = temperature.update(state.temperature, target_entropy - entropy)
        new_multiplier = multiplier.update(state.multiplier, violation)

        # The bootstrap copies drift after the critics.
        count = index if config.target_counter == "inner" else state.updates
        new_rewards, new_costs = jax.lax.cond(
            count % config.target_period == 0,
            lambda: (rewards.track(new_rewards), costs.track(new_costs)),
            lambda: (new_rewards, new_costs),
        )

        new_state = CALState(
            policy=new_policy,
            rewards=new_rewards,
            costs=new_costs,
            temperature=new_temperature,
            multiplier=new_multiplier,
            updates=state.updates + 1,
        )
        return new_state, {
            "reward_critic_error": reward_error,
            "cost_critic_error": cost_error,
            "cost_estimate": violation + spec.cost_budget,
            "violation": violation,
            "ensemble_spread": jnp.mean(spread(taken_costs, config.spread_ddof)),
            "cost_weight": cost_weight,
            "multiplier": multiplier.value(new_multiplier),
            "temperature": temperature.value(new_temperature),
            "entropy": entropy,
        }

    def act(state: CALState, observation: jax.Array, key: jax.Array) -> jax.Array:
        return policy.sample(state.policy.params, observation, key).action

    def act_greedily(state: CALState, observation: jax.Array) -> jax.Array:
        return policy.mode(state.policy.params, observation)

    return Algorithm(init, act, act_greedily, over_minibatches(step))
