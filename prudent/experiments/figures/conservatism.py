"""Fig. 5, top: CAL from no conservatism (k = 0) to much.

The paper's text names PointButton2 and CarButton1; Hopper is added, as in the lower half.
"""

from prudent.experiments.grid import Grid, over
from prudent.experiments.layout import Layout, tasks_across, value_of_cal

GRID = Grid(
    tasks=("hopper-velocity", "point-button2", "car-button1"),
    algorithms=over("cal", conservatism=(0.0, 0.25, 0.5, 1.0, 2.0)),
    seeds=range(6),
)
LAYOUT = Layout(
    ("return", "cost", "training cost"), value_of_cal("conservatism", "k"), tasks_across
)
