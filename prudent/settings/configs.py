"""Settings that several algorithms share, the two schedules, and a run: all settings together.

What only one algorithm reads stands in its own file in `prudent.algorithms`. Settings classes
extend each other to share fields, and hold nothing but fields. Nothing here imports JAX.
"""

import hashlib
import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal

from prudent.settings.checks import (
    LATER,
    Count,
    CountOrZero,
    Finite,
    NotNegative,
    Positive,
    PositiveShare,
    Seed,
    Share,
    checked,
    unstored,
)
from prudent.settings.constraint import Constraint


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
class DualConfig:
    """What is read where a multiplier answers to cost critics, so that the limit holds on episodes
    too (`docs/algorithms/cal.md` has the equations).
    """

    dual_states: Annotated[Literal["replay", "recent"], LATER] = "replay"
    """States at which the violation is measured: all in the replay, or those of recent steps."""
    recent_steps: Annotated[Count, LATER] = 2_000
    """How many environment steps are recent."""
    calibration: Annotated[Literal["none", "episodes"], LATER] = "none"
    """Move the budget of the multiplier by what its estimate misses of training episodes' cost."""
    calibration_episodes: Annotated[Count, LATER] = 10
    """Episodes that this averages over, and that it waits for first."""
    calibration_limit: Annotated[Positive, LATER] = 10.0
    """Farthest that it raises the budget, in multiples of the budget."""
    cost_bounds: Annotated[Literal["none", "task"], LATER] = "none"
    """Clip the cost critics' targets to what the task's range of costs allows. One that declares
    none charges 0 or more."""


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


@dataclass(frozen=True)
class OffPolicySchedule:
    """When an off-policy learner collects, learns, is evaluated and saved. Counts are in
    environment steps after the warm-up unless they say otherwise.
    """

    steps: Count = 300_000
    """Environment steps after the warm-up."""
    warmup_steps: CountOrZero = 5_000
    """Steps taken with the untrained policy before learning starts."""
    updates_per_step: Count | Positive = 10
    """Gradient steps per environment step (UTD). What a block of steps leaves of a fraction is
    carried over to the next."""
    update_every: Count = 1
    """Collect this many steps (or episodes) between two blocks of updates."""
    update_unit: Literal["steps", "episodes"] = "steps"
    """What `update_every` counts."""
    target_steps: Count = 1
    """Rewards and costs summed before a target bootstraps (n-step targets)."""
    updates_cap: Positive | None = 5.0
    """Skip a step's updates while this epoch has had more than cap * steps of them; an epoch is
    one horizon. None: never skip."""
    batch_size: Count = 12
    replay_capacity: Count = 1_000_000
    timeout_is_terminal: bool = False
    """Treat the time limit as a terminal state for both critics (as the official code does on
    MuJoCo) instead of bootstrapping past it."""
    evaluate_every: Count = 1_000
    evaluation_episodes: Count = 10
    checkpoint_every: Count = 1_000
    snapshot_every: Count = 10_000
    """Keep policy and critics this often, for later diagnostics."""


@dataclass(frozen=True)
class OnPolicySchedule:
    """When an on-policy learner collects, learns, is evaluated and saved. Counts are in
    environment steps, of all environments together; what falls into an epoch is done at its end.
    """

    steps: Count = 5_000_000
    epoch_steps: Count = 20_000
    """Steps between two updates. Every epoch starts its episodes anew; the last may be shorter."""
    environments: Count = 1
    """Stepped together, with one call of the policy for all."""
    asynchronous: bool = False
    """Give each environment a process of its own, instead of stepping them in turn."""
    cost_window: Count | None = 100
    """Last finished episodes whose mean cost is compared with the budget; None: this epoch's."""
    normalise_reward: bool = False
    """Learn from rewards with their running mean and deviation taken out."""
    normalise_cost: bool = False
    """The same for costs. Records and the multiplier see the originals."""
    timeout_is_terminal: bool = False
    """Treat the time limit as a terminal state instead of bootstrapping past it."""
    evaluate_every: Count = 100_000
    evaluation_episodes: Count = 10
    checkpoint_every: Count = 20_000
    snapshot_every: Count = 500_000
    """Keep policy and critics this often, for later diagnostics."""


@dataclass(frozen=True)
class SemiBatchSchedule:
    """When an off-policy learner is deployed with a policy that does not change, and when it learns
    from what was logged.
    """

    deployments: Count = 5
    """Times that a fixed stochastic policy collects experience and then learns offline."""
    steps_per_deployment: Count = 2_000
    """Environment steps with one policy. Episodes begin anew with every deployment."""
    updates_per_deployment: Count | None = None
    """Gradient steps after each (default: what the preset's updates per step come to)."""
    target_steps: Count = 1
    """Rewards and costs summed before a target bootstraps (n-step targets)."""
    batch_size: Count = 12
    replay_capacity: Count = 1_000_000
    """Newest logged steps that are learned from."""
    timeout_is_terminal: bool = False
    """Treat the time limit as a terminal state for both critics instead of bootstrapping."""
    checkpoint_every: Count = 1_000
    """Environment steps, or updates, between two checkpoints."""

    @property
    def steps(self) -> int:
        """Environment steps of all deployments together."""
        return self.deployments * self.steps_per_deployment


# An algorithm's own settings extend one of the two.
AlgorithmConfig = OffPolicyConfig | OnPolicyConfig
Schedule = OffPolicySchedule | OnPolicySchedule | SemiBatchSchedule


def settled(schedule: SemiBatchSchedule, preset: OffPolicySchedule) -> SemiBatchSchedule:
    """With as many updates as the preset makes in as many steps, unless they are given."""
    if schedule.updates_per_deployment is not None:
        return schedule
    ratio = min(preset.updates_per_step, preset.updates_cap or preset.updates_per_step)
    updates = max(1, round(ratio * schedule.steps_per_deployment))
    return replace(schedule, updates_per_deployment=updates)


@dataclass(frozen=True)
class Run:
    """Everything that decides what a training run computes."""

    algorithm: str
    task: str
    """A name in `prudent.tasks.TASKS`, a Gymnasium id, or `module:callable`."""
    preset: str
    seed: Seed
    config: AlgorithmConfig
    """The algorithm's own settings."""
    schedule: Schedule
    budget: Finite
    """Cost allowed per episode."""
    discounted: bool
    """Whether an episode's cost is its discounted sum or its plain sum."""
    horizon: Count
    """Steps after which the time limit cuts an episode."""
    warmup: str = "untrained"
    """Where the first experience comes from: the untrained policy, a `policy` handed in, or a
    `log-` and its checksum."""
    cost_source: str = 'info["cost"]'
    """Where a step's cost comes from."""
    init_from: str = "none"
    """The policy it begins with, if another run's: `policy-` and its checksum."""
    least_cost: Annotated[Finite | None, LATER] = None
    """Of a step, where the task declares it and a setting uses it (`cost_bounds`)."""
    largest_cost: Annotated[Finite | None, LATER] = None
    cost_range: Annotated[tuple[Finite | None, Finite | None] | None, LATER] = None
    """What whoever trained said that a step can cost (None in it: without bound), if anything;
    evaluation and certification of the run go by it again."""

    @property
    def constraint(self) -> Constraint:
        return Constraint(self.budget, self.discounted)

    def critic_budget(self) -> float:
        """The budget in the unit the cost critics estimate."""
        return self.constraint.critic_budget(self.config.cost_discount, self.horizon)

    def step_range(self) -> tuple[float, float] | None:
        """`cost_range` as a task has it."""
        if self.cost_range is None:
            return None
        least, largest = self.cost_range
        return -math.inf if least is None else least, math.inf if largest is None else largest

    def step_bounds(self) -> tuple[float | None, float | None]:
        """What the cost of a step must lie between: as was said, or as a setting relies on."""
        return self.cost_range or (self.least_cost, self.largest_cost)

    def cost_ahead(self) -> tuple[float | None, float | None]:
        """Least and largest discounted cost that a step and those after it can have, as the critics
        count it: they look past a time limit, as if the episode went on, unless it is terminal.
        """
        discount, horizon = self.config.cost_discount, self.horizon
        ends = getattr(self.schedule, "timeout_is_terminal", False)
        steps = float(horizon)
        if discount < 1.0:
            steps = (1.0 - ends * discount**horizon) / (1.0 - discount)
        least, largest = self.least_cost, self.largest_cost
        return (
            None if least is None else min(least, 0.0) * steps,
            None if largest is None else max(largest, 0.0) * steps,
        )

    def identity(self) -> str:
        return identity_of(run_to_json(self))


def identity_of(stored: dict[str, Any]) -> str:
    """A name for a run's settings as they are stored, without the seed and the preset's name.

    Of what is stored, not of what it is read as: a setting that a later version adds does not
    change the identity of runs from before it.
    """
    settings = {name: value for name, value in stored.items() if name not in ("seed", "preset")}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]


def run_to_json(run: Run) -> dict[str, Any]:
    stored = {name: value for name, value in asdict(run).items() if name not in unstored(run)}
    for part in ("config", "schedule"):
        left_out = unstored(getattr(run, part))
        stored[part] = {n: value for n, value in stored[part].items() if n not in left_out}
    return stored


def checked_run(run: Run) -> Run:
    """The run if all of its settings are of their type and within their range."""
    run = checked(run, config=checked(run.config), schedule=checked(run.schedule))
    check_multiplier(run.config)
    if isinstance(run.schedule, OffPolicySchedule):
        check_replay(run.schedule)
        if isinstance(run.config, DualConfig):
            check_dual(run, run.config, run.schedule)
    elif isinstance(run.schedule, SemiBatchSchedule):
        check_replay(run.schedule)
        check_deployments(run.schedule, run.horizon)
        if isinstance(run.config, DualConfig):
            check_dual(run, run.config, run.schedule)
    else:
        check_epochs(run.schedule, run.horizon)
    return run


def check_multiplier(config: AlgorithmConfig) -> None:
    kept_as = getattr(config, "multiplier", None)
    if kept_as in ("log_adam", "softplus_adam") and not getattr(config, "initial_multiplier", 1.0):
        raise ValueError(
            f"--initial-multiplier is 0; with --multiplier {kept_as} it must be above 0"
        )


def check_replay(schedule: OffPolicySchedule | SemiBatchSchedule) -> None:
    if schedule.replay_capacity < schedule.batch_size:
        raise ValueError(
            f"a replay of {schedule.replay_capacity} never holds a batch of {schedule.batch_size}; "
            "choose a larger replay_capacity or a smaller batch_size"
        )


def check_deployments(schedule: SemiBatchSchedule, horizon: int) -> None:
    steps = schedule.steps_per_deployment
    if steps < horizon:
        raise ValueError(
            f"a deployment of {steps} steps ends before an episode of {horizon} does, so its cost "
            f"would never be known; choose --steps-per-deployment of {horizon} or more"
        )
    if steps < schedule.batch_size:
        raise ValueError(
            f"a deployment of {steps} steps does not fill a batch of {schedule.batch_size}; choose "
            "more steps per deployment or a smaller batch_size"
        )


def check_dual(
    run: Run, config: DualConfig, schedule: OffPolicySchedule | SemiBatchSchedule
) -> None:
    if config.dual_states == "recent" and config.recent_steps < schedule.batch_size:
        raise ValueError(
            f"{config.recent_steps} recent steps never make a batch of {schedule.batch_size}; "
            "choose a larger recent_steps or a smaller batch_size"
        )


def check_epochs(schedule: OnPolicySchedule, horizon: int) -> None:
    together = schedule.environments
    for name in ("steps", "epoch_steps"):
        if getattr(schedule, name) % together:
            raise ValueError(
                f"{name} is {getattr(schedule, name)}, no multiple of {together} environments"
            )
    if schedule.epoch_steps < together * horizon:
        raise ValueError(
            f"an epoch of {schedule.epoch_steps} steps in {together} environments ends before an "
            f"episode of {horizon} does, so its cost would never be known; choose epoch_steps "
            f"of {together * horizon} or more, or fewer environments"
        )
