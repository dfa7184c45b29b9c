"""The two on-policy baselines that are safest after a million steps, for five million as in the
paper. Which two is decided by the runs of `on_policy`; until these are there, name them with
`--algorithms`.
"""

from prudent.experiments.grid import Grid

GRID = Grid(
    tasks=("hopper-velocity",),
    algorithms=("pdo", "rcpo", "ipo", "crpo", "cup"),
    seeds=range(2),
    preset="paper",
)
