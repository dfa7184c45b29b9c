"""Fig. 2 and 3, smaller: one cost critic, conservative ones, and these in an augmented Lagrangian.
There is a snapshot every 5000 steps, for the oracle (`prudent diagnose`).
"""

from prudent.experiments.grid import Grid, Variant

SNAPSHOTS = {"snapshot_every": 5_000}
GRID = Grid(
    tasks=("hopper-velocity", "point-button2"),
    algorithms=(
        Variant("sac-lag", SNAPSHOTS),
        Variant("ucb", {"conservatism": 2.0, **SNAPSHOTS}),
        Variant("cal", SNAPSHOTS),
        Variant("ucb", {"conservatism": 0.5, **SNAPSHOTS}),
    ),
    seeds=range(3),
    steps=100_000,
    preset="head",
)
