"""Fig. 3: what the augmented Lagrangian adds to conservatism.

Which values of k the paper shows is not said, but that one is "much larger".
"""

from prudent.experiments.grid import Grid, Variant, over
from prudent.experiments.layout import Layout, among, tasks_down

GRID = Grid(
    tasks=("hopper-velocity", "point-button2"),
    algorithms=(
        *over("ucb", conservatism=(0.5, 1.0, 2.0)),
        Variant("cal", {"conservatism": 0.5}),
    ),
    seeds=range(6),
)
LAYOUT = Layout(
    ("return", "cost", "training cost", "spread", "gap"),
    among("ucb", "cal"),
    tasks_down,
)
