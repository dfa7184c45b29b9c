"""CUP: constrained update projection (Yang et al. 2022).

    multiplier    ascend ν (J_C - d), once per epoch, within [0, 2]
    improvement   π_half: PPO's passes on A_r alone
    projection    minimise E[KL(π || π_half) + ν (1 - γ τ) / (1 - γ) π(a|s) / π_k(a|s) A_c]

π_k collected the data: the ratio is to it, the divergence to π_half. Both stages stop when the
policy has moved too far from π_k.
"""

import jax
import jax.numpy as jnp

from prudent.configs import OnPolicyConfig
from prudent.pieces.networks import descend
from prudent.pieces.on_policy_actor_critic import (
    ActorCritic,
    Batch,
    Epoch,
    adaptive,
    by_passes,
    in_passes,
    on_policy,
    probability_ratio,
    reward_only,
)
from prudent.pieces.policies import divergence
from prudent.pieces.surrogates import projection_coefficient
from prudent.pieces.types import Algorithm, Metrics, Params, Spec


def cup(config: OnPolicyConfig, spec: Spec) -> Algorithm:
    towards_reward = by_passes(config, config.clip)
    coefficient = projection_coefficient(config.discount, config.cost_trace_decay)

    def project(state: ActorCritic, epoch: Epoch, collector: Params) -> tuple[ActorCritic, Metrics]:
        policy, halfway, seen = epoch.parts.policy, state.policy.params, epoch.batch.observation
        old = policy.normal(collector, seen)

        def step(state: ActorCritic, batch: Batch) -> tuple[ActorCritic, Metrics]:
            def loss(params: Params) -> tuple[jax.Array, None]:
                here = policy.normal(params, batch.observation)
                away = divergence(here, policy.normal(halfway, batch.observation))  # [B]
                cost = probability_ratio(policy, params, batch) * batch.cost_advantage  # [B]
                total = away + epoch.cost_weight * coefficient * cost
                return jnp.average(total, weights=batch.weight), None

            projected, _ = descend(loss, state.policy, epoch.parts.optimiser)
            return state._replace(policy=projected), {}

        def moved(state: ActorCritic) -> jax.Array:
            return jnp.mean(divergence(policy.normal(state.policy.params, seen), old))

        return in_passes(config, step, moved, state, epoch)

    def improve(state: ActorCritic, epoch: Epoch) -> tuple[ActorCritic, Metrics]:
        key_reward, key_cost = jax.random.split(epoch.key)
        collector = state.policy.params
        state, metrics = towards_reward(state, epoch._replace(key=key_reward))
        state, projection = project(state, epoch._replace(key=key_cost), collector)
        renamed = {f"projection_{name}": value for name, value in projection.items()}
        return state, {**metrics, **renamed}

    return on_policy(config, spec, dual=adaptive(config), combine=reward_only, improve=improve)
