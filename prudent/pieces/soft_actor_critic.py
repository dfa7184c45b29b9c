"""What the soft actor-critics share: state, targets, the policy's step, soft targets, acting.

    reward target   y = r + γ m_r (min_j Q_r^j(s', a') - α log π(a'|s')),  a' ~ π(s')
    policy          minimise  E[α log π(a|s) - min_j Q_r^j(s, a) + w C(s, a)],  a ~ π(s)
    temperature     α moves until the entropy meets its floor
    target copies   drift towards the critics at `target_rate`

What tells the algorithms apart is the cost C, its weight w, and how the multiplier behind w moves:
each says these itself, as a `Price`, and puts the parts below in its own order.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from prudent.pieces.calibration import Calibration
from prudent.pieces.critics import Critic, CriticState
from prudent.pieces.multipliers import Multiplier, Owned
from prudent.pieces.networks import Trained, descend, start
from prudent.pieces.policies import Policy
from prudent.pieces.types import (
    Algorithm,
    CostEstimate,
    Metrics,
    Minibatches,
    Needs,
    Params,
    PolicyNetwork,
    Spec,
    Transition,
    over_all,
    over_minibatches,
)


class SoftState(NamedTuple):
    policy: Trained
    rewards: CriticState
    costs: CriticState
    temperature: Any
    multiplier: Any
    updates: jax.Array  # gradient steps so far
    variances: Any = ()  # of the cost, where a critic estimates them
    calibration: Any = ()  # of the budget, where it has one


class Where(NamedTuple):
    """Where critics are asked."""

    observation: jax.Array  # [B, obs]
    action: jax.Array  # [B, act], as critics see it


class Following(NamedTuple):
    """The next observations, and one sample of what the policy would do there."""

    observation: jax.Array  # [B, obs]
    action: jax.Array  # [B, act], as critics see it
    log_density: jax.Array  # [B]


class Price(NamedTuple):
    """What the policy's actions cost it."""

    cost: jax.Array  # [B], with a gradient to the actions
    weight: jax.Array  # [] or [B], of that cost: numbers to the policy's gradient, not a path
    violation: jax.Array  # [], which the multiplier answers to
    multiplier: Any = ()  # its state, where it moved before the policy's step
    divisor: jax.Array | float = 1.0  # of the policy's loss
    budget: jax.Array | None = None  # that the cost was compared with, if not the task's


ERRORS = {
    "rewards": "reward_critic_error",
    "costs": "cost_critic_error",
    "variances": "spread_error",
}


class Improvement(NamedTuple):
    """The policy after its step, and what the dual variables and the record need of it."""

    policy: Trained
    price: Price
    entropy: jax.Array


class SoftActorCritic(NamedTuple):
    """Functions of a state that leave the order of an algorithm's step to its file."""

    init: Callable[[jax.Array], SoftState]
    seen: Callable[[jax.Array], jax.Array]  # actions in [-1, 1] as critics see them
    follow: Callable[[SoftState, Transition, jax.Array], Following]  # state, batch, key
    reward_target: Callable[[SoftState, Transition, Following], jax.Array]  # -> [B]
    fit: Callable[..., tuple[SoftState, Metrics]]  # state, batch, targets by critic
    # state, observation, key, price of actions -> improvement
    improve: Callable[..., Improvement]
    # state, improvement, the multiplier's next state, whether targets are due -> state
    advance: Callable[..., SoftState]
    metrics: Callable[[SoftState, Improvement], Metrics]  # of every soft actor-critic
    # state, observation, key -> what the policy would do there now, as critics see it
    fresh: Callable[[SoftState, jax.Array, jax.Array], jax.Array]
    # step, cost estimate of (state, observation, action as critics see it) -> the functions
    algorithm: Callable[..., Algorithm]
    calibration: Calibration | None  # of the budget that violations are measured from


def soft_actor_critic(
    spec: Spec,
    policy: Policy,
    critics: Mapping[str, Critic],
    temperature: Multiplier,
    multiplier: Multiplier | Owned,
    *,
    optimiser: optax.GradientTransformation,
    discount: float,
    target_entropy: float,
    seen: Callable[[jax.Array], jax.Array],
    density_offset: float = 0.0,
    calibration: Calibration | None = None,
) -> SoftActorCritic:
    """`critics` stand under their names in the state: rewards, costs, and maybe variances.

    `seen` turns actions in [-1, 1] into what critics see; `density_offset` is added to the log
    density where it counts as reward.
    """
    rewards = critics["rewards"]

    def init(key: jax.Array) -> SoftState:
        key_policy, *keys = jax.random.split(key, 1 + len(critics))
        estimates: Any = {
            name: critic.init(key)
            for (name, critic), key in zip(critics.items(), keys, strict=True)
        }
        return SoftState(
            policy=start(policy.init(key_policy), optimiser),
            temperature=temperature.init(),
            multiplier=multiplier.init(),
            updates=jnp.zeros((), jnp.int32),
            calibration=() if calibration is None else calibration.init(),
            **estimates,
        )

    def follow(state: SoftState, batch: Transition, key: jax.Array) -> Following:
        sample = policy.sample(state.policy.params, batch.next_observation, key)
        return Following(batch.next_observation, seen(sample.action), sample.log_density)

    def reward_target(state: SoftState, batch: Transition, following: Following) -> jax.Array:
        alpha = temperature.value(state.temperature)
        values = rewards.target_values(state.rewards, following.observation, following.action)
        ahead = jnp.min(values, axis=0) - alpha * (following.log_density + density_offset)
        return batch.reward + discount * batch.reward_continues * ahead

    def fit(state: SoftState, batch: Transition, **targets: jax.Array) -> tuple[SoftState, Metrics]:
        """Each critic towards its own targets, [E or 1, B]; their mean errors are metrics."""
        fitted: Any = {}
        errors = {}
        now, taken = batch.observation, seen(batch.action)
        for name, target in targets.items():
            critic = critics[name].fit(getattr(state, name), target, now, taken)
            fitted[name], errors[ERRORS[name]] = critic
        return state._replace(**fitted), errors

    def improve(
        state: SoftState,
        observation: jax.Array,
        key: jax.Array,
        price: Callable[[jax.Array], Price],
    ) -> Improvement:
        alpha = temperature.value(state.temperature)

        def loss(params: Params) -> tuple[jax.Array, tuple[Price, jax.Array]]:
            sample = policy.sample(params, observation, key)
            action = seen(sample.action)
            reward = jnp.min(rewards.values(state.rewards, observation, action), axis=0)
            paid = price(action)
            total = jnp.mean(alpha * sample.log_density - reward + paid.weight * paid.cost)
            return total / paid.divisor, (paid, -jnp.mean(sample.log_density))

        improved, (paid, entropy) = descend(loss, state.policy, optimiser)
        return Improvement(improved, paid, entropy)

    def advance(
        state: SoftState, improved: Improvement, multiplier: Any, due: jax.Array | bool = True
    ) -> SoftState:
        """The temperature answers to the entropy; where they are due, target copies drift."""

        def drift() -> Any:
            return {name: critic.track(getattr(state, name)) for name, critic in critics.items()}

        resting = {name: getattr(state, name) for name in critics}
        estimates = drift() if due is True else jax.lax.cond(due, drift, lambda: resting)
        if calibration is not None and improved.price.budget is not None:
            estimate = improved.price.violation + improved.price.budget
            estimates["calibration"] = calibration.estimated(state.calibration, estimate)
        return state._replace(
            **estimates,
            policy=improved.policy,
            temperature=temperature.update(state.temperature, target_entropy - improved.entropy),
            multiplier=multiplier,
            updates=state.updates + 1,
        )

    def metrics(state: SoftState, improved: Improvement) -> Metrics:
        budget, prices = improved.price.budget, multiplier.value(state.multiplier)
        return {
            "cost_estimate": improved.price.violation
            + (spec.cost_budget if budget is None else budget),
            **({} if budget is None else {"effective_budget": budget}),
            "violation": improved.price.violation,
            "multiplier": jnp.mean(prices) if prices.ndim else prices,
            "entropy": improved.entropy,
            **({"temperature": temperature.value(state.temperature)} if state.temperature else {}),
        }

    def act(state: SoftState, observation: jax.Array, key: jax.Array) -> jax.Array:
        return policy.sample(state.policy.params, observation, key).action

    def act_greedily(state: SoftState, observation: jax.Array) -> jax.Array:
        return policy.mode(state.policy.params, observation)

    def network(state: SoftState) -> PolicyNetwork:
        return policy.network(state.policy.params)

    def fresh(state: SoftState, observation: jax.Array, key: jax.Array) -> jax.Array:
        return seen(policy.sample(state.policy.params, observation, key).action)

    def algorithm(
        step: Callable[..., tuple[SoftState, Metrics]],
        estimate: Callable[..., CostEstimate],
        needs: Needs | None = None,
    ) -> Algorithm:
        """With `needs`, `step` also takes what an update is given besides its batch."""

        def cost_estimate(
            state: SoftState, observation: jax.Array, action: jax.Array
        ) -> CostEstimate:
            return estimate(state, observation, seen(action))

        if needs is None:
            update = over_minibatches(step)
            return Algorithm(init, act, act_greedily, update, network, cost_estimate)
        all_updates = over_all(step, needs)

        def learn(state: SoftState, data: Minibatches, key: jax.Array) -> tuple[SoftState, Metrics]:
            if calibration is not None and data.finished is not None:
                met = calibration.finished(state.calibration, data.finished)
                state = state._replace(calibration=met)
            result: tuple[SoftState, Metrics] = all_updates(state, data, key)
            return result

        return Algorithm(init, act, act_greedily, learn, network, cost_estimate, needs)

    return SoftActorCritic(
        init=init,
        seen=seen,
        follow=follow,
        reward_target=reward_target,
        fit=fit,
        improve=improve,
        advance=advance,
        metrics=metrics,
        fresh=fresh,
        algorithm=algorithm,
        calibration=calibration,
    )
