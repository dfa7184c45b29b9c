"""The on-policy baselines for five million steps, beside CAL's few."""

from prudent.experiments.grid import NAVIGATION, VELOCITY, Grid
from prudent.experiments.layout import Layout, among, tasks_across

GRID = Grid(
    tasks=(*NAVIGATION, *VELOCITY),
    algorithms=("pdo", "rcpo", "ipo", "crpo", "cup", "cal"),
    seeds=range(6),
)
LAYOUT = Layout(("return", "cost"), among("pdo", "rcpo", "ipo", "crpo", "cup", "cal"), tasks_across)
