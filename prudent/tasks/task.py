"""A task: an environment together with the promise its policy must keep."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import gymnasium
import numpy as np

from prudent.settings.run import Constraint

# Actions [N, act] in the environments' units -> observations [N, obs], rewards, costs, terminated,
# one of each per environment. The observations hold until the next step. Time limits are the
# caller's.
StepTogether = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]


def step_range(task: "Task") -> tuple[float, float]:
    """What a step can cost, least and most; a task that does not say charges 0 or more."""
    declared = getattr(task, "cost_range", None)
    if declared is None:
        return 0.0, math.inf
    least, most = declared
    return float(least), float(most)


def check_step_cost(name: str, cost: float, bounds: tuple[float | None, float | None]) -> None:
    """That a step cost no less and no more than was said."""
    for bound, wrong in zip(bounds, (-1.0, 1.0), strict=True):
        if bound is not None and wrong * (cost - bound) > 1e-6 * max(1.0, abs(bound)):
            raise ValueError(
                f"{name}: a step cost {cost:g}, but its costs are "
                f"{'at most' if wrong > 0 else 'at least'} {bound:g}; say what they are "
                "(cost_range, --cost-range, or negative_costs)"
            )


def range_complaint(bounds: Any) -> str | None:
    """What is wrong with a range of costs, if anything."""
    if bounds is None:
        return None
    numbers = isinstance(bounds, tuple | list) and all(isinstance(b, Real) for b in bounds)
    if numbers and len(bounds) == 2 and bounds[0] < bounds[1]:
        return None
    return f"the range of costs is {bounds!r}; the least and the largest cost of a step, in order,"


@dataclass(frozen=True)
class Task:
    """An environment is data until it is needed: `make` builds a fresh one.

    The environment follows Gymnasium's five-tuple and reports `info["cost"]` at every step. It may
    also report `info["reward_continues"]` and `info["cost_continues"]` (0 or 1) where a critic must
    not look past this step although the episode goes on; without them both say "not terminated".
    """

    name: str
    make: Callable[..., gymnasium.Env]  # (render_mode=None) -> environment, time limit included
    horizon: int  # steps after which the time limit cuts an episode
    constraint: Constraint
    summary: str
    # Environments of this task -> a function that steps them all; for those that gain by it.
    together: Callable[[list[gymnasium.Env]], StepTogether] | None = None
    # Every episode starts from the same state, so greedy episodes are all alike.
    deterministic_reset: bool = False
    family: str = "other"  # "velocity" or "navigation", which the paper's settings tell apart
    variant_of: str | None = None  # the task whose settings this one takes
    # What a step costs is read from here, or is the result of the function of this name.
    cost_source: str = 'info["cost"]'
    # `make` hands out one environment again and again. It is its owner's: nobody else closes it.
    shared: bool = False
    # Least and largest cost of a step, which may be infinite; see `step_range` where nobody says.
    cost_range: tuple[float, float] | None = None

    @property
    def settled_as(self) -> str:
        """The task whose settings hold for this one."""
        return self.variant_of or self.name


FAMILIES = ("velocity", "navigation", "other")


def check_task(task: Any) -> None:
    """Refuse what cannot be a task. Its environment is looked at when one is made."""
    if not isinstance(task, Task):
        raise ValueError(f"a prudent.Task is needed, not a {type(task).__name__}")
    parts: dict[str, Any] = vars(task)  # of whatever type
    horizon, constraint = parts["horizon"], parts["constraint"]
    if not callable(parts["make"]):
        complaint = f"make is a {type(task.make).__name__}; a function that makes an environment"
    elif not isinstance(horizon, int) or isinstance(horizon, bool) or horizon < 1:
        complaint = f"the horizon is {horizon!r}; a whole number of steps, 1 or more,"
    elif not isinstance(constraint, Constraint):
        complaint = f"the constraint is a {type(constraint).__name__}; a prudent.Constraint"
    elif not (isinstance(parts["constraint"].budget, Real) and math.isfinite(constraint.budget)):
        complaint = f"the budget is {constraint.budget!r}; a finite number"
    elif not isinstance(parts["constraint"].discounted, bool):
        complaint = f"discounted is {constraint.discounted!r}; True or False"
    elif found_wrong := range_complaint(parts["cost_range"]):
        complaint = found_wrong
    elif constraint.budget < 0.0 <= step_range(task)[0]:
        complaint = f"the budget is {constraint.budget:g}; a cost_range with a least cost below 0"
    elif not (parts["together"] is None or callable(parts["together"])):
        complaint = f"together is a {type(task.together).__name__}; a function, or None,"
    elif parts["family"] not in FAMILIES:
        complaint = f"the family is {task.family!r}; one of {', '.join(FAMILIES)}"
    elif not all(isinstance(parts[name], bool) for name in ("deterministic_reset", "shared")):
        found = f"{task.deterministic_reset!r} and {task.shared!r}"
        complaint = f"deterministic_reset and shared are {found}; True or False"
    elif not isinstance(parts["variant_of"], str | None):
        complaint = f"variant_of is {task.variant_of!r}; the name of a task, or None,"
    else:
        return
    raise ValueError(f"task {task.name!r}: {complaint} is needed")
