"""CUP: constrained update projection (Yang et al. 2022).

    multiplier    ascend ν (J_C - d), once per epoch, within [0, 2]
    improvement   π_half: PPO's passes on A_r alone
    projection    minimise E[KL(π || π_half) + ν K π(a|s) / π_k(a|s) A_c],
                  K = (1 - γ_c τ) / (1 - γ_c)

π_k collected the data: the ratio is to it, the divergence to π_half. Both stages stop when the
policy has moved too far from π_k.
"""

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp

from prudent.algorithms.on_policy_presets import on_policy_entry
from prudent.pieces.improvement import by_passes, in_passes
from prudent.pieces.networks import descend
from prudent.pieces.on_policy import (
    ActorCritic,
    Epoch,
    Samples,
    adaptive,
    on_policy,
    probability_ratio,
    reward_only,
)
from prudent.pieces.policies import divergence
from prudent.pieces.surrogates import projection_coefficient
from prudent.pieces.types import Algorithm, Metrics, Params, Spec
from prudent.settings.checks import Range, Values
from prudent.settings.configs import ClippedConfig, LagrangianConfig


@dataclass(frozen=True)
class CUPConfig(ClippedConfig, LagrangianConfig):
    cost_discount: Annotated[float, Range(0, 1, open_high=True)] = 0.99
    """Cost discount (gamma_c); the projection's weight is infinite at 1."""


# As in its own public code, which differs from that of the others.
OWN: Values = {
    "epoch_steps": 2048,
    "cost_window": None,
    "passes": 10,
    "divergence": "from_new",
    "max_critic_gradient_norm": None,
    "rate_decay": "all",
    "standardise_cost": True,
    "multiplier": "projected_sgd",
    "multiplier_learning_rate": 0.01,
    "initial_multiplier": 0.0,
    "largest_multiplier": 2.0,
    "initial_weights": "tanh-uniform-small",
    "initial_log_std": -0.5,
    "timeout_is_terminal": True,
}


def cup(config: CUPConfig, spec: Spec) -> Algorithm:
    towards_reward = by_passes(config, config.clip)
    coefficient = projection_coefficient(config.cost_discount, config.cost_trace_decay)

    def project(state: ActorCritic, epoch: Epoch, collector: Params) -> tuple[ActorCritic, Metrics]:
        policy, halfway, seen = epoch.parts.policy, state.policy.params, epoch.batch.observation
        old = policy.normal(collector, seen)

        def step(state: ActorCritic, batch: Samples) -> tuple[ActorCritic, Metrics]:
            def loss(params: Params) -> tuple[jax.Array, None]:
                here = policy.normal(params, batch.observation)
                away = divergence(here, policy.normal(halfway, batch.observation))  # [B]
                cost = probability_ratio(policy, params, batch) * batch.cost_advantage  # [B]
                total = away + epoch.cost_weight * coefficient * cost
                return jnp.average(total, weights=batch.weight), None

            projected, _ = descend(loss, state.policy, epoch.parts.optimiser)
            return state._replace(policy=projected), {}

        def distance(state: ActorCritic) -> jax.Array:
            return jnp.mean(divergence(policy.normal(state.policy.params, seen), old))

        return in_passes(config, step, distance, state, epoch)

    def improve(state: ActorCritic, epoch: Epoch) -> tuple[ActorCritic, Metrics]:
        key_reward, key_cost = jax.random.split(epoch.key)
        collector = state.policy.params
        state, metrics = towards_reward(state, epoch._replace(key=key_reward))
        state, projection = project(state, epoch._replace(key=key_cost), collector)
        renamed = {f"projection_{name}": value for name, value in projection.items()}
        return state, {**metrics, **renamed}

    return on_policy(config, spec, adaptive(config), reward_only, improve)


CUP = on_policy_entry("cup", "PPO, then projection towards lower cost", cup, CUPConfig, OWN)
