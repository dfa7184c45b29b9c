"""What the soft actor-critics share: state, sampling, targets, the policy's step, acting.

    reward target   y = r + γ m_r (min_j Q_r^j(s', a') - α log π(a'|s')),  a' ~ π(s')
    cost target     y = q + γ_c m_c Q_c(s', a')
    policy          minimise  E[α log π(a|s) - min_j Q_r^j(s, a) + price(s, a)],  a ~ π(s)
    temperature     α moves until the entropy meets its floor
    target copies   drift towards the critics at `target_rate`, every `target_period` updates

The price of cost is what tells the algorithms apart. Each computes its own, and calls the functions
below in its own order.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from prudent.pieces.critics import Critic, CriticState, q_ensemble
from prudent.pieces.dual import Multiplier, log_ascent
from prudent.pieces.fast import adam
from prudent.pieces.networks import STYLES, Trained, descend, start
from prudent.pieces.policies import Policy, Sample, in_environment_units, tanh_gaussian
from prudent.pieces.types import Algorithm, Batch, CostEstimate, Metrics, Params, Spec, each_update
from prudent.settings.configs import OffPolicyConfig, SACConfig


class SoftState(NamedTuple):
    policy: Trained
    rewards: CriticState
    costs: CriticState
    temperature: Any
    dual: Any
    updates: jax.Array  # gradient steps so far
    variances: Any = ()  # of the cost, where a critic estimates them


ERRORS = {
    "rewards": "reward_critic_error",
    "costs": "cost_critic_error",
    "variances": "spread_error",
}


class SoftActorCritic(NamedTuple):
    """Functions of a state. They leave the order of an algorithm's step to its file."""

    seen: Callable[[jax.Array], jax.Array]  # actions in [-1, 1] as critics see them
    # policy's parameters, observation, key -> action as critics see it, log density
    sample: Callable[[Params, jax.Array, jax.Array], Sample]
    rewards: Critic
    costs: Critic
    temperature: Multiplier
    # state, batch, a sample at its next observations -> [1, B]
    reward_target: Callable[[SoftState, Batch, Sample], jax.Array]
    # batch, values of the next actions [E, B] -> [E, B]
    cost_target: Callable[[Batch, jax.Array], jax.Array]
    # state, batch, targets by critic [E or 1, B] -> state, mean errors
    fit: Callable[..., tuple[SoftState, Metrics]]
    # state, observation, key, price of actions -> [B], divisor of the loss -> policy, entropy
    improve: Callable[..., tuple[Trained, jax.Array]]
    # state, batch, new policy, its entropy, new dual state -> state
    advance: Callable[..., SoftState]
    # step, dual, cost estimate of (state, observation, action as critics see it) -> the functions
    algorithm: Callable[..., Algorithm]


def sac_agent(
    config: SACConfig, spec: Spec, cost_critics: int = 1, cost_loss: str = "mean"
) -> SoftActorCritic:
    """Two reward critics, of which the lower is believed, and an ensemble of cost critics."""
    optimiser = adam(config.learning_rate)
    floor = config.target_entropy
    ensemble = partial(q_ensemble, spec, config.hidden, target_rate=config.target_rate)
    rewards = ensemble(STYLES["relu-xavier"], size=2, optimiser=optimiser)
    costs = ensemble(
        STYLES[config.cost_network],
        size=cost_critics,
        optimiser=adam(config.cost_learning_rate),
        loss_over_members=jnp.sum if cost_loss == "sum" else jnp.mean,
    )
    return soft_actor_critic(
        config,
        spec,
        tanh_gaussian(spec, config.hidden),
        {"rewards": rewards, "costs": costs},
        log_ascent(config.learning_rate, config.initial_temperature),
        optimiser,
        target_entropy=-float(spec.action_size) if floor is None else floor,
    )


def soft_actor_critic(
    config: OffPolicyConfig,
    spec: Spec,
    policy: Policy,
    critics: Mapping[str, Critic],
    temperature: Multiplier,
    optimiser: optax.GradientTransformation,
    target_entropy: float = 0.0,
    density_offset: float = 0.0,
) -> SoftActorCritic:
    """`critics` stand under their names in the state: rewards, costs, and maybe variances.
    `density_offset` is added to the log density where it counts as reward.
    """
    rewards = critics["rewards"]
    period, counter, units = 1, "inner", "env"
    if isinstance(config, SACConfig):
        period, counter = config.target_period, config.target_counter
        units = config.critic_action_units
    seen = partial(in_environment_units, spec) if units == "env" else lambda action: action

    def sample(params: Params, observation: jax.Array, key: jax.Array) -> Sample:
        drawn = policy.sample(params, observation, key)
        return Sample(seen(drawn.action), drawn.log_density)

    def reward_target(state: SoftState, batch: Batch, following: Sample) -> jax.Array:
        alpha = temperature.value(state.temperature)
        values = rewards.target_values(state.rewards, batch.next_observation, following.action)
        ahead = jnp.min(values, axis=0) - alpha * (following.log_density + density_offset)
        return (batch.reward + config.discount * batch.reward_continues * ahead)[None]

    def cost_target(batch: Batch, ahead: jax.Array) -> jax.Array:
        return batch.cost[None] + config.cost_discount * batch.cost_continues[None] * ahead

    def fit(state: SoftState, batch: Batch, **targets: jax.Array) -> tuple[SoftState, Metrics]:
        fitted: Any = {}
        errors = {}
        for name, target in targets.items():
            old, where = getattr(state, name), (batch.observation, seen(batch.action))
            fitted[name], errors[ERRORS[name]] = critics[name].fit(old, target, *where)
        return state._replace(**fitted), errors

    def improve(
        state: SoftState,
        observation: jax.Array,
        key: jax.Array,
        price: Callable[[jax.Array], jax.Array],
        divisor: jax.Array | float = 1.0,
    ) -> tuple[Trained, jax.Array]:
        alpha = temperature.value(state.temperature)

        def loss(params: Params) -> tuple[jax.Array, jax.Array]:
            action, log_density = sample(params, observation, key)
            reward = jnp.min(rewards.values(state.rewards, observation, action), axis=0)
            total = jnp.mean(alpha * log_density - reward + price(action))
            return total / divisor, -jnp.mean(log_density)

        return descend(loss, state.policy, optimiser)

    def advance(
        state: SoftState, batch: Batch, policy: Trained, entropy: jax.Array, dual: Any
    ) -> SoftState:
        resting = {name: getattr(state, name) for name in critics}

        def drift() -> dict[str, CriticState]:
            return {name: critic.track(resting[name]) for name, critic in critics.items()}

        count = batch.index if counter == "inner" else state.updates
        due = count % period == 0
        estimates: Any = drift() if period == 1 else jax.lax.cond(due, drift, lambda: resting)
        return state._replace(
            **estimates,
            policy=policy,
            temperature=temperature.update(state.temperature, target_entropy - entropy),
            dual=dual,
            updates=state.updates + 1,
        )

    def algorithm(
        step: Callable[..., tuple[SoftState, Metrics]],
        dual: Any,
        estimate: Callable[..., CostEstimate],
    ) -> Algorithm:
        def init(key: jax.Array) -> SoftState:
            key_policy, *keys = jax.random.split(key, 1 + len(critics))
            pairs = zip(critics.items(), keys, strict=True)
            estimates: Any = {name: critic.init(key) for (name, critic), key in pairs}
            return SoftState(
                policy=start(policy.init(key_policy), optimiser),
                temperature=temperature.init(),
                dual=dual.init(),
                updates=jnp.zeros((), jnp.int32),
                **estimates,
            )

        return Algorithm(
            init=init,
            act=lambda state, s, key: policy.sample(state.policy.params, s, key).action,
            act_greedily=lambda state, s: policy.mode(state.policy.params, s),
            update=each_update(step, dual.requires),
            network=lambda state: policy.network(state.policy.params),
            cost_estimate=lambda state, s, action: estimate(state, s, seen(action)),
            requires=dual.requires,
        )

    return SoftActorCritic(
        seen=seen,
        sample=sample,
        rewards=rewards,
        costs=critics["costs"],
        temperature=temperature,
        reward_target=reward_target,
        cost_target=cost_target,
        fit=fit,
        improve=improve,
        advance=advance,
        algorithm=algorithm,
    )
