"""The on-policy baselines for five million steps, beside CAL's few."""

from prudent.experiments.grid import NAVIGATION, VELOCITY, Grid

GRID = Grid(
    tasks=(*NAVIGATION, *VELOCITY),
    algorithms=("pdo", "rcpo", "ipo", "crpo", "cup", "cal"),
    seeds=range(6),
)
