"""Fig. 4, smaller: CAL beside the baselines with the paper's settings on one task.

CAL goes on to 60 000 steps, so that one run serves all grids that have it; figures of this one are
drawn with `--until 40000`.
"""

from prudent.experiments.grid import Grid, Variant

GRID = Grid(
    tasks=("point-button1",),
    algorithms=(
        Variant("cal", {"steps": 60_000}, preset="head"),
        Variant("sac-pid", preset="paper"),
        Variant("wcsac", {"risk_level": 0.1}, preset="paper"),
        Variant("cvpo", preset="paper"),
    ),
    seeds=range(3),
    steps=40_000,
)
