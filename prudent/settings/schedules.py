"""When a run collects, learns, is evaluated and saved: one class for each training loop."""

from dataclasses import dataclass, replace
from typing import Literal

from prudent.settings.checks import Count, CountOrZero, Positive


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


Schedule = OffPolicySchedule | OnPolicySchedule | SemiBatchSchedule


def settled(schedule: SemiBatchSchedule, preset: OffPolicySchedule) -> SemiBatchSchedule:
    """With as many updates as the preset makes in as many steps, unless they are given."""
    if schedule.updates_per_deployment is not None:
        return schedule
    ratio = min(preset.updates_per_step, preset.updates_cap or preset.updates_per_step)
    updates = max(1, round(ratio * schedule.steps_per_deployment))
    return replace(schedule, updates_per_deployment=updates)


def with_steps(schedule: Schedule, steps: int) -> Schedule:
    if not isinstance(schedule, SemiBatchSchedule):
        return replace(schedule, steps=steps)
    return replace(schedule, deployments=deployments_in(steps, schedule.steps_per_deployment))


def deployments_in(steps: int, each: int) -> int:
    if steps % each:
        raise ValueError(f"--steps is {steps}; deployments of {each} steps need a multiple")
    return steps // each
