"""CAL beside SAC-Lag, which has neither of its two ideas. Not in the paper, which shows the two in
different figures.
"""

from prudent.experiments.grid import NAVIGATION, VELOCITY, Grid
from prudent.experiments.layout import Layout, among, tasks_down

GRID = Grid(
    tasks=(*NAVIGATION, *VELOCITY),
    algorithms=("cal", "sac-lag"),
    seeds=range(6),
)
LAYOUT = Layout(("return", "cost", "training cost", "gap"), among("cal", "sac-lag"), tasks_down)
