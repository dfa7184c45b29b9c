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
from dataclasses import dataclass
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp

from prudent.algorithms.entry import Entry
from prudent.algorithms.presets import baseline_presets
from prudent.pieces import critics
from prudent.pieces.dual import DualConfig, make_dual, rectify, softplus_ascent
from prudent.pieces.fast import adam
from prudent.pieces.networks import STYLES
from prudent.pieces.policies import tanh_gaussian
from prudent.pieces.soft import SoftState, soft_actor_critic
from prudent.pieces.types import Algorithm, Batch, CostEstimate, Metrics, Spec
from prudent.settings.checks import Finite, NotNegative, Positive, PositiveShare, Values
from prudent.settings.configs import OffPolicyConfig
from prudent.settings.schedules import OffPolicySchedule
from prudent.tasks.task import Task


@dataclass(frozen=True)
class WCSACConfig(OffPolicyConfig):
    learning_rate: Positive = 1e-3
    """Adam's rate for every network and the temperature."""
    multiplier_learning_rate: Positive = 0.05
    target_entropy: Finite | None = None
    """Entropy floor of the policy; by default minus the number of action dimensions."""
    risk_level: PositiveShare = 0.1
    """Share of the worst outcomes that the constraint is about; 1: all, that is, the mean."""
    damping: NotNegative = 10.0
    """How much the price of cost answers to the violation itself (zeta)."""
    clip_damping: bool = False
    """Keep that price at 0 or above, as CAL does; the reference lets it reward cost when safe."""
    cost_mask: Literal["task", "never"] = "task"
    """Stop the targets of cost and variance where the task says so (as CAL does), or never."""


# The paper's runs, as far as it and their code say.
SCHEDULE: Values = {
    "warmup_steps": 500,
    "updates_per_step": 1,
    "update_every": 100,
    "updates_cap": None,
    "batch_size": 256,
}


def presets(task: Task) -> dict[str, Values]:
    return baseline_presets(WCSACConfig, task, SCHEDULE)


def wcsac(config: WCSACConfig, spec: Spec) -> Algorithm:
    optimiser = adam(config.learning_rate)
    floor = config.target_entropy

    critic = partial(
        critics.q_ensemble,
        spec,
        config.hidden,
        STYLES["relu-xavier"],
        optimiser=optimiser,
        target_rate=config.target_rate,
        loss_over_members=lambda errors: 0.5 * jnp.sum(errors),
    )
    costs, variances = critic(size=1), critic(size=1, quantity=critics.VARIANCE)
    agent = soft_actor_critic(
        config,
        spec,
        tanh_gaussian(spec, config.hidden),
        {"rewards": critic(size=2), "costs": costs, "variances": variances},
        softplus_ascent(config.learning_rate, math.log(2.0)),
        optimiser,
        target_entropy=-float(spec.action_size) if floor is None else floor,
    )
    ascent = softplus_ascent(config.multiplier_learning_rate, math.log(2.0))
    dual = make_dual(DualConfig(), spec, agent, ascent)

    def cost_at_risk(state: SoftState, *where: jax.Array) -> jax.Array:  # [K, B]
        mean = costs.values(state.costs, *where)
        variance = variances.values(state.variances, *where)
        return critics.conditional_value_at_risk(mean, variance, config.risk_level)

    def cost_targets(
        state: SoftState, batch: Batch, action: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Of mean and variance, [B] each, the second not yet clipped; `action` is the next one."""
        continues = batch.cost_continues
        if config.cost_mask == "never":
            continues = jnp.ones_like(continues)
        ahead = critics.NextReturn(
            mean=costs.target_values(state.costs, batch.next_observation, action)[0],
            variance=variances.target_values(state.variances, batch.next_observation, action)[0],
            continues=continues,
        )
        mean = costs.values(state.costs, batch.observation, agent.seen(batch.action))[0]
        variance = critics.variance_target(batch.cost, config.cost_discount, ahead, mean)
        return batch.cost + config.cost_discount * continues * ahead.mean, variance

    def step(state: SoftState, batch: Batch, key: jax.Array) -> tuple[SoftState, Metrics]:
        key_next, key_now = jax.random.split(key)
        s = batch.observation

        # The critics, each towards its own target, one sampled action ahead.
        following = agent.sample(state.policy.params, batch.next_observation, key_next)
        cost_target, variance = cost_targets(state, batch, following.action)
        variance_target = jnp.clip(variance, critics.VARIANCE_MIN, critics.VARIANCE_MAX)
        state, errors = agent.fit(
            state,
            batch,
            rewards=agent.reward_target(state, batch, following),
            costs=cost_target[None],
            variances=variance_target[None],
        )

        # The violation, and the weight of cost, which grows with it.
        where = dual.where(state, batch, key_now, key_now)
        estimated = jnp.mean(cost_at_risk(state, *where), axis=-1)  # [K]
        violation = estimated - dual.budget(state.dual)
        weight = dual.multiplier(state.dual) + config.damping * violation
        if config.clip_damping:
            weight = rectify(dual.multiplier(state.dual), violation, config.damping)

        # The policy, against the critics just learned.
        def price(action: jax.Array) -> jax.Array:  # [B]
            return jnp.sum(weight[:, None] * cost_at_risk(state, s, action), axis=0)

        policy, entropy = agent.improve(state, s, key_now, price)

        # The dual variables answer to their constraints; the target copies drift.
        new_dual = dual.ascend(state.dual, estimated)
        metrics = {**errors, **dual.metrics(state.dual, new_dual, estimated)}
        state = agent.advance(state, batch, policy, entropy, new_dual)
        return state, {
            **metrics,
            "entropy": entropy,
            "temperature": agent.temperature.value(state.temperature),
            "variance_target": jnp.mean(variance_target),
            "variance_clipped": jnp.mean(variance_target != variance),
            "cost_weight": jnp.sum(weight),
        }

    def estimate(state: SoftState, *where: jax.Array) -> CostEstimate:
        mean = costs.values(state.costs, *where)[0]
        deviation = jnp.sqrt(variances.values(state.variances, *where)[0])
        return CostEstimate(mean, deviation, cost_at_risk(state, *where)[0])

    return agent.algorithm(step, dual, estimate)


WCSAC = Entry(
    "wcsac",
    "SAC that bounds the mean of the worst outcomes",
    wcsac,
    WCSACConfig,
    OffPolicySchedule,
    presets,
)
