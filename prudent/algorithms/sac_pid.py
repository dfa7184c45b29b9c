"""SAC-PIDLag: soft actor-critic whose cost is priced by a PID controller (Stooke et al., 2020, in
the form of cvpo-safe-rl).

    violation     e = E[Q_c(s, a)] - d, a ~ π(s)
    multiplier    λ = max(0, K_P max(0, e) + K_I Σe + K_D max(0, e - e_before))
    policy        minimise  α log π - min_j Q_r^j + λ Q_c

λ is `multiplier`, d `cost_budget`, α `temperature` (fixed), and the K `proportional_gain`,
`integral_gain` and `derivative_gain`. The controller moves inside the policy's step: the policy
already feels the multiplier that its own violation makes.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from prudent.configs import SACPIDConfig
from prudent.pieces.critics import CriticState, q_ensemble
from prudent.pieces.multipliers import PIDState, pid
from prudent.pieces.networks import STYLES, Trained, adam, descend, start
from prudent.pieces.policies import in_environment_units, tanh_gaussian
from prudent.pieces.types import Algorithm, Metrics, Params, Spec, Transition, over_minibatches


class SACPIDState(NamedTuple):
    policy: Trained
    rewards: CriticState
    costs: CriticState
    multiplier: PIDState
    updates: jax.Array  # gradient steps so far


class Targets(NamedTuple):
    """What the critics are fitted to."""

    reward: jax.Array  # [B]
    cost: jax.Array  # [B]


class Improvement(NamedTuple):
    """The policy and the multiplier after their joint step."""

    policy: Trained
    multiplier: PIDState
    violation: jax.Array
    entropy: jax.Array


def sac_pid(config: SACPIDConfig, spec: Spec) -> Algorithm:
    optimiser = adam(config.learning_rate)
    style = "relu-xavier-normal"
    policy = tanh_gaussian(spec, config.hidden, style)
    rewards, costs = (
        q_ensemble(
            spec,
            config.hidden,
            STYLES[style],
            size=size,
            optimiser=optimiser,
            target_rate=config.target_rate,
        )
        for size in (2, 1)
    )
    log_scale = sum(math.log(scale) for scale in spec.action_scale)
    multiplier = pid(config.proportional_gain, config.integral_gain, config.derivative_gain)

    def init(key: jax.Array) -> SACPIDState:
        key_policy, key_rewards, key_costs = jax.random.split(key, 3)
        return SACPIDState(
            policy=start(policy.init(key_policy), optimiser),
            rewards=rewards.init(key_rewards),
            costs=costs.init(key_costs),
            multiplier=multiplier.init(),
            updates=jnp.zeros((), jnp.int32),
        )

    def bootstrap(state: SACPIDState, batch: Transition, key: jax.Array) -> Targets:
        """One step ahead, to one sample of what the policy would do there."""
        then = batch.next_observation
        following = policy.sample(state.policy.params, then, key)
        action = in_environment_units(spec, following.action)
        # Per action in [-1, 1], as in the reference: in units of the environment the bonus would
        # differ by a constant, which counts as reward and as cost at every step.
        bonus = -config.temperature * (following.log_density + log_scale)

        reward = jnp.min(rewards.target_values(state.rewards, then, action), axis=0)
        cost = costs.target_values(state.costs, then, action)[0]
        if config.entropy_in_cost_target:
            cost = cost + bonus
        if config.cost_mask == "task":
            cost = batch.cost_continues * cost
        return Targets(
            reward=batch.reward + config.discount * batch.reward_continues * (reward + bonus),
            cost=batch.cost + config.cost_discount * cost,
        )

    def improve(state: SACPIDState, batch: Transition, key: jax.Array) -> Improvement:
        """The controller sees the cost of the policy's actions, then the policy pays its price."""
        now = batch.observation

        def loss(params: Params) -> tuple[jax.Array, Improvement]:
            sample = policy.sample(params, now, key)
            action = in_environment_units(spec, sample.action)
            reward = jnp.min(rewards.values(state.rewards, now, action), axis=0)
            cost = costs.values(state.costs, now, action)[0]
            violation = jax.lax.stop_gradient(jnp.mean(cost)) - spec.cost_budget
            controlled = multiplier.update(state.multiplier, violation)
            price = multiplier.value(controlled)
            total = jnp.mean(config.temperature * sample.log_density - reward + price * cost)
            entropy = -jnp.mean(sample.log_density)
            return total, Improvement(state.policy, controlled, violation, entropy)

        improved, found = descend(loss, state.policy, optimiser)
        return found._replace(policy=improved)

    def step(
        state: SACPIDState, batch: Transition, key: jax.Array, index: jax.Array
    ) -> tuple[SACPIDState, Metrics]:
        key_next, key_now = jax.random.split(key)

        # Critics first, each towards its own target.
        inputs = batch.observation, in_environment_units(spec, batch.action)
        targets = bootstrap(state, batch, key_next)
        new_rewards, reward_error = rewards.fit(state.rewards, targets.reward[None], *inputs)
        new_costs, cost_error = costs.fit(state.costs, targets.cost[None], *inputs)

        # Then the policy and its multiplier, against the critics just learned.
        state = state._replace(rewards=new_rewards, costs=new_costs)
        improved = improve(state, batch, key_now)

        # The bootstrap copies drift after the critics.
        new_state = SACPIDState(
            policy=improved.policy,
            rewards=rewards.track(new_rewards),
            costs=costs.track(new_costs),
            multiplier=improved.multiplier,
            updates=state.updates + 1,
        )
        return new_state, {
            "reward_critic_error": reward_error,
            "cost_critic_error": cost_error,
            "cost_estimate": improved.violation + spec.cost_budget,
            "violation": improved.violation,
            "multiplier": multiplier.value(improved.multiplier),
            "multiplier_integral": improved.multiplier.integral,
            "entropy": improved.entropy,
        }

    def act(state: SACPIDState, observation: jax.Array, key: jax.Array) -> jax.Array:
        return policy.sample(state.policy.params, observation, key).action

    def act_greedily(state: SACPIDState, observation: jax.Array) -> jax.Array:
        return policy.mode(state.policy.params, observation)

    return Algorithm(init, act, act_greedily, over_minibatches(step))
