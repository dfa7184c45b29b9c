"""Updates per environment step, smaller: CAL and SAC-PIDLag on one task."""

from prudent.experiments.grid import Grid, over

GRID = Grid(
    tasks=("point-button1",),
    algorithms=(
        *over("cal", updates_per_step=(1, 10, 20)),
        *over("sac-pid", updates_per_step=(1, 10, 20)),
    ),
    seeds=range(3),
    steps=40_000,
    preset="head",
)
