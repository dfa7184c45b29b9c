"""More gradient steps per environment step (UTD), for CAL and for the off-policy baselines."""

from prudent.experiments.grid import Grid, over

RATIOS = (1, 10, 20)
GRID = Grid(
    tasks=("hopper-velocity", "point-button2"),
    algorithms=tuple(
        variant
        for algorithm in ("cal", "sac-pid", "wcsac", "cvpo")
        for variant in over(algorithm, updates_per_step=RATIOS)
    ),
    seeds=range(6),
)
