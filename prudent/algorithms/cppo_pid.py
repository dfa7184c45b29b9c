"""CPPO-PID: PPO on a Lagrangian whose multiplier is a controller (Stooke et al. 2020).

multiplier   λ = max(0, K_P P + I + K_D D)
             P: the violation, smoothed;  I: its sum, K_I each, kept above 0;
             D: how much P rose over the last `derivative_delay` epochs, or 0
advantage    A = (A_r - λ A_c) / (1 + λ)
policy       PPO's clipped ratio

P begins at 0 and I at 0.001. The reference smooths the cost itself for D, not the violation: its D
is larger in the first epochs, by what the budget adds to a mean that starts at 0.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from prudent.algorithms.on_policy_presets import on_policy_entry
from prudent.pieces.dual import Multiplier
from prudent.pieces.improvement import by_passes
from prudent.pieces.on_policy import lagrangian, on_policy
from prudent.pieces.types import Algorithm, Spec
from prudent.settings.checks import Count, NotNegative, Share
from prudent.settings.configs import ClippedConfig, CostAdvantageConfig


@dataclass(frozen=True)
class CPPOPIDConfig(ClippedConfig, CostAdvantageConfig):
    proportional_gain: NotNegative = 0.1
    """Multiplier per unit of smoothed violation (K_P)."""
    integral_gain: NotNegative = 0.01
    """Multiplier per unit of violation summed over all epochs (K_I)."""
    derivative_gain: NotNegative = 0.01
    """Multiplier per unit by which the smoothed cost rose (K_D)."""
    smoothing: Share = 0.95
    """Share of the past in the smoothed violation."""
    derivative_delay: Count = 10
    """Epochs over which the controller sees a rise."""


class Controller(NamedTuple):
    integral: jax.Array
    smoothed: jax.Array  # the violation
    past: jax.Array  # [delay] smoothed violations, the oldest first
    output: jax.Array


INITIAL_INTEGRAL = 0.001  # as the reference's


def controller(config: CPPOPIDConfig) -> Multiplier:
    def init() -> Controller:
        zero = jnp.zeros(())
        return Controller(
            zero + INITIAL_INTEGRAL, zero, jnp.zeros(config.derivative_delay), zero + 0.0
        )

    def update(state: Controller, violation: jax.Array) -> Controller:
        keep = config.smoothing
        smoothed = keep * state.smoothed + (1.0 - keep) * violation
        integral = jnp.maximum(state.integral + config.integral_gain * violation, 0.0)
        rise = jnp.maximum(smoothed - state.past[0], 0.0)
        output = config.proportional_gain * smoothed + integral + config.derivative_gain * rise
        return Controller(
            integral=integral,
            smoothed=smoothed,
            past=jnp.append(state.past[1:], smoothed),
            output=jnp.maximum(output, 0.0),
        )

    return Multiplier(init, lambda state: state.output, update)


def cppo_pid(config: CPPOPIDConfig, spec: Spec) -> Algorithm:
    dual, improve = controller(config), by_passes(config, config.clip)
    return on_policy(config, spec, dual, lagrangian, improve)


CPPO_PID = on_policy_entry(
    "cppo-pid", "PPO with a multiplier under PID control", cppo_pid, CPPOPIDConfig, {}
)
