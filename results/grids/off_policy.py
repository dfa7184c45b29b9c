"""Fig. 4, smaller: CAL beside the baselines with the paper's settings on one task."""

from prudent.experiments.grid import Grid, Variant

GRID = Grid(
    tasks=("point-button1",),
    algorithms=(
        Variant("cal", preset="head"),
        Variant("sac-pid", preset="paper"),
        Variant("wcsac", {"risk_level": 0.1}, preset="paper"),
        Variant("cvpo", preset="paper"),
    ),
    seeds=range(3),
    steps=40_000,
)
