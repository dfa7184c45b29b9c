"""The on-policy baselines for five million steps, beside CAL's few."""

from prudent.experiments.grid import NAVIGATION, VELOCITY, Grid
from prudent.experiments.layout import Layout, among, tasks_across

GRID = Grid(
    tasks=(*NAVIGATION, *VELOCITY),
    algorithms=("pdo", "rcpo", "ipo", "crpo", "cup", "cal"),
    seeds=range(6),
)
# The last two are not in the paper's figure; where there are runs of them they are shown beside.
SHOWN = ("pdo", "rcpo", "ipo", "crpo", "cup", "cal", "ppo-lag", "ppo")
LAYOUT = Layout(("return", "cost"), among(*SHOWN), tasks_across, log_steps=True)
