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
from jax.flatten_util import ravel_pytree

from prudent.pieces.advantages import centred, generalised_advantages, standardised
from prudent.pieces.critics import Value, value_function
from prudent.pieces.multipliers import Multiplier, projected_ascent
from prudent.pieces.networks import STYLES, Trained, adam, clipped_adam, descend, start
from prudent.pieces.policies import Gaussian, divergence, gaussian
from prudent.pieces.surrogates import clipped_ratio, penalised, plain_ratio
from prudent.pieces.trust_region import fisher_product, line_search, natural_step
from prudent.pieces.types import Algorithm, Metrics, Params, PolicyNetwork, Rollout, Spec
from prudent.settings.configs import (
    CostAdvantageConfig,
    FirstOrderConfig,
    LagrangianConfig,
    OnPolicyConfig,
    SecondOrderConfig,
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


class Batch(NamedTuple):
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
    batch: Batch
    cost_weight: jax.Array
    key: jax.Array


Improve = Callable[[ActorCritic, Epoch], tuple[ActorCritic, Metrics]]
Combine = Callable[[Batch, jax.Array, jax.Array], jax.Array]  # batch, multiplier, violation -> [B]
Step = Callable[[ActorCritic, Batch], tuple[ActorCritic, Metrics]]


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


def estimate(config: OnPolicyConfig, parts: Parts, state: ActorCritic, rollout: Rollout) -> Batch:
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
    return Batch(
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


def probability_ratio(policy: Gaussian, params: Params, batch: Batch) -> jax.Array:
    return jnp.exp(policy.log_density(params, batch.observation, batch.action) - batch.log_density)


def fit_critics(parts: Parts, state: ActorCritic, batch: Batch) -> tuple[ActorCritic, Metrics]:
    rewards, reward_error = parts.rewards.fit(
        state.rewards, batch.reward_target, batch.observation, batch.weight
    )
    costs, cost_error = parts.costs.fit(
        state.costs, batch.cost_target, batch.observation, batch.weight
    )
    errors = {"reward_critic_error": reward_error, "cost_critic_error": cost_error}
    return state._replace(rewards=rewards, costs=costs), errors


def shuffled(order: jax.Array, bits: jax.Array) -> jax.Array:
    """A permutation of `order`, of the numbers below B, by sorting random bits [B].

    Whole numbers sort many times faster than floats with an index beside them, so the index takes
    the low bits. Where the bits left for chance are equal, the order before decides.
    """
    rows = len(bits)
    low = jnp.uint32(2 ** (rows - 1).bit_length() - 1)
    return order[jnp.sort((bits & ~low) | jnp.arange(rows, dtype=jnp.uint32)) & low]


def minibatches(batch: Batch, order: jax.Array, size: int) -> Batch:
    """All rows in this order [B], as [M, size, ...]; where they do not come out even, the last
    minibatch is filled up with rows of weight 0.
    """
    rows = batch.weight.shape[0]
    count = -(-rows // size)
    places = jnp.arange(count * size)
    order = order[places % rows]
    drawn = jax.tree.map(lambda a: a[order].reshape((count, size, *a.shape[1:])), batch)
    kept = (places < rows).reshape(count, size)
    return drawn._replace(weight=drawn.weight * kept)


def in_passes(
    config: OnPolicyConfig,
    step: Step,
    distance: Callable[[ActorCritic], jax.Array],
    state: ActorCritic,
    epoch: Epoch,
) -> tuple[ActorCritic, Metrics]:
    """Up to `passes` times over the data, until the policy's `distance` from the old one is too
    large after a pass.
    """
    rows = epoch.batch.weight.shape[0]
    # One draw for all passes: a program of many draws takes long to compile. And one for the order
    # before the first pass, so that chance decides there too where bits are equal.
    bits = jax.random.bits(epoch.key, (1 + config.passes, rows), jnp.uint32)

    def one_pass(state: ActorCritic, order: jax.Array) -> tuple[ActorCritic, Metrics]:
        data = minibatches(epoch.batch, order, config.batch_size)
        state, metrics = jax.lax.scan(step, state, data)
        return state, {name: jnp.mean(values) for name, values in metrics.items()}

    def unfinished(loop: Any) -> jax.Array:
        _, _, count, reached, _ = loop
        return (count < config.passes) & (reached <= config.max_divergence)

    def advance(loop: Any) -> Any:
        state, order, count, _, _ = loop
        order = shuffled(order, bits[count + 1])
        state, metrics = one_pass(state, order)
        return state, order, count + 1, distance(state), metrics

    order, count = shuffled(jnp.arange(rows), bits[0]), jnp.zeros((), jnp.int32)
    shapes = jax.eval_shape(one_pass, state, order)[1]
    nothing = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
    loop = state, order, count, jnp.zeros_like(epoch.cost_weight), nothing
    state, _, count, reached, metrics = jax.lax.while_loop(unfinished, advance, loop)
    return state, {**metrics, "divergence": reached, "passes": count.astype(reached.dtype)}


def by_passes(config: FirstOrderConfig, clip: float | None = None) -> Improve:
    """Critics and policy together, minibatch by minibatch; `clip` None leaves the ratio free."""

    def improve(state: ActorCritic, epoch: Epoch) -> tuple[ActorCritic, Metrics]:
        parts, seen = epoch.parts, epoch.batch.observation
        old = parts.policy.normal(state.policy.params, seen)

        def step(state: ActorCritic, batch: Batch) -> tuple[ActorCritic, Metrics]:
            state, errors = fit_critics(parts, state, batch)

            def loss(params: Params) -> tuple[jax.Array, None]:
                ratio = probability_ratio(parts.policy, params, batch)
                if clip is None:
                    gain = plain_ratio(ratio, batch.advantage)
                else:
                    gain = clipped_ratio(ratio, batch.advantage, clip)
                return -jnp.average(gain, weights=batch.weight), None

            policy, _ = descend(loss, state.policy, parts.optimiser)
            return state._replace(policy=policy), errors

        def distance(state: ActorCritic) -> jax.Array:
            new = parts.policy.normal(state.policy.params, seen)
            from_old = config.divergence == "from_old"
            return jnp.mean(divergence(old, new) if from_old else divergence(new, old))

        return in_passes(config, step, distance, state, epoch)

    return improve


def by_natural_gradient(config: SecondOrderConfig, search: bool) -> Improve:
    """One second-order step of the policy, with a line search or without; then the critics."""

    def improve(state: ActorCritic, epoch: Epoch) -> tuple[ActorCritic, Metrics]:
        parts, batch = epoch.parts, epoch.batch
        here, unravel = ravel_pytree(state.policy.params)
        old = parts.policy.normal(state.policy.params, batch.observation)

        def gain(theta: jax.Array) -> jax.Array:
            ratio = probability_ratio(parts.policy, unravel(theta), batch)
            return jnp.mean(plain_ratio(ratio, batch.advantage))

        def distance(theta: jax.Array) -> jax.Array:
            new = parts.policy.normal(unravel(theta), batch.observation)
            # Averaged over action dimensions too: the reference's unit of `max_divergence`.
            return jnp.mean(divergence(old, new)) / batch.action.shape[-1]

        def acceptable(theta: jax.Array) -> jax.Array:
            within = distance(theta) <= config.max_divergence
            return within & (gain(theta) >= gain(here))

        product = fisher_product(distance, here, config.damping)
        step = natural_step(product, jax.grad(gain)(here), config.max_divergence)
        there = line_search(acceptable, here, step) if search else here + step
        state = state._replace(policy=state.policy._replace(params=unravel(there)))

        state, metrics = in_passes(
            config,
            lambda state, batch: fit_critics(parts, state, batch),
            lambda state: jnp.zeros_like(epoch.cost_weight),  # the policy stays where it is now
            state,
            epoch,
        )
        return state, {**metrics, "divergence": distance(there)}

    return improve


def adaptive(config: LagrangianConfig) -> Multiplier:
    """The Lagrange multiplier by gradient ascent on λ (J_C - budget), kept within its bounds."""
    rate = config.multiplier_learning_rate
    optimiser = adam(rate) if config.multiplier == "projected_adam" else optax.sgd(rate)
    upper = jnp.inf if config.largest_multiplier is None else config.largest_multiplier
    return projected_ascent(optimiser, config.initial_multiplier, upper)


def lagrangian(batch: Batch, multiplier: jax.Array, violation: jax.Array) -> jax.Array:
    """(A_r - λ A_c) / (1 + λ)."""
    return penalised(batch.reward_advantage, batch.cost_advantage, multiplier)


def reward_only(batch: Batch, multiplier: jax.Array, violation: jax.Array) -> jax.Array:
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
