"""CAL: Conservative Augmented Lagrangian (Wu et al., ICLR 2024).

Soft actor-critic that maximises reward while the expected cost stays under a budget d.

    conservative cost   Q_U(s, a) = mean_i Q_c^i(s, a) + k * std_i Q_c^i(s, a)
    violation           G = E[Q_U(s, a)] - d
    cost weight         λ~ = max(0, λ + c * G)
    policy              minimise  α * log π - min_j Q_r^j + λ~ * Q_U
    multiplier          ascend    λ * G

λ is `multiplier`, λ~ `cost_weight`, k `conservatism`, c `convexity`, α `temperature`, E
`cost_critics`. With c = 0 this is the paper's "UCB-k"; with one cost critic and k = 0 as well it is
SAC-Lag, which has a file of its own.
"""

from dataclasses import asdict, dataclass
from typing import Literal

import jax
import jax.numpy as jnp

from prudent.algorithms.presets import conservative_entry
from prudent.pieces.critics import highest_of_random_members, spread, upper_confidence
from prudent.pieces.dual import DualConfig, make_dual, rectify
from prudent.pieces.soft import SoftState, sac_agent
from prudent.pieces.types import Algorithm, Batch, CostEstimate, Metrics, Spec
from prudent.settings.checks import Count, CountOrZero, NotNegative
from prudent.settings.configs import SACConfig


@dataclass(frozen=True)
class UCBConfig(DualConfig, SACConfig):
    cost_critics: Count = 4
    """Size of the cost ensemble (E)."""
    cost_loss: Literal["mean", "sum"] = "mean"
    """How the members' squared errors are joined; felt only through Adam's epsilon."""
    conservatism: NotNegative = 0.5
    """Standard deviations added to the ensemble's mean (k)."""
    spread_ddof: Literal[0, 1] = 1
    """Divide the ensemble's variance by E - 1 (1, the official code) or by E (0, the paper)."""
    random_targets: CountOrZero = 0
    """Bootstrap all members from the highest of this many randomly drawn target copies
    (`intrgt_max`); 0: each member from its own."""


@dataclass(frozen=True)
class CALConfig(UCBConfig):
    convexity: NotNegative = 10.0
    """Strength of the augmented Lagrangian's quadratic term (c)."""


def cal(config: CALConfig, spec: Spec) -> Algorithm:
    agent = sac_agent(config, spec, config.cost_critics, config.cost_loss)
    dual, costs = make_dual(config, spec, agent), agent.costs

    def conservative(values: jax.Array) -> jax.Array:  # [E, B] -> [K, B]
        return upper_confidence(values, config.conservatism, config.spread_ddof)[None]

    def step(state: SoftState, batch: Batch, key: jax.Array) -> tuple[SoftState, Metrics]:
        key_next, key_now, key_members, key_recent = jax.random.split(key, 4)
        s, a, s2 = batch.observation, agent.seen(batch.action), batch.next_observation
        heard = dual.hear(state.dual, batch)

        # The critics: each cost critic towards its own target, one sampled action ahead.
        following = agent.sample(state.policy.params, s2, key_next)
        ahead = costs.target_values(state.costs, s2, following.action)  # [E, B]
        if config.random_targets:
            highest = highest_of_random_members(ahead, config.random_targets, key_members)
            ahead = jnp.broadcast_to(highest[None], ahead.shape)
        state, errors = agent.fit(
            state,
            batch,
            rewards=agent.reward_target(state, batch, following),
            costs=dual.bounded(agent.cost_target(batch, ahead)),
        )

        # The violation, and the weight that the augmented Lagrangian gives to cost.
        where = dual.where(state, batch, key_now, key_recent)
        estimated = jnp.mean(conservative(costs.values(state.costs, *where)), axis=-1)  # [K]
        violation = estimated - dual.budget(heard)
        weight = rectify(dual.multiplier(heard), violation, config.convexity)

        # The policy, against the critics just learned.
        def price(action: jax.Array) -> jax.Array:  # [B]
            cost = conservative(costs.values(state.costs, s, action))
            return jnp.sum(weight[:, None] * cost, axis=0)

        policy, entropy = agent.improve(state, s, key_now, price, dual.divisor(weight))

        # The dual variables answer to their constraints; the target copies drift.
        new_dual = dual.ascend(heard, estimated)
        taken = costs.values(state.costs, s, a)
        state = agent.advance(state, batch, policy, entropy, new_dual)
        return state, {
            **errors,
            **dual.metrics(heard, new_dual, estimated),
            "entropy": entropy,
            "temperature": agent.temperature.value(state.temperature),
            "cost_weight": jnp.sum(weight),
            "ensemble_spread": jnp.mean(spread(taken, config.spread_ddof)),
        }

    def estimate(state: SoftState, *where: jax.Array) -> CostEstimate:
        values = costs.values(state.costs, *where)
        deviation = spread(values, config.spread_ddof)
        return CostEstimate(jnp.mean(values, axis=0), deviation, conservative(values)[0])

    return agent.algorithm(step, dual, estimate)


def ucb(config: UCBConfig, spec: Spec) -> Algorithm:
    return cal(CALConfig(**asdict(config), convexity=0.0), spec)


CAL = conservative_entry(
    "cal", "conservative augmented Lagrangian SAC (the paper's method)", cal, CALConfig
)
UCB = conservative_entry("ucb", "CAL without the quadratic term (UCB-k)", ucb, UCBConfig)
