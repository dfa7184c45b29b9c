"""CVPO: constrained variational policy optimisation (Liu et al., ICML 2022).

Each update first asks which actions would have been better, then moves the policy towards them.

    selection     w(a|s) ∝ exp((Q_r - λ Q_c) / η), over N actions of the old policy
    dual          (η, λ) minimise  η ε + λ d + η E_s[log mean_a exp((Q_r - λ Q_c) / η)]
    fit           maximise  E_w[log N(a; μ, Σ_old) + log N(a; μ_old, Σ)]
                  under KL_μ(old | new) ≤ ε_μ and KL_Σ(old | new) ≤ ε_Σ

η is `selection_temperature`, λ `multiplier`, d `cost_budget`; ε, ε_μ and ε_Σ are
`selection_divergence`, `mean_divergence` and `spread_divergence`. At the dual's optimum the
selected actions keep the budget (its slope in λ is d - E_w[Q_c]) and the divergence (its slope in η
is ε - KL(w | old)). Where no selection within ε keeps the budget, λ goes to its bound and η with
it, as far as the divergence asks: the selection is then of the cheapest actions.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from prudent.algorithms.entry import Entry
from prudent.algorithms.presets import BY_EPISODE, BY_TWENTY_EPISODES, baseline_presets
from prudent.pieces import policies
from prudent.pieces.critics import CriticState, one_estimate, q_ensemble
from prudent.pieces.dual import Multiplier, projected_ascent
from prudent.pieces.fast import adam
from prudent.pieces.networks import STYLES, Trained, descend, start
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
from prudent.pieces.variational import (
    DualVariables,
    Fit,
    Limits,
    Selection,
    Trust,
    Weighed,
    bounded,
    dual_value,
    log_selection,
    solve_dual,
    weighted_fit,
)
from prudent.settings.checks import Count, NotNegative, Positive, Values
from prudent.settings.configs import OffPolicyConfig
from prudent.settings.schedules import OffPolicySchedule
from prudent.tasks.task import Task


@dataclass(frozen=True)
class CVPOConfig(OffPolicyConfig):
    """The defaults are its Safety-Gym version, the velocity presets its MuJoCo version."""

    policy_learning_rate: Positive = 2e-3
    critic_learning_rate: Positive = 1e-3
    cost_mask: Literal["task", "never"] = "task"
    """Stop the cost target where the task says so (as CAL does), or never (the reference)."""
    reward_critics: Count = 2
    """Reward critics, of which the lowest is used."""
    covariance: Literal["full", "diagonal"] = "full"
    """Whether the policy's action dimensions may vary together."""

    samples: Count = 32
    """Actions weighed per state (N)."""
    selection_critics: Literal["target", "online"] = "target"
    """Whose values weigh them."""
    selection_divergence: Positive = 0.1
    """How far the weighed actions may be from the old policy (epsilon)."""
    dual_solver: Literal["newton", "adam"] = "newton"
    """Solve the dual for each batch, or move its remembered variables by one step."""
    dual_iterations: Count = 10
    """Steps of the solver; with adam always 1."""
    dual_learning_rate: Positive = 0.02
    """Adam's rate, if it is the solver."""
    initial_selection_temperature: Positive = 0.1
    initial_multiplier: NotNegative = 0.1
    largest_dual: Positive = 1e5
    """Bound of both dual variables."""

    old_policy: Literal["drift", "copy"] = "drift"
    """Whether the old policy follows the new at `target_rate`, or is a copy of what it was before
    this block of updates."""
    policy_iterations: Count = 6
    """Steps of the policy per update."""
    mean_divergence: Positive = 1e-3
    """How far the policy's mean may be from the old one's, as a divergence."""
    spread_divergence: Positive = 1e-3
    """The same for its covariance."""
    trust_optimiser: Literal["sgd", "adam"] = "sgd"
    """How the prices of these two divergences move."""
    mean_trust_rate: Positive = 1.0
    spread_trust_rate: Positive = 100.0
    mean_trust_max: Positive = 0.1
    spread_trust_max: Positive = 10.0
    max_gradient_norm: Positive | None = 0.01
    """Scale the policy's gradient down to this length."""


# The paper's runs, as far as it and their code say.
SCHEDULE: Values = {**BY_TWENTY_EPISODES, "replay_capacity": 80_000}
# The MuJoCo version: another code base, which the paper ran with changes of its own.
MUJOCO: Values = {
    "hidden": (128, 128),
    "policy_learning_rate": 5e-4,
    "target_rate": 0.05,
    "reward_critics": 1,
    "covariance": "diagonal",
    "samples": 16,
    "selection_critics": "online",
    "selection_divergence": 0.02,
    "dual_solver": "adam",
    "initial_selection_temperature": 1.0,
    "initial_multiplier": 0.0,
    "largest_dual": 20.0,
    "old_policy": "copy",
    "policy_iterations": 1,
    "mean_divergence": 0.005,
    "spread_divergence": 0.005,
    "trust_optimiser": "adam",
    "mean_trust_rate": 0.1,
    "spread_trust_rate": 0.1,
    "mean_trust_max": 0.5,
    "spread_trust_max": 0.5,
    "max_gradient_norm": None,
    "target_steps": 3,
    # Its trust region is around the policy of the last block: anchored anew after every step, it
    # holds nothing, and the spread of the actions vanishes (docs/results/hopper.md).
    **BY_EPISODE,
    "update_every": 1,
}
MUJOCO_SCHEDULE: Values = {
    "warmup_steps": 0,
    "updates_per_step": 0.5,
    "batch_size": 256,
    "replay_capacity": 200_000,
}
MUJOCO_TASKS: dict[str, Values] = {
    "ant-velocity": {"samples": 32},
    "humanoid-velocity": {"samples": 64},
}


def presets(task: Task) -> dict[str, Values]:
    if task.family != "velocity":
        return baseline_presets(CVPOConfig, task, SCHEDULE)
    version = {**MUJOCO, **MUJOCO_TASKS.get(task.settled_as, {})}
    return baseline_presets(CVPOConfig, task, {**MUJOCO_SCHEDULE, **version}, matched=version)


class CVPOState(NamedTuple):
    policy: Trained
    old_policy: Params
    rewards: CriticState
    costs: CriticState
    dual: Trained
    mean_trust: Any
    spread_trust: Any
    updates: jax.Array  # gradient steps so far


def make_trust(config: CVPOConfig, rate: float, upper: float) -> Multiplier:
    optimiser = optax.sgd if config.trust_optimiser == "sgd" else adam
    return projected_ascent(rate, 0.0, optimiser, upper)


def cvpo(config: CVPOConfig, spec: Spec) -> Algorithm:
    style = "relu-xavier-normal"
    optimiser = adam(config.policy_learning_rate)
    if config.max_gradient_norm is not None:
        optimiser = optax.chain(optax.clip_by_global_norm(config.max_gradient_norm), optimiser)
    dual_optimiser = adam(config.dual_learning_rate)
    gaussian = policies.full_gaussian if config.covariance == "full" else policies.diagonal_gaussian
    policy = gaussian(spec, config.hidden, style)
    critic = partial(q_ensemble, spec, config.hidden, STYLES[style], target_rate=config.target_rate)
    rewards, costs = (
        critic(size=size, optimiser=adam(config.critic_learning_rate))
        for size in (config.reward_critics, 1)
    )
    mean_trust = make_trust(config, config.mean_trust_rate, config.mean_trust_max)
    spread_trust = make_trust(config, config.spread_trust_rate, config.spread_trust_max)
    fit = weighted_fit(
        policy.moments,
        optimiser,
        config.policy_iterations,
        Trust(config.mean_divergence, mean_trust),
        Trust(config.spread_divergence, spread_trust),
    )
    limits = Limits(config.selection_divergence, spec.cost_budget, config.largest_dual)

    def init(key: jax.Array) -> CVPOState:
        key_policy, key_rewards, key_costs = jax.random.split(key, 3)
        params = policy.init(key_policy)
        dual = DualVariables(
            jnp.asarray(config.initial_selection_temperature, jnp.result_type(float)),
            jnp.asarray(config.initial_multiplier, jnp.result_type(float)),
        )
        return CVPOState(
            policy=start(params, optimiser),
            old_policy=jax.tree.map(jnp.copy, params),
            rewards=rewards.init(key_rewards),
            costs=costs.init(key_costs),
            dual=start(dual, dual_optimiser),
            mean_trust=mean_trust.init(),
            spread_trust=spread_trust.init(),
            updates=jnp.zeros((), jnp.int32),
        )

    def as_executed(action: jax.Array) -> jax.Array:
        """The environment clips, and the critics learn from what it did."""
        return policies.in_environment_units(spec, jnp.clip(action, -1.0, 1.0))

    def begin_block(state: CVPOState, index: jax.Array) -> CVPOState:
        """The old policy is what the policy was before the block, and trust starts anew."""
        if config.old_policy == "drift":
            return state
        fresh = state._replace(
            old_policy=state.policy.params,
            mean_trust=mean_trust.init(),
            spread_trust=spread_trust.init(),
        )
        return jax.tree.map(lambda new, old: jnp.where(index == 0, new, old), fresh, state)

    def fit_critics(state: CVPOState, batch: Batch, noise: jax.Array) -> Any:
        """Both look one step ahead, each to its own sample of what the policy would do there."""
        moments = policy.moments(state.policy.params, batch.next_observation)
        to_reward, to_cost = (as_executed(policies.perturbed(moments, part)) for part in noise)
        then, now = batch.next_observation, (batch.observation, as_executed(batch.action))
        reward = jnp.min(rewards.target_values(state.rewards, then, to_reward), axis=0)
        reward = batch.reward + config.discount * batch.reward_continues * reward
        cost = costs.target_values(state.costs, then, to_cost)[0]
        if config.cost_mask == "task":
            cost = batch.cost_continues * cost
        cost = batch.cost + config.cost_discount * cost
        new_rewards, reward_error = rewards.fit(state.rewards, reward[None], *now)
        new_costs, cost_error = costs.fit(state.costs, cost[None], *now)
        errors = {"reward_critic_error": reward_error, "cost_critic_error": cost_error}
        return state._replace(rewards=new_rewards, costs=new_costs), errors

    def select(state: CVPOState, observation: jax.Array, noise: jax.Array) -> Selection:
        """The E-step: weigh actions of the old policy by reward and by priced cost."""
        old = policy.moments(state.old_policy, observation)
        actions = policies.perturbed(jax.tree.map(lambda x: x[None], old), noise)  # [N, B, act]
        samples, rows, size = actions.shape
        repeated = jnp.broadcast_to(observation[None], (samples, *observation.shape))
        flat = repeated.reshape(samples * rows, -1), as_executed(actions.reshape(-1, size))
        online = config.selection_critics == "online"
        reward = (rewards.values if online else rewards.target_values)(state.rewards, *flat)
        cost = (costs.values if online else costs.target_values)(state.costs, *flat)[0]
        values = Weighed(
            jnp.min(reward, axis=0).reshape(samples, rows), cost.reshape(samples, rows)
        )
        if config.dual_solver == "newton":
            solved = solve_dual(state.dual.params, values, limits, config.dual_iterations)
            dual = state.dual._replace(params=solved)
        else:
            dual, _ = descend(
                lambda params: (dual_value(params, values, limits), None),
                state.dual,
                dual_optimiser,
            )
            dual = dual._replace(params=bounded(jnp.stack(dual.params), limits))
        weights = jnp.exp(log_selection(dual.params, values))
        selected = jnp.mean(jnp.sum(weights * values.cost, axis=0))
        violation = jnp.mean(values.cost) - spec.cost_budget
        return Selection(old, actions, weights, dual, violation, selected)

    def step(state: CVPOState, batch: Batch, key: jax.Array) -> tuple[CVPOState, Metrics]:
        state = begin_block(state, batch.index)
        shape = (2 + config.samples, *batch.action.shape)
        noise = jax.random.normal(key, shape, batch.action.dtype)

        # Critics, then the actions worth having, then the policy that has them.
        state, errors = fit_critics(state, batch, noise[:2])
        selection = select(state, batch.observation, noise[2:])
        trust = state.mean_trust, state.spread_trust
        begin = Fit(state.policy, *trust, jnp.zeros(2, batch.action.dtype))
        fitted = fit(begin, batch.observation, selection)

        # The bootstrap copies drift, and the old policy may.
        old_policy = state.old_policy
        if config.old_policy == "drift":
            old_policy = optax.incremental_update(
                fitted.policy.params, old_policy, config.target_rate
            )
        new_state = CVPOState(
            policy=fitted.policy,
            old_policy=old_policy,
            rewards=rewards.track(state.rewards),
            costs=costs.track(state.costs),
            dual=selection.dual,
            mean_trust=fitted.mean_trust,
            spread_trust=fitted.spread_trust,
            updates=state.updates + 1,
        )
        return new_state, {
            **errors,
            "cost_estimate": selection.violation + spec.cost_budget,
            "violation": selection.violation,
            "selected_cost": selection.cost,
            "multiplier": selection.dual.params.multiplier,
            "selection_temperature": selection.dual.params.selection_temperature,
            "mean_divergence": fitted.divergences[0],
            "spread_divergence": fitted.divergences[1],
            "mean_trust": mean_trust.value(fitted.mean_trust),
            "spread_trust": spread_trust.value(fitted.spread_trust),
        }

    def act(state: CVPOState, observation: jax.Array, key: jax.Array) -> jax.Array:
        moments = policy.moments(state.policy.params, observation)
        noise = jax.random.normal(key, moments.mean.shape, moments.mean.dtype)
        return jnp.clip(policies.perturbed(moments, noise), -1.0, 1.0)

    def act_greedily(state: CVPOState, observation: jax.Array) -> jax.Array:
        return policy.moments(state.policy.params, observation).mean

    def network(state: CVPOState) -> PolicyNetwork:
        return policy.network(state.policy.params)

    def cost_estimate(state: CVPOState, observation: jax.Array, action: jax.Array) -> CostEstimate:
        return one_estimate(costs.values(state.costs, observation, as_executed(action)))

    return Algorithm(init, act, act_greedily, each_update(step), network, cost_estimate)


CVPO = Entry(
    "cvpo",
    "constrained variational policy optimisation",
    cvpo,
    CVPOConfig,
    OffPolicySchedule,
    presets,
)
