"""Fig. 5 and the ensemble's size, smaller: CAL with other k, c and E on one task.

CAL with its own (0.5, 10, 4) goes on to 60 000 steps, so that one run serves all grids that have
it; figures of this one are drawn with `--until 40000`.
"""

from prudent.experiments.grid import Grid, Variant, over

GRID = Grid(
    tasks=("point-button1",),
    algorithms=(
        Variant("cal", {"steps": 60_000}),
        *over("cal", conservatism=(0.0, 2.0)),
        *over("cal", convexity=(0.0, 100.0)),
        *over("cal", cost_critics=(2, 8)),
    ),
    seeds=range(3),
    steps=40_000,
    preset="head",
)
