"""The two on-policy baselines that are safest after a million steps (by the runs of `on_policy`),
for five million as in the paper.
"""

from prudent.experiments.grid import Grid

GRID = Grid(
    tasks=("hopper-velocity",),
    algorithms=("pdo", "rcpo"),
    seeds=range(2),
    preset="paper",
)
