"""The budgets: half of what unconstrained PPO costs after a million samples."""

from prudent.experiments.grid import NAVIGATION, VELOCITY, Grid, Variant
from prudent.experiments.layout import Layout, among, tasks_across

GRID = Grid(
    tasks=(*NAVIGATION, *VELOCITY),
    algorithms=(Variant("ppo", preset="million"),),
    seeds=range(6),
    steps=1_000_000,
)
LAYOUT = Layout(("return", "cost"), among("ppo"), tasks_across, ("final", "half cost"))
