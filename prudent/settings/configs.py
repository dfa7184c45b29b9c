"""Settings that several algorithms share.

What only one algorithm reads stands in its own file in `prudent.algorithms`, and `DualConfig`
beside the rules that it names, in `prudent.pieces.dual`. Settings classes extend each other to
share fields, and hold nothing but fields. Nothing here imports JAX.
"""

from dataclasses import dataclass
from typing import Literal

from prudent.settings.checks import (
    Count,
    Finite,
    NotNegative,
    Positive,
    PositiveShare,
    Share,
)


@dataclass(frozen=True)
class OffPolicyConfig:
    """What every off-policy algorithm reads."""

    hidden: tuple[Count, ...] = (256, 256)
    """Hidden layers of every network."""
    discount: Share = 0.99
    """Reward discount (gamma)."""
    cost_discount: Share = 0.99
    """Cost discount (gamma_c)."""
    target_rate: PositiveShare = 0.005
    """Share of the online parameters that a target copy takes over when it moves (tau)."""


@dataclass(frozen=True)
class SACConfig(OffPolicyConfig):
    """What every algorithm built on SAC with a tuned temperature reads."""

    learning_rate: Positive = 3e-4
    """Adam's rate for the policy, the reward critics, the temperature."""
    cost_learning_rate: Positive = 3e-4
    """Adam's rate for the cost critics."""
    target_period: Count = 2
    """Updates between two moves of the target copies."""
    target_counter: Literal["inner", "global"] = "inner"
    """Count that period within one environment step (as the official code) or over the run."""
    target_entropy: Finite | None = None
    """Entropy floor of the policy; by default minus the number of action dimensions."""
    initial_temperature: Positive = 1.0
    cost_network: Literal["silu-normal", "relu-xavier"] = "silu-normal"
    """Activation and initial weights of the cost critics."""
    critic_action_units: Literal["env", "unit"] = "env"
    """Whether critics see actions in the environment's units or in [-1, 1]."""


@dataclass(frozen=True)
class OnPolicyConfig:
    """What every on-policy algorithm reads."""

    hidden: tuple[Count, ...] = (64, 64)
    """Hidden layers of every network."""
    initial_weights: Literal["tanh-uniform", "tanh-uniform-small"] = "tanh-uniform"
    """Activation and initial weights; `small`: the output layers start near zero."""
    initial_log_std: Finite = 0.0
    """Logarithm of the policy's first standard deviation, in units of actions in [-1, 1]."""
    critic_learning_rate: Positive = 3e-4
    rate_decay: Literal["none", "policy", "all"] = "policy"
    """Whose learning rates fall linearly to 0 over the run."""
    discount: Share = 0.99
    """Reward discount (gamma)."""
    cost_discount: Share = 0.99
    """Cost discount (gamma_c)."""
    trace_decay: Share = 0.95
    """Decay of a temporal-difference error over the steps before it (lambda of GAE)."""
    cost_trace_decay: Share = 0.95
    standardise_reward: bool = True
    """Divide reward advantages by their standard deviation; else they are only centred."""
    passes: Count = 40
    """Times over an epoch's data, at most."""
    batch_size: Count = 64
    max_divergence: Positive = 0.02
    """Stop the passes beyond this divergence (delta of a second-order step)."""
    critic_weight_decay: NotNegative = 1e-3
    max_critic_gradient_norm: Positive | None = 40.0


@dataclass(frozen=True)
class FirstOrderConfig(OnPolicyConfig):
    """What is read where the policy is improved by minibatch passes."""

    policy_learning_rate: Positive = 3e-4
    max_gradient_norm: Positive = 40.0
    """Of the policy."""
    divergence: Literal["from_old", "from_new"] = "from_old"
    """KL(old || new) or KL(new || old) for the stop at `max_divergence`."""


@dataclass(frozen=True)
class ClippedConfig(FirstOrderConfig):
    """The same with PPO's clipped ratio."""

    clip: Positive = 0.2
    """How far from 1 the ratio of probabilities counts."""


@dataclass(frozen=True)
class SecondOrderConfig(OnPolicyConfig):
    """What is read where the policy is improved by one natural-gradient step."""

    damping: NotNegative = 0.1
    """Added to the Fisher matrix's diagonal."""


@dataclass(frozen=True)
class CostAdvantageConfig(OnPolicyConfig):
    """What is read where cost advantages enter the policy's step."""

    standardise_cost: bool = False
    """Divide cost advantages by their standard deviation; else they are only centred."""


@dataclass(frozen=True)
class LagrangianConfig(CostAdvantageConfig):
    """What is read where the multiplier ascends once per epoch."""

    multiplier: Literal["projected_adam", "projected_sgd"] = "projected_adam"
    """How the Lagrange multiplier is moved."""
    multiplier_learning_rate: Positive = 0.035
    initial_multiplier: NotNegative = 0.001
    largest_multiplier: Positive | None = None


# An algorithm's own settings extend one of the two.
AlgorithmConfig = OffPolicyConfig | OnPolicyConfig
