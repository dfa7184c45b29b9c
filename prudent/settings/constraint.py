"""The promise a policy must keep: how much cost is allowed, and how it is counted."""

from collections.abc import Sequence
from dataclasses import dataclass


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
