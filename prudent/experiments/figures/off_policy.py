"""Fig. 4: CAL and the off-policy baselines, at the update ratios of the paper's footnote."""

from prudent.experiments.grid import NAVIGATION, VELOCITY, Grid, Variant

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
