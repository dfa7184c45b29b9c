"""The options of the dual, one by one and together, where episodes and replay disagree."""

from prudent.experiments.grid import Grid, Variant

RECENT = {"dual_states": "recent"}
CALIBRATED = {"calibration": "episodes"}
BOUNDED = {"cost_bounds": "task"}
GRID = Grid(
    tasks=("skid", "stall", "hopper-velocity", "point-button2"),
    algorithms=(
        Variant("cal"),
        Variant("cal", RECENT),
        Variant("cal", CALIBRATED),
        Variant("cal", BOUNDED),
        Variant("cal", {**RECENT, **CALIBRATED, **BOUNDED}),
    ),
    seeds=range(3),
    steps=60_000,
    preset="head",
)
