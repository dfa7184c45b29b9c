"""Fig. 4: CAL and the off-policy baselines, at the update ratios of the paper's footnote."""

from prudent.experiments.grid import NAVIGATION, VELOCITY, Grid, Variant
from prudent.experiments.layout import Layout, among, tasks_across

GRID = Grid(
    tasks=(*NAVIGATION, *VELOCITY),
    algorithms=(
        Variant("cal"),
        Variant("sac-pid"),
        Variant("wcsac", {"risk_level": 0.1}),
        Variant("cvpo"),
    ),
    seeds=range(6),
)
LAYOUT = Layout(
    ("return", "cost", "training cost"), among("cal", "sac-pid", "wcsac", "cvpo"), tasks_across
)
