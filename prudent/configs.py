"""Every setting, with its default and its meaning, written once.

The settings live apart from the algorithms that read them so that the command line, grids and
reports can know them without importing JAX.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from prudent.constraints import Constraint


@dataclass(frozen=True)
class CALConfig:
    """CAL; with other values of four fields also SAC-Lag, UCB-k and unconstrained SAC."""

    hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of every network."""
    learning_rate: float = 3e-4
    """Adam's rate for the policy, the reward critics, the temperature."""
    cost_learning_rate: float = 3e-4
    """Adam's rate for the cost critics."""
    discount: float = 0.99
    """Reward discount (gamma)."""
    cost_discount: float = 0.99
    """Cost discount (gamma_c)."""
    target_rate: float = 0.005
    """Share of the online parameters that a target copy takes over (tau)."""
    target_period: int = 2
    """Updates between two moves of the target copies."""
    target_counter: Literal["inner", "global"] = "inner"
    """Count that period within one environment step (as the official code) or over the run."""
    target_entropy: float | None = None
    """Entropy floor of the policy; by default minus the number of action dimensions."""
    initial_temperature: float = 1.0

    cost_critics: int = 4
    """Size of the cost ensemble (E)."""
    cost_network: Literal["silu-normal", "relu-xavier"] = "silu-normal"
    """Activation and initial weights of the cost critics."""
    cost_loss: Literal["mean", "sum"] = "mean"
    """How the members' squared errors are joined; felt only through Adam's epsilon."""
    conservatism: float = 0.5
    """Standard deviations added to the ensemble's mean (k)."""
    spread_ddof: Literal[0, 1] = 1
    """Divide the ensemble's variance by E - 1 (1, the official code) or by E (0, the paper)."""
    random_targets: int = 0
    """Bootstrap all members from the highest of this many randomly drawn target copies
    (`intrgt_max`); 0: each member from its own."""
    convexity: float = 10.0
    """Strength of the augmented Lagrangian's quadratic term (c)."""
    dual_action: Literal["buffer", "policy"] = "buffer"
    """Actions at which the violation is measured: those in the replay, or fresh ones."""
    multiplier: Literal["log_adam", "projected_sgd", "softplus_adam", "fixed"] = "log_adam"
    """How the Lagrange multiplier is kept and moved."""
    multiplier_learning_rate: float = 3e-4
    initial_multiplier: float = 0.6931
    critic_action_units: Literal["env", "unit"] = "env"
    """Whether critics see actions in the environment's units or in [-1, 1]."""
    rescale_policy_loss: bool = False
    """Divide the policy's loss by 1 + cost weight, so that large weights keep the step size."""


@dataclass(frozen=True)
class SACPIDConfig:
    """SAC-PIDLag: soft actor-critic with one cost critic and a PID-controlled multiplier."""

    hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of every network."""
    learning_rate: float = 1e-3
    """Adam's rate for every network."""
    discount: float = 0.99
    """Reward discount (gamma)."""
    cost_discount: float = 0.99
    """Cost discount (gamma_c)."""
    target_rate: float = 0.005
    """Share of the online parameters that a target copy takes over at each update (tau)."""
    temperature: float = 0.0085
    """Weight of the entropy, which is not tuned."""
    proportional_gain: float = 0.1
    """Multiplier per unit of violation now (K_P)."""
    integral_gain: float = 0.003
    """Multiplier per unit of violation summed over all updates (K_I)."""
    derivative_gain: float = 0.001
    """Multiplier per unit by which the violation rose since the last update (K_D)."""
    entropy_in_cost_target: bool = True
    """Let the cost critic, too, bootstrap with the entropy bonus, as the reference code does; that
    biases the cost upwards by what entropy is worth. False is correct."""
    cost_mask: Literal["task", "never"] = "task"
    """Stop the cost target where the task says so (as CAL does), or never (the reference)."""


@dataclass(frozen=True)
class WCSACConfig:
    """WCSAC with a Gaussian cost: the constraint is on the mean of the worst outcomes."""

    hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of every network."""
    learning_rate: float = 1e-3
    """Adam's rate for every network and the temperature."""
    multiplier_learning_rate: float = 0.05
    discount: float = 0.99
    """Reward discount (gamma)."""
    cost_discount: float = 0.99
    """Cost discount (gamma_c)."""
    target_rate: float = 0.005
    """Share of the online parameters that a target copy takes over at each update (tau)."""
    target_entropy: float | None = None
    """Entropy floor of the policy; by default minus the number of action dimensions."""
    risk_level: float = 0.1
    """Share of the worst outcomes that the constraint is about; 1: all, that is, the mean."""
    damping: float = 10.0
    """How much the price of cost answers to the violation itself (zeta)."""
    clip_damping: bool = False
    """Keep that price at 0 or above, as CAL does; the reference lets it reward cost when safe."""
    cost_mask: Literal["task", "never"] = "task"
    """Stop the targets of cost and variance where the task says so (as CAL does), or never."""


@dataclass(frozen=True)
class CVPOConfig:
    """CVPO; the defaults are its Safety-Gym version, the velocity presets its MuJoCo version."""

    hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of every network."""
    policy_learning_rate: float = 2e-3
    critic_learning_rate: float = 1e-3
    discount: float = 0.99
    """Reward discount (gamma)."""
    cost_discount: float = 0.99
    """Cost discount (gamma_c)."""
    target_rate: float = 0.005
    """Share of the online parameters that a target copy takes over at each update (tau)."""
    cost_mask: Literal["task", "never"] = "task"
    """Stop the cost target where the task says so (as CAL does), or never (the reference)."""
    reward_critics: int = 2
    """Reward critics, of which the lowest is believed."""
    covariance: Literal["full", "diagonal"] = "full"
    """Whether the policy's action dimensions may vary together."""

    samples: int = 32
    """Actions weighed per state (N)."""
    selection_critics: Literal["target", "online"] = "target"
    """Whose values weigh them."""
    selection_divergence: float = 0.1
    """How far the weighed actions may be from the old policy (epsilon)."""
    dual_solver: Literal["newton", "adam"] = "newton"
    """Solve the dual for each batch, or move its remembered variables by one step."""
    dual_iterations: int = 10
    """Steps of the solver; with adam always 1."""
    dual_learning_rate: float = 0.02
    """Adam's rate, if it is the solver."""
    initial_selection_temperature: float = 0.1
    initial_multiplier: float = 0.1
    largest_dual: float = 1e5
    """Bound of both dual variables."""

    old_policy: Literal["drift", "copy"] = "drift"
    """Whether the old policy follows the new at `target_rate`, or is a copy of what it was before
    this block of updates."""
    policy_iterations: int = 6
    """Steps of the policy per update."""
    mean_divergence: float = 1e-3
    """How far the policy's mean may be from the old one's, as a divergence."""
    spread_divergence: float = 1e-3
    """The same for its covariance."""
    trust_optimiser: Literal["sgd", "adam"] = "sgd"
    """How the prices of these two divergences move."""
    mean_trust_rate: float = 1.0
    spread_trust_rate: float = 100.0
    mean_trust_max: float = 0.1
    spread_trust_max: float = 10.0
    max_gradient_norm: float | None = 0.01
    """Scale the policy's gradient down to this length."""


@dataclass(frozen=True)
class OffPolicySchedule:
    """When an off-policy learner collects, learns, is evaluated and saved. Counts are in
    environment steps after the warm-up unless they say otherwise.
    """

    steps: int = 300_000
    """Environment steps after the warm-up."""
    warmup_steps: int = 5_000
    """Steps taken with the untrained policy before learning starts."""
    updates_per_step: int | float = 10
    """Gradient steps per environment step (UTD). What a block of steps leaves of a fraction is
    carried over to the next."""
    update_every: int = 1
    """Collect this many steps (or episodes) between two blocks of updates."""
    update_unit: Literal["steps", "episodes"] = "steps"
    """What `update_every` counts."""
    target_steps: int = 1
    """Rewards and costs summed before a target bootstraps (n-step targets)."""
    updates_cap: float | None = 5.0
    """Skip a step's updates while this epoch has had more than cap * steps of them; an epoch is
    one horizon. None: never skip."""
    batch_size: int = 12
    replay_capacity: int = 1_000_000
    timeout_is_terminal: bool = False
    """Treat the time limit as the end of the world for both critics (as the official code does on
    MuJoCo) instead of bootstrapping past it."""
    evaluate_every: int = 1_000
    evaluation_episodes: int = 10
    checkpoint_every: int = 1_000
    snapshot_every: int = 10_000
    """Keep policy and critics this often, for later diagnostics."""


@dataclass(frozen=True)
class OnPolicyConfig:
    """The on-policy algorithms; each reads the general fields and those that name it."""

    hidden: tuple[int, ...] = (64, 64)
    """Hidden layers of every network."""
    initial_weights: Literal["tanh-uniform", "tanh-uniform-small"] = "tanh-uniform"
    """Activation and initial weights; `small`: the output layers start near zero."""
    initial_log_std: float = 0.0
    """Logarithm of the policy's first standard deviation, in units of actions in [-1, 1]."""
    policy_learning_rate: float = 3e-4
    critic_learning_rate: float = 3e-4
    rate_decay: Literal["none", "policy", "all"] = "policy"
    """Whose learning rates fall linearly to 0 over the run."""
    discount: float = 0.99
    """Reward discount (gamma)."""
    cost_discount: float = 0.99
    """Cost discount (gamma_c)."""
    trace_decay: float = 0.95
    """How far a reward's surprise reaches back (lambda of GAE)."""
    cost_trace_decay: float = 0.95
    standardise_reward: bool = True
    """Divide reward advantages by their standard deviation; else they are only centred."""
    standardise_cost: bool = False
    """The same for cost advantages."""
    passes: int = 40
    """Times over an epoch's data, at most."""
    batch_size: int = 64
    max_divergence: float = 0.02
    """Stop the passes beyond this divergence (delta of a second-order step)."""
    divergence: Literal["from_old", "from_new"] = "from_old"
    """KL(old || new) or KL(new || old) for that stop."""
    critic_weight_decay: float = 1e-3
    max_gradient_norm: float = 40.0
    """Of the policy."""
    max_critic_gradient_norm: float | None = 40.0
    clip: float = 0.2
    """How far the ratio counts (ppo, ppo-lag, ipo, cup, cppo-pid, and crpo on base ppo)."""

    multiplier: Literal["projected_adam", "projected_sgd"] = "projected_adam"
    """How the multiplier is moved (ppo-lag, pdo, rcpo, cup)."""
    multiplier_learning_rate: float = 0.035
    initial_multiplier: float = 0.001
    largest_multiplier: float | None = None
    barrier_strength: float = 0.01
    """Weight of the log barrier (ipo)."""
    barrier_cap: float = 1.0
    """Penalty where the barrier is steeper than 1, or broken (ipo)."""
    tolerance: float = 2.0
    """Cost over the budget at which reward is still followed (crpo)."""
    base: Literal["trpo", "ppo"] = "trpo"
    """The improvement step (crpo)."""
    damping: float = 0.1
    """Added to the Fisher matrix's diagonal (rcpo, crpo)."""
    proportional_gain: float = 0.1
    """Of the controller (cppo-pid), as the next four."""
    integral_gain: float = 0.01
    derivative_gain: float = 0.01
    smoothing: float = 0.95
    """Share of the past in the smoothed violation."""
    derivative_delay: int = 10
    """Epochs over which the controller sees a rise."""


@dataclass(frozen=True)
class OnPolicySchedule:
    """When an on-policy learner collects, learns, is evaluated and saved. Counts are in
    environment steps, of all environments together; what falls into an epoch is done at its end.
    """

    steps: int = 5_000_000
    epoch_steps: int = 20_000
    """Steps between two updates. Every epoch starts its episodes anew; the last may be shorter."""
    environments: int = 1
    """Stepped together, with one call of the policy for all."""
    asynchronous: bool = False
    """Give each environment a process of its own, instead of stepping them in turn."""
    cost_window: int | None = 100
    """Last finished episodes whose mean cost is held against the budget; None: this epoch's."""
    normalise_reward: bool = False
    """Learn from rewards with their running mean and deviation taken out."""
    normalise_cost: bool = False
    """The same for costs. Records and the multiplier see the originals."""
    timeout_is_terminal: bool = False
    """Treat the time limit as the end of the world instead of bootstrapping past it."""
    evaluate_every: int = 100_000
    evaluation_episodes: int = 10
    checkpoint_every: int = 20_000
    snapshot_every: int = 500_000
    """Keep policy and critics this often, for later diagnostics."""


# What each algorithm and each training loop reads; `prudent.algorithms` says which goes with which.
AlgorithmConfig = CALConfig | SACPIDConfig | WCSACConfig | CVPOConfig | OnPolicyConfig
Schedule = OffPolicySchedule | OnPolicySchedule

# Unchanged, these do not enter a run's identity, so that runs from before they existed keep theirs.
ADDED_LATER = ("update_every", "update_unit", "target_steps", "asynchronous")


@dataclass(frozen=True)
class Run:
    """Everything that decides what a training run computes."""

    algorithm: str
    task: str
    """A name in `prudent.tasks.TASKS`, a Gymnasium id, or `module:callable`."""
    preset: str
    seed: int
    config: AlgorithmConfig
    schedule: Schedule
    budget: float
    """Cost allowed per episode."""
    discounted: bool
    """Whether an episode's cost is its discounted sum or its plain sum."""
    horizon: int
    """Steps after which the time limit cuts an episode."""
    warmup: str = "untrained"
    """Where the first experience comes from: the untrained policy, a `policy` handed in, or a
    `log-` and its checksum."""

    @property
    def constraint(self) -> Constraint:
        return Constraint(self.budget, self.discounted)

    def critic_budget(self) -> float:
        """The budget in the unit the cost critics estimate."""
        return self.constraint.critic_budget(self.config.cost_discount, self.horizon)

    def identity(self) -> str:
        """A name for these settings, the seed and the preset's name apart."""
        settings = asdict(self)
        del settings["seed"], settings["preset"]
        for field in fields(self.schedule):
            if field.name in ADDED_LATER and settings["schedule"][field.name] == field.default:
                del settings["schedule"][field.name]
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]

    def mark(self) -> str:
        """What a checkpoint of this very run carries."""
        return f"{self.identity()}-seed-{self.seed}"


def run_to_json(run: Run) -> dict[str, Any]:
    return asdict(run)


def run_from_json(
    fields: dict[str, Any], config_type: type[AlgorithmConfig], schedule_type: type[Schedule]
) -> Run:
    config: dict[str, Any] = dict(fields["config"])
    config["hidden"] = tuple(config["hidden"])
    schedule = schedule_type(**fields["schedule"])
    return Run(**{**fields, "config": config_type(**config), "schedule": schedule})
