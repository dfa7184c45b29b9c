"""`prudent pump`: the known answer that a run on the task is held against."""

from dataclasses import dataclass

from prudent_td3.pump import BUDGET, best_return


@dataclass(frozen=True)
class PumpOptions:
    budget: float = BUDGET
    """Energy per episode."""


def show_best(options: PumpOptions) -> None:
    """What the best policy delivers within an energy budget."""
    best = best_return(options.budget)
    print(f"within {options.budget:g} of energy no policy delivers more than {best:g}")
