"""Fig. 5, bottom: CAL from no quadratic term (c = 0) to far too strong a one.

Neither tasks nor values are named in the paper.
"""

from prudent.experiments.grid import Grid, over
from prudent.experiments.layout import Layout, tasks_across, value_of_cal

GRID = Grid(
    tasks=("hopper-velocity", "point-button2", "car-button1"),
    algorithms=over("cal", convexity=(0.0, 1.0, 10.0, 100.0, 1000.0)),
    seeds=range(6),
)
LAYOUT = Layout(("return", "cost", "training cost"), value_of_cal("convexity", "c"), tasks_across)
