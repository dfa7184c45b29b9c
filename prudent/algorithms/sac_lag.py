"""SAC-Lag: soft actor-critic with one cost critic and a Lagrange multiplier.

    violation     G = E[Q_c(s, a)] - d
    policy        minimise  α log π - min_j Q_r^j + λ Q_c
    multiplier    ascend    λ G

λ is `multiplier`, d `cost_budget`, α `temperature`. With λ fixed at 0 this is unconstrained SAC,
whose cost is estimated all the same.
"""

from dataclasses import asdict, dataclass

import jax
import jax.numpy as jnp

from prudent.algorithms.presets import conservative_entry
from prudent.pieces.critics import one_estimate
from prudent.pieces.dual import DualConfig, make_dual
from prudent.pieces.soft import SoftState, sac_agent
from prudent.pieces.types import Algorithm, Batch, CostEstimate, Metrics, Spec
from prudent.settings.configs import SACConfig


@dataclass(frozen=True)
class SACLagConfig(DualConfig, SACConfig):
    pass


def sac_lag(config: SACLagConfig, spec: Spec) -> Algorithm:
    agent = sac_agent(config, spec)
    dual, costs = make_dual(config, spec, agent), agent.costs

    def step(state: SoftState, batch: Batch, key: jax.Array) -> tuple[SoftState, Metrics]:
        key_next, key_now, key_recent = jax.random.split(key, 3)
        s, s2 = batch.observation, batch.next_observation
        heard = dual.hear(state.dual, batch)

        # The critics, each towards its own target, one sampled action ahead.
        following = agent.sample(state.policy.params, s2, key_next)
        ahead = costs.target_values(state.costs, s2, following.action)  # [1, B]
        state, errors = agent.fit(
            state,
            batch,
            rewards=agent.reward_target(state, batch, following),
            costs=dual.bounded(agent.cost_target(batch, ahead)),
        )

        # The violation; the weight of cost is the multiplier.
        where = dual.where(state, batch, key_now, key_recent)
        estimated = jnp.mean(costs.values(state.costs, *where), axis=-1)  # [K]
        weight = dual.multiplier(heard)

        # The policy, against the critics just learned.
        def price(action: jax.Array) -> jax.Array:  # [B]
            return jnp.sum(weight[:, None] * costs.values(state.costs, s, action), axis=0)

        policy, entropy = agent.improve(state, s, key_now, price, dual.divisor(weight))

        # The dual variables answer to their constraints; the target copies drift.
        new_dual = dual.ascend(heard, estimated)
        state = agent.advance(state, batch, policy, entropy, new_dual)
        return state, {
            **errors,
            **dual.metrics(heard, new_dual, estimated),
            "entropy": entropy,
            "temperature": agent.temperature.value(state.temperature),
            "cost_weight": jnp.sum(weight),
            "ensemble_spread": jnp.zeros_like(entropy),  # of a single critic
        }

    def estimate(state: SoftState, *where: jax.Array) -> CostEstimate:
        return one_estimate(costs.values(state.costs, *where))

    return agent.algorithm(step, dual, estimate)


def sac(config: SACConfig, spec: Spec) -> Algorithm:
    ignored = SACLagConfig(**asdict(config), multiplier="fixed", initial_multiplier=0.0)
    return sac_lag(ignored, spec)


SAC_LAG = conservative_entry(
    "sac-lag", "SAC with one cost critic and a Lagrange multiplier", sac_lag, SACLagConfig
)
SAC = conservative_entry("sac", "soft actor-critic, cost ignored but estimated", sac, SACConfig)
