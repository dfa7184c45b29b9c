"""Fig. 2: a single cost critic underestimates, so that the budget is broken; conservatism ends it.

The paper does not name its two tasks, nor the number of seeds.
"""

from prudent.experiments.grid import Grid, Variant
from prudent.experiments.layout import Layout, Run, name_of, tasks_down

GRID = Grid(
    tasks=("hopper-velocity", "point-button2"),
    algorithms=(Variant("sac-lag"), Variant("ucb", {"conservatism": 2.0})),
    seeds=range(6),
)


def single_or_conservative(run: Run) -> str | None:
    shown = run["algorithm"] == "sac-lag" or (
        run["algorithm"] == "ucb" and run["config"]["conservatism"] == 2.0
    )
    return name_of(run) if shown else None


LAYOUT = Layout(("return", "cost", "gap"), single_or_conservative, tasks_down)
