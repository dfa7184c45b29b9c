"""SAC-PIDLag: soft actor-critic whose cost is priced by a PID controller (Stooke et al., 2020, in
the form of cvpo-safe-rl).

    violation     e = E[Q_c(s, a)] - d, a ~ π(s)
    multiplier    λ = max(0, K_P max(0, e) + K_I Σe + K_D max(0, e - e_before))
    policy        minimise  α log π - min_j Q_r^j + λ Q_c

λ is `multiplier`, d `cost_budget`, α `temperature` (fixed), and the K `proportional_gain`,
`integral_gain` and `derivative_gain`. The controller moves inside the policy's step: the policy
already feels the multiplier that its own violation makes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from prudent.algorithms.entry import Entry
from prudent.algorithms.presets import BY_TWENTY_EPISODES, baseline_presets
from prudent.compute import critics, jax, jnp, multipliers, networks, policies, soft, types
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


def sac_pid(config: SACPIDConfig, spec: types.Spec) -> types.Algorithm:
    optimiser = networks.adam(config.learning_rate)
    style = "relu-xavier-normal"
    rewards, costs = (
        critics.q_ensemble(
            spec,
            config.hidden,
            networks.STYLES[style],
            size=size,
            optimiser=optimiser,
            target_rate=config.target_rate,
        )
        for size in (2, 1)
    )
    multiplier = multipliers.pid(
        config.proportional_gain, config.integral_gain, config.derivative_gain
    )
    # Entropy per action in [-1, 1], as in the reference: in units of the environment the bonus
    # would differ by a constant, which counts as reward and as cost at every step.
    log_scale = sum(math.log(scale) for scale in spec.action_scale)
    parts = soft.soft_actor_critic(
        spec,
        policies.tanh_gaussian(spec, config.hidden, style),
        {"rewards": rewards, "costs": costs},
        multipliers.fixed(config.temperature),
        multiplier,
        optimiser=optimiser,
        discount=config.discount,
        target_entropy=0.0,
        seen=lambda action: policies.in_environment_units(spec, action),
        density_offset=log_scale,
    )

    def cost_target(
        state: soft.SoftState, batch: types.Transition, following: soft.Following
    ) -> jax.Array:
        ahead = costs.target_values(state.costs, following.observation, following.action)[0]
        if config.entropy_in_cost_target:
            ahead = ahead - config.temperature * (following.log_density + log_scale)
        if config.cost_mask == "task":
            ahead = batch.cost_continues * ahead
        return batch.cost + config.cost_discount * ahead

    def step(
        state: soft.SoftState, batch: types.Transition, key: jax.Array, index: jax.Array
    ) -> tuple[soft.SoftState, types.Metrics]:
        key_next, key_now = jax.random.split(key)
        now = batch.observation

        # Critics first, each towards its own target, one sampled action ahead.
        following = parts.follow(state, batch, key_next)
        state, errors = parts.fit(
            state,
            batch,
            rewards=parts.reward_target(state, batch, following)[None],
            costs=cost_target(state, batch, following)[None],
        )

        # The controller sees the cost of the policy's actions, then the policy pays its price.
        def price(action: jax.Array) -> soft.Price:
            cost = costs.values(state.costs, now, action)[0]
            violation = jax.lax.stop_gradient(jnp.mean(cost)) - spec.cost_budget
            controlled = multiplier.update(state.multiplier, violation)
            return soft.Price(cost, multiplier.value(controlled), violation, controlled)

        improved = parts.improve(state, now, key_now, price)
        new_state = parts.advance(state, improved, improved.price.multiplier)
        return new_state, {
            **errors,
            **parts.metrics(new_state, improved),
            "multiplier_integral": new_state.multiplier.integral,
        }

    def estimate(state: soft.SoftState, *inputs: jax.Array) -> types.CostEstimate:
        return critics.one_estimate(costs.values(state.costs, *inputs))

    return parts.algorithm(step, estimate)


SAC_PID = Entry(
    "sac-pid",
    "SAC with a PID-controlled cost multiplier",
    sac_pid,
    SACPIDConfig,
    OffPolicySchedule,
    presets,
)
