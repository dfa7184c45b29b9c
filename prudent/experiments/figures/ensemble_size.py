"""CAL with few and with many cost critics (E). The paper's values are not named."""

from prudent.experiments.grid import Grid, over
from prudent.experiments.layout import Layout, tasks_across, value_of_cal

GRID = Grid(
    tasks=("hopper-velocity", "point-button2", "car-button2"),
    algorithms=over("cal", cost_critics=(2, 4, 6, 8)),
    seeds=range(6),
)
LAYOUT = Layout(("return", "cost"), value_of_cal("cost_critics", "E"), tasks_across)
