"""A second member of each family of tasks: CAL, and SAC-Lag without its two ideas."""

from prudent.experiments.grid import Grid

GRID = Grid(
    tasks=("halfcheetah-velocity", "car-button1"),
    algorithms=("cal", "sac-lag"),
    seeds=range(2),
    steps=60_000,
    preset="head",
)
