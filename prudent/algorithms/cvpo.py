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

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from prudent.algorithms.entry import Entry
from prudent.algorithms.presets import BY_EPISODE, BY_TWENTY_EPISODES, baseline_presets
from prudent.compute import critics, jax, jnp, multipliers, networks, optax, policies, types
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


SMALLEST = 1e-6  # of the selection's temperature


class Dual(NamedTuple):
    selection_temperature: jax.Array
    multiplier: jax.Array


class Weighed(NamedTuple):
    """Values of N actions in B states, [N, B]."""

    reward: jax.Array
    cost: jax.Array


class Limits(NamedTuple):
    divergence: float
    cost_budget: float
    largest: float  # of both dual variables


class Slopes(NamedTuple):
    gradient: jax.Array  # [2]
    curvature: jax.Array  # [2, 2]


def dual_value(dual: Dual, values: Weighed, limits: Limits) -> jax.Array:
    eta = dual.selection_temperature
    score = (values.reward - dual.multiplier * values.cost) / eta
    log_mean = jax.nn.logsumexp(score, axis=0) - jnp.log(float(len(score)))
    return eta * limits.divergence + dual.multiplier * limits.cost_budget + eta * jnp.mean(log_mean)


def log_selection(dual: Dual, values: Weighed) -> jax.Array:
    """Logarithms of the weights, [N, B], which sum to 1 over the actions of a state."""
    score = (values.reward - dual.multiplier * values.cost) / dual.selection_temperature
    return jax.nn.log_softmax(score, axis=0)


def dual_slopes(dual: Dual, values: Weighed, limits: Limits) -> Slopes:
    """Of the dual in (η, λ): moments of the selected actions, hence never far from convex."""
    logs = log_selection(dual, values)
    weights, eta = jnp.exp(logs), dual.selection_temperature
    score = values.reward - dual.multiplier * values.cost

    def mean(x: jax.Array) -> jax.Array:  # [N, B] -> [B]
        return jnp.sum(weights * x, axis=0)

    divergence = jnp.mean(mean(logs)) + jnp.log(float(len(logs)))
    gradient = jnp.stack(
        [limits.divergence - divergence, limits.cost_budget - jnp.mean(mean(values.cost))]
    )
    centred_score = score - mean(score)[None]
    centred_cost = values.cost - mean(values.cost)[None]
    both = jnp.mean(mean(centred_score * centred_cost)) / eta**2
    first = jnp.mean(mean(centred_score**2)) / eta**3
    second = jnp.mean(mean(centred_cost**2)) / eta
    return Slopes(gradient, jnp.stack([jnp.stack([first, both]), jnp.stack([both, second])]))


def bounded(point: jax.Array, limits: Limits) -> Dual:
    """[..., 2] back into the box."""
    eta = jnp.clip(point[..., 0], SMALLEST, limits.largest)
    return Dual(eta, jnp.clip(point[..., 1], 0.0, limits.largest))


def solve_dual(dual: Dual, values: Weighed, limits: Limits, iterations: int) -> Dual:
    """Newton's method on the two variables, from where they are.

    Each iteration tries a range of dampings, from Newton's step to short ones down the gradient,
    and takes the best: far from the solution the curvature may vanish or explode.
    """
    dampings = 10.0 ** jnp.arange(-7.0, 7.0)

    def iterate(_: int, dual: Dual) -> Dual:
        point = jnp.stack(dual)
        gradient, curvature = dual_slopes(dual, values, limits)
        lowest = jnp.asarray([SMALLEST, 0.0], point.dtype)
        # A variable that rests on its bound and is pushed against it stays, and the other moves as
        # if alone.
        held = ((point <= lowest) & (gradient > 0)) | ((point >= limits.largest) & (gradient < 0))
        free = 1.0 - held.astype(point.dtype)
        a = free[0] * curvature[0, 0] + dampings
        b = free[0] * free[1] * curvature[0, 1]
        c = free[1] * curvature[1, 1] + dampings
        slope = free * gradient
        steps = jnp.stack([c * slope[0] - b * slope[1], a * slope[1] - b * slope[0]], axis=1)
        tried = point[None] - steps / (a * c - b**2)[:, None]
        tried = jnp.concatenate([jnp.where(jnp.isfinite(tried), tried, point[None]), point[None]])
        candidates = bounded(tried, limits)
        heights = jax.lax.map(lambda candidate: dual_value(candidate, values, limits), candidates)
        # Near the solution all heights are equal but for rounding, and know half the digits; the
        # slopes know them all, so there the longest step is taken.
        lowest_height = jnp.min(heights)
        rounding = 8.0 * np.finfo(heights.dtype).eps * jnp.abs(lowest_height)
        best = jnp.argmax(heights <= lowest_height + rounding)
        return jax.tree.map(lambda x: x[best], candidates)

    return jax.lax.fori_loop(0, iterations, iterate, dual)


class CVPOState(NamedTuple):
    policy: networks.Trained
    old_policy: types.Params
    rewards: critics.CriticState
    costs: critics.CriticState
    dual: networks.Trained
    mean_trust: Any
    spread_trust: Any
    updates: jax.Array  # gradient steps so far


class Selection(NamedTuple):
    """Actions of the old policy and how much the new one should want each."""

    old: policies.Moments
    actions: jax.Array  # [N, B, act]
    weights: jax.Array  # [N, B]
    dual: networks.Trained
    violation: jax.Array  # of the old policy
    cost: jax.Array  # of the selection


class Fit(NamedTuple):
    """What moves while the policy is fitted, and the divergences before its last step."""

    policy: networks.Trained
    mean_trust: Any
    spread_trust: Any
    divergences: jax.Array  # [2]


def make_trust(config: CVPOConfig, rate: float, upper: float) -> multipliers.Multiplier:
    optimiser = optax.sgd(rate) if config.trust_optimiser == "sgd" else networks.adam(rate)
    return multipliers.projected_ascent(optimiser, 0.0, upper)


def fit_policy(
    policy_moments: Any, optimiser: optax.GradientTransformation, config: CVPOConfig
) -> Any:
    """The M-step: weighted maximum likelihood, with a trust region each for mean and spread."""
    mean_trust = make_trust(config, config.mean_trust_rate, config.mean_trust_max)
    spread_trust = make_trust(config, config.spread_trust_rate, config.spread_trust_max)

    def fit(start_at: Fit, observation: jax.Array, selection: Selection) -> Fit:
        old, actions, weights = selection.old, selection.actions, selection.weights

        def iterate(_: int, fitted: Fit) -> Fit:
            def loss(params: types.Params) -> tuple[jax.Array, Fit]:
                new = policy_moments(params, observation)
                likelihood = policies.log_density(policies.Moments(new.mean, old.factor), actions)
                likelihood = likelihood + policies.log_density(
                    policies.Moments(old.mean, new.factor), actions
                )
                of_mean = policies.mean_divergence(old, new)
                of_spread = policies.spread_divergence(old, new)
                found = jax.lax.stop_gradient(jnp.stack([of_mean, of_spread]))
                mean_state = mean_trust.update(fitted.mean_trust, found[0] - config.mean_divergence)
                spread_state = spread_trust.update(
                    fitted.spread_trust, found[1] - config.spread_divergence
                )
                price = mean_trust.value(mean_state) * of_mean
                price = price + spread_trust.value(spread_state) * of_spread
                # The mean over samples as well, although the weights sum to 1 already: the
                # reference divides twice, and the trust region's prices are set for it.
                total = price - jnp.mean(weights * likelihood)
                return total, Fit(fitted.policy, mean_state, spread_state, found)

            improved, found = networks.descend(loss, fitted.policy, optimiser)
            return found._replace(policy=improved)

        return jax.lax.fori_loop(0, config.policy_iterations, iterate, start_at)

    return fit, mean_trust, spread_trust


def cvpo(config: CVPOConfig, spec: types.Spec) -> types.Algorithm:
    style = "relu-xavier-normal"
    optimiser = networks.adam(config.policy_learning_rate)
    if config.max_gradient_norm is not None:
        optimiser = optax.chain(optax.clip_by_global_norm(config.max_gradient_norm), optimiser)
    dual_optimiser = networks.adam(config.dual_learning_rate)
    gaussian = policies.full_gaussian if config.covariance == "full" else policies.diagonal_gaussian
    policy = gaussian(spec, config.hidden, style)
    rewards, costs = (
        critics.q_ensemble(
            spec,
            config.hidden,
            networks.STYLES[style],
            size=size,
            optimiser=networks.adam(config.critic_learning_rate),
            target_rate=config.target_rate,
        )
        for size in (config.reward_critics, 1)
    )
    fit, mean_trust, spread_trust = fit_policy(policy.moments, optimiser, config)
    limits = Limits(config.selection_divergence, spec.cost_budget, config.largest_dual)

    def init(key: jax.Array) -> CVPOState:
        key_policy, key_rewards, key_costs = jax.random.split(key, 3)
        params = policy.init(key_policy)
        dual = Dual(
            jnp.asarray(config.initial_selection_temperature, jnp.result_type(float)),
            jnp.asarray(config.initial_multiplier, jnp.result_type(float)),
        )
        return CVPOState(
            policy=networks.start(params, optimiser),
            old_policy=jax.tree.map(jnp.copy, params),
            rewards=rewards.init(key_rewards),
            costs=costs.init(key_costs),
            dual=networks.start(dual, dual_optimiser),
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

    def fit_critics(state: CVPOState, batch: types.Transition, noise: jax.Array) -> Any:
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
            dual, _ = networks.descend(
                lambda params: (dual_value(params, values, limits), None),
                state.dual,
                dual_optimiser,
            )
            dual = dual._replace(params=bounded(jnp.stack(dual.params), limits))
        weights = jnp.exp(log_selection(dual.params, values))
        selected = jnp.mean(jnp.sum(weights * values.cost, axis=0))
        violation = jnp.mean(values.cost) - spec.cost_budget
        return Selection(old, actions, weights, dual, violation, selected)

    def step(
        state: CVPOState, batch: types.Transition, key: jax.Array, index: jax.Array
    ) -> tuple[CVPOState, types.Metrics]:
        state = begin_block(state, index)
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

    def network(state: CVPOState) -> types.PolicyNetwork:
        return policy.network(state.policy.params)

    def cost_estimate(
        state: CVPOState, observation: jax.Array, action: jax.Array
    ) -> types.CostEstimate:
        return critics.one_estimate(costs.values(state.costs, observation, as_executed(action)))

    update = types.over_minibatches(step)
    return types.Algorithm(init, act, act_greedily, update, network, cost_estimate)


CVPO = Entry(
    "cvpo",
    "constrained variational policy optimisation",
    cvpo,
    CVPOConfig,
    OffPolicySchedule,
    presets,
)
