"""The on-policy baselines for a million steps, with an update every 2048 (CUP with its own)."""

from prudent.experiments.grid import Grid, Variant

CUP = {"steps": 1_000_000, "evaluate_every": 20_000, "snapshot_every": 100_000}
GRID = Grid(
    tasks=("hopper-velocity",),
    algorithms=(
        "ipo",
        "crpo",
        Variant("cup", CUP, preset="paper"),
        "ppo",
        "ppo-lag",
        "rcpo",
        "pdo",
    ),
    seeds=range(3),
    preset="million",
)
