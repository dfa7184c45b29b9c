"""CAL with few and with many cost critics (E). The paper's values are not named."""

from prudent.experiments.grid import Grid, over

GRID = Grid(
    tasks=("hopper-velocity", "point-button2", "car-button2"),
    algorithms=over("cal", cost_critics=(2, 4, 6, 8)),
    seeds=range(6),
)
