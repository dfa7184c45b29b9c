"""A run: the promise it must keep, all settings that decide what it computes, how they are stored
and checked.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from prudent.settings.checks import STORED_IF_CHANGED, Count, Finite, Seed, checked, unstored
from prudent.settings.configs import AlgorithmConfig, DualConfig
from prudent.settings.schedules import (
    OffPolicySchedule,
    OnPolicySchedule,
    Schedule,
    SemiBatchSchedule,
)


@dataclass(frozen=True)
class Constraint:
    """A budget on the cost of one episode.

    With `discounted` the episode's cost is the sum of discount^t * cost_t and a discounted critic
    estimates that very number. Otherwise it is the plain sum, and the critic, which can only see
    discounted sums, is given the share it would see if the cost were spread evenly.
    """

    budget: float  # as the task states it and as reports show it
    discounted: bool

    def in_critic_unit(self, cost: float, discount: float, horizon: int) -> float:
        """An episode's cost, counted as the budget is, as a cost critic would see it."""
        if self.discounted or discount == 1.0:
            return cost
        return cost * (1.0 - discount**horizon) / (1.0 - discount) / horizon

    def measure(self, costs: Sequence[float], discount: float) -> float:
        """The cost of one episode, counted as the budget is."""
        factor = discount if self.discounted else 1.0
        total = 0.0
        for cost in reversed(costs):
            total = cost + factor * total
        return float(total)

    def of_episode(
        self, step: tuple[float, float], discount: float, horizon: int
    ) -> tuple[float, float]:
        """Least and largest cost of an episode, given those of a step. It may end early, so a step
        that always costs something does not bound the sum.
        """
        least, largest = step
        return (
            self.measure([min(least, 0.0)] * horizon, discount),
            self.measure([max(largest, 0.0)] * horizon, discount),
        )

    @property
    def unit(self) -> str:
        return "discounted sum per episode" if self.discounted else "sum per episode"


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
    least_cost: Annotated[Finite | None, STORED_IF_CHANGED] = None
    """Of a step, where the task declares it and a setting uses it (`cost_bounds`)."""
    largest_cost: Annotated[Finite | None, STORED_IF_CHANGED] = None
    cost_range: Annotated[tuple[Finite | None, Finite | None] | None, STORED_IF_CHANGED] = None
    """What whoever trained said that a step can cost (None in it: without bound), if anything;
    evaluation and certification of the run go by it again."""

    @property
    def constraint(self) -> Constraint:
        return Constraint(self.budget, self.discounted)

    def critic_budget(self) -> float:
        """The budget in the unit the cost critics estimate."""
        discount, horizon = self.config.cost_discount, self.horizon
        return self.constraint.in_critic_unit(self.budget, discount, horizon)

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
    config, schedule = run.config, run.schedule
    if isinstance(schedule, OnPolicySchedule):
        check_epochs(schedule, run.horizon)
        return run
    check_replay(config, schedule)
    if isinstance(schedule, SemiBatchSchedule):
        check_deployments(schedule, run.horizon)
    return run


def check_replay(config: Any, schedule: OffPolicySchedule | SemiBatchSchedule) -> None:
    """That batches can be drawn, and that a multiplier kept as a logarithm can begin."""
    if schedule.replay_capacity < schedule.batch_size:
        raise ValueError(
            f"a replay of {schedule.replay_capacity} never holds a batch of {schedule.batch_size}; "
            "choose a larger replay_capacity or a smaller batch_size"
        )
    if not isinstance(config, DualConfig):
        return
    if config.dual_states == "recent" and config.recent_steps < schedule.batch_size:
        raise ValueError(
            f"{config.recent_steps} recent steps never make a batch of {schedule.batch_size}; "
            "choose a larger recent_steps or a smaller batch_size"
        )
    if config.multiplier in ("log_adam", "softplus_adam") and not config.initial_multiplier:
        raise ValueError(
            f"--initial-multiplier is 0; with --multiplier {config.multiplier} it must be above 0"
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
