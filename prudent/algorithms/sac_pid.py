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
from dataclasses import dataclass
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp

from prudent.algorithms.entry import Entry
from prudent.algorithms.presets import BY_TWENTY_EPISODES, baseline_presets
from prudent.pieces.critics import one_estimate, q_ensemble
from prudent.pieces.dual import DualConfig, fixed, make_dual, pid
from prudent.pieces.fast import adam
from prudent.pieces.networks import STYLES
from prudent.pieces.policies import tanh_gaussian
from prudent.pieces.soft import SoftState, soft_actor_critic
from prudent.pieces.types import Algorithm, Batch, CostEstimate, Metrics, Spec
from prudent.settings.checks import NotNegative, Positive, Values
from prudent.settings.configs import OffPolicyConfig
from prudent.settings.schedules import OffPolicySchedule
from prudent.tasks.task import Task


@dataclass(frozen=True)
class SACPIDConfig(OffPolicyConfig):
    learning_rate: Positive = 1e-3
    """Adam's rate for every network."""
    temperature: NotNegative = 0.0085
    """Weight of the entropy, which is not tuned."""
    proportional_gain: NotNegative = 0.1
    """Multiplier per unit of violation now (K_P)."""
    integral_gain: NotNegative = 0.003
    """Multiplier per unit of violation summed over all updates (K_I)."""
    derivative_gain: NotNegative = 0.001
    """Multiplier per unit by which the violation rose since the last update (K_D)."""
    entropy_in_cost_target: bool = True
    """Let the cost critic, too, bootstrap with the entropy bonus, as the reference code does; that
    biases the cost upwards by what entropy is worth. False is correct."""
    cost_mask: Literal["task", "never"] = "task"
    """Stop the cost target where the task says so (as CAL does), or never (the reference)."""


# The paper's runs, as far as it and their code say.
SCHEDULE: Values = {**BY_TWENTY_EPISODES, "replay_capacity": 20_000}


def presets(task: Task) -> dict[str, Values]:
    on_button2 = task.settled_as == "point-button2"
    own = {**SCHEDULE, "updates_per_step": 20} if on_button2 else SCHEDULE
    return baseline_presets(SACPIDConfig, task, own)


def sac_pid(config: SACPIDConfig, spec: Spec) -> Algorithm:
    optimiser, style = adam(config.learning_rate), "relu-xavier-normal"
    # Entropy per action in [-1, 1], as in the reference: in units of the environment the bonus
    # would differ by a constant, which counts as reward and as cost at every step.
    log_scale = sum(math.log(scale) for scale in spec.action_scale)
    critic = partial(q_ensemble, spec, config.hidden, STYLES[style], optimiser=optimiser)
    rewards, costs = (critic(size=size, target_rate=config.target_rate) for size in (2, 1))
    agent = soft_actor_critic(
        config,
        spec,
        tanh_gaussian(spec, config.hidden, style),
        {"rewards": rewards, "costs": costs},
        fixed(config.temperature),
        optimiser,
        density_offset=log_scale,
    )
    gains = config.proportional_gain, config.integral_gain, config.derivative_gain
    dual = make_dual(DualConfig(dual_action="policy"), spec, agent, pid(*gains))

    def step(state: SoftState, batch: Batch, key: jax.Array) -> tuple[SoftState, Metrics]:
        key_next, key_now = jax.random.split(key)
        s, s2 = batch.observation, batch.next_observation

        # The critics, each towards its own target, one sampled action ahead.
        following = agent.sample(state.policy.params, s2, key_next)
        ahead = costs.target_values(state.costs, s2, following.action)[0]
        if config.entropy_in_cost_target:
            ahead = ahead - config.temperature * (following.log_density + log_scale)
        if config.cost_mask == "task":
            ahead = batch.cost_continues * ahead
        cost_target = (batch.cost + config.cost_discount * ahead)[None]
        reward_target = agent.reward_target(state, batch, following)
        state, errors = agent.fit(state, batch, rewards=reward_target, costs=cost_target)

        # The controller sees the cost of the policy's actions, and moves before the policy does.
        where = dual.where(state, batch, key_now, key_now)
        estimated = jnp.mean(costs.values(state.costs, *where), axis=-1)  # [K]
        controlled = dual.ascend(state.dual, estimated)
        # Without the barrier XLA repeats the controller for each number of a gradient: 6 %.
        weight = jax.lax.optimization_barrier(dual.multiplier(controlled))

        def price(action: jax.Array) -> jax.Array:  # [B]
            return jnp.sum(weight[:, None] * costs.values(state.costs, s, action), axis=0)

        policy, entropy = agent.improve(state, s, key_now, price)
        metrics = {
            **errors,
            **dual.metrics(state.dual, controlled, estimated),
            "entropy": entropy,
            "multiplier_integral": jnp.sum(controlled.multiplier.integral),
        }
        return agent.advance(state, batch, policy, entropy, controlled), metrics

    def estimate(state: SoftState, *where: jax.Array) -> CostEstimate:
        return one_estimate(costs.values(state.costs, *where))

    return agent.algorithm(step, dual, estimate)


SAC_PID = Entry(
    "sac-pid",
    "SAC with a PID-controlled cost multiplier",
    sac_pid,
    SACPIDConfig,
    OffPolicySchedule,
    presets,
)
