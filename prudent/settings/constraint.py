"""The promise a policy must keep: how much cost is allowed, and how it is counted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple


@dataclass(frozen=True)
class Constraint:
    """A budget on the cost of one episode.

    With `discounted` the episode's cost is the sum of discount^t * cost_t and a discounted critic
    estimates that very number. Otherwise it is the plain sum, and the critic, which can only see
    discounted sums, is given the share it would see if the cost were spread evenly.
    """

    budget: float  # as the task states it and as reports show it
    discounted: bool

    def critic_budget(self, discount: float, horizon: int) -> float:
        """The budget in the unit of a cost critic that discounts by `discount`."""
        return self.in_critic_unit(self.budget, discount, horizon)

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


class Form(NamedTuple):
    """A limit on what an advertiser gets for its money, as a sum of step costs."""

    # pay, gmv, target ROI, budget (numbers or arrays, of any library) -> cost of a step
    step_cost: Callable[[Any, Any, Any, Any], Any]
    bound: float  # what the expected sum, or for `ratio` the quotient, may reach


# ROI is GMV / pay, and the limit is that it reach its target R. With B the budget for pay:
#
#   deficit   E Σ (R pay - gmv) / (R B) <= 0      what is missing, as a share of the budget
#   ratio     E[Q(-gmv / R) / Q(pay)]   <= -1     CAL's `constraint="ratio"`; reward must be pay
#   budget    E Σ -gmv / (R B)          <= -1     GMV for the whole budget, spent or not
FormName = Literal["deficit", "ratio", "budget"]
FORMS: Mapping[FormName, Form] = {
    "deficit": Form(lambda pay, gmv, roi, budget: (roi * pay - gmv) / (roi * budget), 0.0),
    "ratio": Form(lambda pay, gmv, roi, budget: -gmv / roi, -1.0),
    "budget": Form(lambda pay, gmv, roi, budget: -gmv / (roi * budget), -1.0),
}
