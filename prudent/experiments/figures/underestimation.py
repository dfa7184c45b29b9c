"""Fig. 2: a single cost critic underestimates, so that the budget is broken; conservatism ends it.

The paper does not name its two tasks, nor the number of seeds.
"""

from prudent.experiments.grid import Grid, Variant
from prudent.experiments.layout import Layout, among, tasks_down

GRID = Grid(
    tasks=("hopper-velocity", "point-button2"),
    algorithms=(Variant("sac-lag"), Variant("ucb", {"conservatism": 2.0})),
    seeds=range(6),
)
LAYOUT = Layout(("return", "cost", "gap"), among("sac-lag", "ucb"), tasks_down, ("final", "gap"))
