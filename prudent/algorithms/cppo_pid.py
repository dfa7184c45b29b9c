"""CPPO-PID: PPO on a Lagrangian whose multiplier is a controller (Stooke et al. 2020).

multiplier   λ = max(0, K_P P + I + K_D D)
             P: the violation, smoothed;  I: its sum, K_I each, kept above 0;
             D: how much the smoothed cost rose over the last `derivative_delay` epochs, or 0
advantage    A = (A_r - λ A_c) / (1 + λ)
policy       PPO's clipped ratio
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from prudent.configs import OnPolicyConfig
from prudent.pieces.multipliers import Multiplier
from prudent.pieces.on_policy_actor_critic import by_passes, lagrangian, on_policy
from prudent.pieces.types import Algorithm, Spec


class Controller(NamedTuple):
    proportional: jax.Array
    integral: jax.Array
    smoothed: jax.Array
    past: jax.Array  # [delay] smoothed violations, the oldest first
    updates: jax.Array
    output: jax.Array


def controller(config: OnPolicyConfig) -> Multiplier:
    def init() -> Controller:
        zero = jnp.zeros(())
        return Controller(
            zero, zero, zero, jnp.zeros(config.derivative_delay), jnp.zeros((), jnp.int32), zero
        )

    def update(state: Controller, violation: jax.Array) -> Controller:
        keep = config.smoothing
        # The derivative starts at the first violation measured, not with a jump from 0 to it.
        first = state.updates == 0
        before = jnp.where(first, violation, state.smoothed)
        past = jnp.where(first, jnp.full_like(state.past, violation), state.past)
        smoothed = keep * before + (1.0 - keep) * violation
        proportional = keep * state.proportional + (1.0 - keep) * violation
        integral = jnp.maximum(state.integral + config.integral_gain * violation, 0.0)
        rise = jnp.maximum(smoothed - past[0], 0.0)
        output = config.proportional_gain * proportional + integral + config.derivative_gain * rise
        return Controller(
            proportional=proportional,
            integral=integral,
            smoothed=smoothed,
            past=jnp.append(past[1:], smoothed),
            updates=state.updates + 1,
            output=jnp.maximum(output, 0.0),
        )

    return Multiplier(init, lambda state: state.output, update)


def cppo_pid(config: OnPolicyConfig, spec: Spec) -> Algorithm:
    improve = by_passes(config, config.clip)
    return on_policy(config, spec, dual=controller(config), combine=lagrangian, improve=improve)
