"""The four tasks of Fig. 4 that no other grid has: whether each of the nine is learned at all."""

from prudent.experiments.grid import Grid

GRID = Grid(
    tasks=("ant-velocity", "humanoid-velocity", "car-button2", "point-push1"),
    algorithms=("cal", "sac-lag"),
    seeds=range(2),
    steps=60_000,
    preset="head",
)
