"""Not in the paper: CAL's dual looking at the present policy, where episodes and replay disagree.

Each option by itself, the first two, all of them, and none.
"""

from prudent.experiments.grid import Grid, Variant
from prudent.experiments.layout import Layout, Run, tasks_down

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
        Variant("cal", {**RECENT, **CALIBRATED}),
        Variant("cal", {**RECENT, **CALIBRATED, **BOUNDED}),
    ),
    seeds=range(3),
    steps=60_000,
    preset="head",
)
NAMES = {"recent states": RECENT, "calibrated": CALIBRATED, "bounded": BOUNDED}


def options_of(run: Run) -> str | None:
    if run["algorithm"] != "cal":
        return None
    chosen = [name for name, option in NAMES.items() if option.items() <= run["config"].items()]
    return "all three" if len(chosen) == len(NAMES) else " + ".join(chosen) or "none"


LAYOUT = Layout(
    ("return", "cost", "training cost"),
    options_of,
    tasks_down,
    ("last quarter",),
    kinds=("none", *NAMES, "recent states + calibrated", "all three"),
)
