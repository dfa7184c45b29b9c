"""TD3-Lag: twin delayed deterministic policy gradient (Fujimoto et al., 2018) under a constraint.

    ahead         a' = clip(π⁻(s') + clip(σ ε, -b, b), -1, 1),  ε ~ N(0, 1)
    critics       y_r = r + γ m_r min_j Q_r^j⁻(s', a'),  y_c = q + γ_c m_c Q_c⁻(s', a')

and at every D-th update

    policy        minimise  (λ Q_c(s, π(s)) - Q_r^1(s, π(s))) / (1 + λ)
    multiplier    λ ← max(0, λ + β (E[Q_c(s, π(s))] - d))
    slow copies   θ⁻ ← θ⁻ + τ (θ - θ⁻), of the policy and the critics

λ is `multiplier`, d `cost_budget`, σ `target_noise`, b `largest_target_noise`, D `policy_delay`,
τ `target_rate`. Both y look at the same action ahead; there is one cost critic, whose error nobody
bounds: the smoothing is all that keeps the policy from its narrow valleys.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from prudent.algorithms.entry import Entry
from prudent.algorithms.presets import baseline_presets
from prudent.pieces.critics import CriticState, one_estimate, q_ensemble
from prudent.pieces.dual import ASCENTS
from prudent.pieces.fast import adam
from prudent.pieces.networks import STYLES, Trained, descend, mlp, start
from prudent.pieces.policies import in_environment_units
from prudent.pieces.types import (
    Algorithm,
    Batch,
    CostEstimate,
    Metrics,
    Params,
    PolicyNetwork,
    Spec,
    each_update,
)
from prudent.settings.checks import Count, NotNegative, Positive, Values
from prudent.settings.configs import OffPolicyConfig
from prudent.settings.schedules import OffPolicySchedule
from prudent.tasks.task import Task


@dataclass(frozen=True)
class TD3LagConfig(OffPolicyConfig):
    learning_rate: Positive = 3e-4
    """Adam's rate for the critics."""
    policy_learning_rate: Positive = 3e-4
    exploration: NotNegative = 0.1
    """Standard deviation of the noise on actions while collecting, in units of [-1, 1]."""
    target_noise: NotNegative = 0.2
    """The same for the action ahead that targets look at."""
    largest_target_noise: NotNegative = 0.5
    policy_delay: Count = 2
    """Updates of the critics for each of policy, multiplier and slow copies."""
    multiplier_learning_rate: Positive = 1e-3
    initial_multiplier: NotNegative = 0.1


SCHEDULE: Values = {"updates_per_step": 1, "updates_cap": None, "batch_size": 256}
# Small and quick. Its best behaviour is the same at every discount. The critics learn faster than
# the policy: else it runs to a bound on their first guesses, where tanh is flat and holds it.
PUMP: Values = {
    "hidden": (64, 64),
    "discount": 0.8,
    "cost_discount": 0.8,
    "target_rate": 0.05,
    "learning_rate": 1e-3,
    "policy_learning_rate": 2e-4,
    "multiplier_learning_rate": 5e-4,
    "exploration": 0.3,
    "steps": 6_000,
    "warmup_steps": 500,
    "batch_size": 64,
    "replay_capacity": 1_000,  # so that the violation is measured on what the policy does now
    "evaluate_every": 600,
    "snapshot_every": 2_000,
}


def presets(task: Task) -> dict[str, Values]:
    own = {**SCHEDULE, **PUMP} if task.name == "pump" else SCHEDULE
    return baseline_presets(TD3LagConfig, task, own)


class TD3State(NamedTuple):
    policy: Trained
    old_policy: Params  # its slow copy; under this name `init_from` fills it too
    rewards: CriticState
    costs: CriticState
    multiplier: Any
    updates: jax.Array  # so far


def td3_lag(config: TD3LagConfig, spec: Spec) -> Algorithm:
    optimiser = adam(config.learning_rate)
    policy_optimiser = adam(config.policy_learning_rate)
    style = STYLES["relu-xavier"]
    actor = mlp((spec.observation_size, *config.hidden, spec.action_size), style)
    rewards, costs = (
        q_ensemble(
            spec,
            config.hidden,
            style,
            size=size,
            optimiser=optimiser,
            target_rate=config.target_rate,
        )
        for size in (2, 1)
    )
    multiplier = ASCENTS["projected_sgd"](
        config.multiplier_learning_rate, config.initial_multiplier
    )

    def seen(action: jax.Array) -> jax.Array:
        return in_environment_units(spec, action)

    def mode(params: Params, observation: jax.Array) -> jax.Array:
        return jnp.tanh(actor.apply(params, observation))

    def disturbed(action: jax.Array, noise: jax.Array) -> jax.Array:
        return jnp.clip(action + noise, -1.0, 1.0)

    def init(key: jax.Array) -> TD3State:
        key_policy, key_rewards, key_costs = jax.random.split(key, 3)
        params = actor.init(key_policy)
        return TD3State(
            policy=start(params, policy_optimiser),
            old_policy=jax.tree.map(jnp.copy, params),
            rewards=rewards.init(key_rewards),
            costs=costs.init(key_costs),
            multiplier=multiplier.init(),
            updates=jnp.zeros((), jnp.int32),
        )

    def act(state: TD3State, observation: jax.Array, key: jax.Array) -> jax.Array:
        action = mode(state.policy.params, observation)
        return disturbed(action, config.exploration * jax.random.normal(key, action.shape))

    def improve(state: TD3State, now: jax.Array, violation: jax.Array) -> TD3State:
        """What is delayed: policy, multiplier and slow copies."""
        price = multiplier.value(state.multiplier)

        def loss(params: Params) -> tuple[jax.Array, None]:
            action = seen(mode(params, now))
            reward = jnp.mean(rewards.values(state.rewards, now, action)[0])
            cost = jnp.mean(costs.values(state.costs, now, action)[0])
            return (price * cost - reward) / (1.0 + price), None

        policy, _ = descend(loss, state.policy, policy_optimiser)
        slow = optax.incremental_update(policy.params, state.old_policy, config.target_rate)
        return state._replace(
            policy=policy,
            old_policy=slow,
            rewards=rewards.track(state.rewards),
            costs=costs.track(state.costs),
            multiplier=multiplier.update(state.multiplier, violation),
        )

    def step(state: TD3State, batch: Batch, key: jax.Array) -> tuple[TD3State, Metrics]:
        now, then = batch.observation, batch.next_observation

        # The action ahead, smoothed, of the slow policy.
        noise = config.target_noise * jax.random.normal(key, batch.action.shape)
        bound = config.largest_target_noise
        ahead = seen(disturbed(mode(state.old_policy, then), jnp.clip(noise, -bound, bound)))

        # Critics at every update, each towards its own target.
        reward = jnp.min(rewards.target_values(state.rewards, then, ahead), axis=0)
        cost = costs.target_values(state.costs, then, ahead)[0]
        reward_target = batch.reward + config.discount * batch.reward_continues * reward
        cost_target = batch.cost + config.cost_discount * batch.cost_continues * cost
        taken = seen(batch.action)
        fitted_rewards, reward_error = rewards.fit(state.rewards, reward_target[None], now, taken)
        fitted_costs, cost_error = costs.fit(state.costs, cost_target[None], now, taken)
        state = state._replace(
            rewards=fitted_rewards, costs=fitted_costs, updates=state.updates + 1
        )

        # The rest at every D-th, by what the policy's own actions would cost.
        chosen = seen(mode(state.policy.params, now))
        estimate = jnp.mean(costs.values(state.costs, now, chosen)[0])
        violation = estimate - spec.cost_budget
        state = jax.lax.cond(
            state.updates % config.policy_delay == 0,
            lambda state: improve(state, now, violation),
            lambda state: state,
            state,
        )
        return state, {
            "reward_critic_error": reward_error,
            "cost_critic_error": cost_error,
            "cost_estimate": estimate,
            "violation": violation,
            "multiplier": multiplier.value(state.multiplier),
        }

    def estimate(state: TD3State, observation: jax.Array, action: jax.Array) -> CostEstimate:
        return one_estimate(costs.values(state.costs, observation, seen(action)))

    return Algorithm(
        init=init,
        act=act,
        act_greedily=lambda state, observation: mode(state.policy.params, observation),
        update=each_update(step),
        network=lambda state: PolicyNetwork(state.policy.params, style.activation, "tanh"),
        cost_estimate=estimate,
    )


TD3_LAG = Entry(
    name="td3-lag",
    summary="TD3: a deterministic policy, with a Lagrange multiplier",
    build=td3_lag,
    config=TD3LagConfig,
    schedule=OffPolicySchedule,
    presets=presets,
)
