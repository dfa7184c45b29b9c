"""Fig. 2 and 3, smaller: a single critic, conservatism, and conservatism in an augmented Lagrangian,
with a snapshot every 5000 steps for the oracle (`prudent diagnose`).
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
