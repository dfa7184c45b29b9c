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

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from prudent.configs import WCSACConfig
from prudent.pieces.critics import (
    VARIANCE_MAX,
    VARIANCE_MIN,
    CriticState,
    NextReturn,
    conditional_value_at_risk,
    positive,
    q_ensemble,
    variance_target,
    wasserstein,
)
from prudent.pieces.multipliers import rectify, softplus_ascent
from prudent.pieces.networks import STYLES, Trained, adam, descend, start
from prudent.pieces.policies import in_environment_units, tanh_gaussian
from prudent.pieces.types import Algorithm, Metrics, Params, Spec, Transition, over_minibatches


class WCSACState(NamedTuple):
    policy: Trained
    rewards: CriticState
    costs: CriticState
    variances: CriticState
    temperature: Any
    multiplier: Any
    updates: jax.Array  # gradient steps so far


class Targets(NamedTuple):
    """What the critics are fitted to."""

    reward: jax.Array  # [B]
    cost: jax.Array  # [B]
    variance: jax.Array  # [B]
    clipped: jax.Array  # share of the variances that had to be


class Improvement(NamedTuple):
    """The policy after its step, and what the dual variables and the record need of it."""

    policy: Trained
    violation: jax.Array
    cost_weight: jax.Array
    entropy: jax.Array


def wcsac(config: WCSACConfig, spec: Spec) -> Algorithm:
    optimiser = adam(config.learning_rate)
    policy = tanh_gaussian(spec, config.hidden)

    def critic(size: int, **options: Any) -> Any:
        return q_ensemble(
            spec,
            config.hidden,
            STYLES["relu-xavier"],
            size=size,
            optimiser=optimiser,
            target_rate=config.target_rate,
            loss_over_members=lambda errors: 0.5 * jnp.sum(errors),
            **options,
        )

    rewards, costs = critic(2), critic(1)
    variances = critic(1, output=positive, error=wasserstein)
    temperature = softplus_ascent(optimiser, math.log(2.0))
    multiplier = softplus_ascent(adam(config.multiplier_learning_rate), math.log(2.0))
    target_entropy = config.target_entropy
    if target_entropy is None:
        target_entropy = -float(spec.action_size)

    def init(key: jax.Array) -> WCSACState:
        key_policy, key_rewards, key_costs, key_variances = jax.random.split(key, 4)
        return WCSACState(
            policy=start(policy.init(key_policy), optimiser),
            rewards=rewards.init(key_rewards),
            costs=costs.init(key_costs),
            variances=variances.init(key_variances),
            temperature=temperature.init(),
            multiplier=multiplier.init(),
            updates=jnp.zeros((), jnp.int32),
        )

    def cost_at_risk(state: WCSACState, *inputs: jax.Array) -> jax.Array:
        mean = costs.values(state.costs, *inputs)[0]
        variance = variances.values(state.variances, *inputs)[0]
        return conditional_value_at_risk(mean, variance, config.risk_level)

    def bootstrap(state: WCSACState, batch: Transition, key: jax.Array) -> Targets:
        """One step ahead, to one sample of what the policy would do there."""
        sample = policy.sample(state.policy.params, batch.next_observation, key)
        then = batch.next_observation, in_environment_units(spec, sample.action)
        now = batch.observation, in_environment_units(spec, batch.action)

        reward = jnp.min(rewards.target_values(state.rewards, *then), axis=0)
        reward = reward - temperature.value(state.temperature) * sample.log_density
        following = NextReturn(
            mean=costs.target_values(state.costs, *then)[0],
            variance=variances.target_values(state.variances, *then)[0],
            continues=batch.cost_continues
            if config.cost_mask == "task"
            else jnp.ones_like(batch.cost_continues),
        )
        cost = batch.cost + config.cost_discount * following.continues * following.mean
        mean = costs.values(state.costs, *now)[0]
        variance = variance_target(batch.cost, config.cost_discount, following, mean)
        bounded = jnp.clip(variance, VARIANCE_MIN, VARIANCE_MAX)
        return Targets(
            reward=batch.reward + config.discount * batch.reward_continues * reward,
            cost=cost,
            variance=bounded,
            clipped=jnp.mean(bounded != variance),
        )

    def improve(state: WCSACState, batch: Transition, key: jax.Array) -> Improvement:
        """The policy trades entropy and reward against cost at risk, whose weight grows with the
        violation. That weight is a number to the policy's gradient, not a path.
        """
        now = batch.observation
        alpha = temperature.value(state.temperature)
        taken = cost_at_risk(state, now, in_environment_units(spec, batch.action))
        violation = jnp.mean(taken) - spec.cost_budget
        weight = multiplier.value(state.multiplier) + config.damping * violation
        if config.clip_damping:
            weight = rectify(multiplier.value(state.multiplier), violation, config.damping)

        def loss(params: Params) -> tuple[jax.Array, jax.Array]:
            sample = policy.sample(params, now, key)
            action = in_environment_units(spec, sample.action)
            reward = jnp.min(rewards.values(state.rewards, now, action), axis=0)
            cost = cost_at_risk(state, now, action)
            total = jnp.mean(alpha * sample.log_density - reward + weight * cost)
            return total, -jnp.mean(sample.log_density)

        improved, entropy = descend(loss, state.policy, optimiser)
        return Improvement(improved, violation, weight, entropy)

    def step(
        state: WCSACState, batch: Transition, key: jax.Array, index: jax.Array
    ) -> tuple[WCSACState, Metrics]:
        key_next, key_now = jax.random.split(key)

        # Critics first, each towards its own target.
        inputs = batch.observation, in_environment_units(spec, batch.action)
        targets = bootstrap(state, batch, key_next)
        new_rewards, reward_error = rewards.fit(state.rewards, targets.reward[None], *inputs)
        new_costs, cost_error = costs.fit(state.costs, targets.cost[None], *inputs)
        new_variances, spread_error = variances.fit(
            state.variances, targets.variance[None], *inputs
        )

        # Then the policy, against the critics just learned.
        state = state._replace(rewards=new_rewards, costs=new_costs, variances=new_variances)
        improved = improve(state, batch, key_now)

        # The dual variables answer to their constraints; the bootstrap copies drift.
        new_state = WCSACState(
            policy=improved.policy,
            rewards=rewards.track(new_rewards),
            costs=costs.track(new_costs),
            variances=variances.track(new_variances),
            temperature=temperature.update(state.temperature, target_entropy - improved.entropy),
            multiplier=multiplier.update(state.multiplier, improved.violation),
            updates=state.updates + 1,
        )
        return new_state, {
            "reward_critic_error": reward_error,
            "cost_critic_error": cost_error,
            "spread_error": spread_error,
            "variance_target": jnp.mean(targets.variance),
            "variance_clipped": targets.clipped,
            "cost_estimate": improved.violation + spec.cost_budget,
            "violation": improved.violation,
            "cost_weight": improved.cost_weight,
            "multiplier": multiplier.value(new_state.multiplier),
            "temperature": temperature.value(new_state.temperature),
            "entropy": improved.entropy,
        }

    def act(state: WCSACState, observation: jax.Array, key: jax.Array) -> jax.Array:
        return policy.sample(state.policy.params, observation, key).action

    def act_greedily(state: WCSACState, observation: jax.Array) -> jax.Array:
        return policy.mode(state.policy.params, observation)

    return Algorithm(init, act, act_greedily, over_minibatches(step))
