"""Variational policy improvement: which actions of a policy are worth more, and a fit to them.

selection     w(a|s) ∝ exp((Q_r - λ Q_c) / η), over N actions of the old policy
dual          (η, λ) minimise  η ε + λ d + η E_s[log mean_a exp((Q_r - λ Q_c) / η)]
fit           maximise  E_w[log N(a; μ, Σ_old) + log N(a; μ_old, Σ)]
under KL_μ(old | new) ≤ ε_μ and KL_Σ(old | new) ≤ ε_Σ
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from prudent.pieces.dual import Multiplier
from prudent.pieces.networks import Trained, descend
from prudent.pieces.policies import Moments, log_density, mean_divergence, spread_divergence
from prudent.pieces.types import Params

SMALLEST = 1e-6  # of the selection's temperature


class DualVariables(NamedTuple):
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


def dual_value(dual: DualVariables, values: Weighed, limits: Limits) -> jax.Array:
    eta = dual.selection_temperature
    score = (values.reward - dual.multiplier * values.cost) / eta
    log_mean = jax.nn.logsumexp(score, axis=0) - jnp.log(float(len(score)))
    return eta * limits.divergence + dual.multiplier * limits.cost_budget + eta * jnp.mean(log_mean)


def log_selection(dual: DualVariables, values: Weighed) -> jax.Array:
    """Logarithms of the weights, [N, B], which sum to 1 over the actions of a state."""
    score = (values.reward - dual.multiplier * values.cost) / dual.selection_temperature
    return jax.nn.log_softmax(score, axis=0)


def dual_slopes(dual: DualVariables, values: Weighed, limits: Limits) -> Slopes:
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


def bounded(point: jax.Array, limits: Limits) -> DualVariables:
    """[..., 2] back into the box."""
    eta = jnp.clip(point[..., 0], SMALLEST, limits.largest)
    return DualVariables(eta, jnp.clip(point[..., 1], 0.0, limits.largest))


def solve_dual(
    dual: DualVariables, values: Weighed, limits: Limits, iterations: int
) -> DualVariables:
    """Newton's method on the two variables, from where they are.

    Each iteration tries a range of dampings, from Newton's step to short ones down the gradient,
    and takes the best: far from the solution the curvature may vanish or explode.
    """
    dampings = 10.0 ** jnp.arange(-7.0, 7.0)

    def iterate(_: int, dual: DualVariables) -> DualVariables:
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


class Selection(NamedTuple):
    """Actions of the old policy and how much the new one should want each."""

    old: Moments
    actions: jax.Array  # [N, B, act]
    weights: jax.Array  # [N, B]
    dual: Trained
    violation: jax.Array  # of the old policy
    cost: jax.Array  # of the selection


class Fit(NamedTuple):
    """What moves while the policy is fitted, and the divergences before its last step."""

    policy: Trained
    mean_trust: Any
    spread_trust: Any
    divergences: jax.Array  # [2]


class Trust(NamedTuple):
    """How far the policy may move, and the price of moving farther."""

    limit: float
    multiplier: Multiplier


def weighted_fit(
    policy_moments: Callable[[Params, jax.Array], Moments],
    optimiser: optax.GradientTransformation,
    iterations: int,
    mean_trust: Trust,
    spread_trust: Trust,
) -> Callable[[Fit, jax.Array, Selection], Fit]:
    """The M-step: weighted maximum likelihood, with a trust region each for mean and spread."""

    def fit(start_at: Fit, observation: jax.Array, selection: Selection) -> Fit:
        old, actions, weights = selection.old, selection.actions, selection.weights

        def iterate(_: int, fitted: Fit) -> Fit:
            def loss(params: Params) -> tuple[jax.Array, Fit]:
                new = policy_moments(params, observation)
                likelihood = log_density(Moments(new.mean, old.factor), actions)
                likelihood = likelihood + log_density(Moments(old.mean, new.factor), actions)
                of_mean, of_spread = mean_divergence(old, new), spread_divergence(old, new)
                reached = jax.lax.stop_gradient(jnp.stack([of_mean, of_spread]))
                mean_state = mean_trust.multiplier.update(
                    fitted.mean_trust, reached[0] - mean_trust.limit
                )
                spread_state = spread_trust.multiplier.update(
                    fitted.spread_trust, reached[1] - spread_trust.limit
                )
                price = mean_trust.multiplier.value(mean_state) * of_mean
                price = price + spread_trust.multiplier.value(spread_state) * of_spread
                # The mean over samples as well, although the weights sum to 1 already: the
                # reference divides twice, and the trust region's prices are set for it.
                total = price - jnp.mean(weights * likelihood)
                return total, Fit(fitted.policy, mean_state, spread_state, reached)

            improved, moved = descend(loss, fitted.policy, optimiser)
            return moved._replace(policy=improved)

        return jax.lax.fori_loop(0, iterations, iterate, start_at)

    return fit
