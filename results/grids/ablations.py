"""Fig. 5 and the ensemble's size, smaller: CAL with other k, c and E on one task."""

from prudent.experiments.grid import Grid, over

GRID = Grid(
    tasks=("point-button1",),
    algorithms=(
        *over("cal", conservatism=(0.5, 0.0, 2.0)),
        *over("cal", convexity=(0.0, 100.0)),
        *over("cal", cost_critics=(2, 8)),
    ),
    seeds=range(3),
    steps=40_000,
    preset="head",
)
