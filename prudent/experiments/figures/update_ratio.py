"""More gradient steps per environment step (UTD), for CAL and for the off-policy baselines."""

from prudent.experiments.grid import Grid, over
from prudent.experiments.layout import Layout, Panel, Place, Run, among

RATIOS = (1, 10, 20)
GRID = Grid(
    tasks=("hopper-velocity", "point-button2"),
    algorithms=tuple(
        variant
        for algorithm in ("cal", "sac-pid", "wcsac", "cvpo")
        for variant in over(algorithm, updates_per_step=RATIOS)
    ),
    seeds=range(6),
)


def ratios_across(run: Run, panel: Panel) -> Place:
    ratio = run["schedule"]["updates_per_step"]
    return Place((run["task"], panel), f"{ratio:g} per step")


LAYOUT = Layout(
    ("return", "cost"),
    among("cal", "sac-pid", "wcsac", "cvpo", varied="updates_per_step"),
    ratios_across,
)
