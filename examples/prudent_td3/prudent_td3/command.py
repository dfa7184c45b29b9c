"""`prudent pump`: the known answer that a run on the task is held against."""

import argparse

from prudent_td3.pump import BUDGET, best_return


def show_best(arguments: list[str]) -> None:
    """What the best policy delivers within an energy budget."""
    parser = argparse.ArgumentParser(prog="prudent pump", description=show_best.__doc__)
    parser.add_argument("--budget", type=float, default=BUDGET, help="energy per episode")
    budget = parser.parse_args(arguments).budget
    print(f"within {budget:g} of energy no policy delivers more than {best_return(budget):g}")
