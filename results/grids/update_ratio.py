"""Updates per environment step, smaller: CAL and SAC-PIDLag on one task.

CAL at its own ratio goes on to 60 000 steps, so that one run serves all grids that have it; figures
of this one are drawn with `--until 30000`.
"""

from prudent.experiments.grid import Grid, Variant, over

GRID = Grid(
    tasks=("point-button1",),
    algorithms=(
        Variant("cal", {"steps": 60_000}),
        *over("cal", updates_per_step=(1, 20)),
        *over("sac-pid", updates_per_step=(1, 10, 20)),
    ),
    seeds=range(3),
    steps=30_000,
    preset="head",
)
