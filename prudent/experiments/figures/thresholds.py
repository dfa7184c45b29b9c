"""The budgets: half of what unconstrained PPO costs after a million samples."""

from prudent.experiments.grid import NAVIGATION, VELOCITY, Grid, Variant

GRID = Grid(
    tasks=(*NAVIGATION, *VELOCITY),
    algorithms=(Variant("ppo", preset="million"),),
    seeds=range(6),
    steps=1_000_000,
)
