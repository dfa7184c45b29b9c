"""The paper's figures and tables, and two of our own: the runs of each and how they are shown.

An entry of `FIGURES` is all that a figure needs. `theory` is drawn from formulas, without runs, by
the module of that name.
"""

from typing import NamedTuple

from prudent.experiments.grid import Grid, Variant, over
from prudent.experiments.layout import (
    Layout,
    Panel,
    Run,
    among,
    name_of,
    ratios_across,
    tasks_across,
    tasks_down,
    value_of_cal,
)
from prudent.report.paper import ALL_TASKS, OFF_POLICY, ON_POLICY

SEEDS = range(6)
HOPPER_AND_BUTTON = ("hopper-velocity", "point-button2")
THREE_TASKS = (*HOPPER_AND_BUTTON, "car-button1")
LEARNING: tuple[Panel, ...] = ("return", "cost", "training cost")  # panels


class Figure(NamedTuple):
    grid: Grid
    layout: Layout


def single_or_conservative(run: Run) -> str | None:
    shown = run["algorithm"] == "sac-lag" or (
        run["algorithm"] == "ucb" and run["config"]["conservatism"] == 2.0
    )
    return name_of(run) if shown else None


RECENT, CALIBRATED = {"dual_states": "recent"}, {"calibration": "episodes"}
BOUNDED = {"cost_bounds": "task"}
DUAL_OPTIONS = {"recent states": RECENT, "calibrated": CALIBRATED, "bounded": BOUNDED}


def dual_options_of(run: Run) -> str | None:
    if run["algorithm"] != "cal":
        return None
    items = run["config"].items()
    chosen = [name for name, option in DUAL_OPTIONS.items() if option.items() <= items]
    return "all three" if len(chosen) == len(DUAL_OPTIONS) else " + ".join(chosen) or "none"


FIGURES = {
    # Fig. 2: a single cost critic underestimates and the budget is broken; conservatism ends it.
    # The paper names neither its two tasks nor the number of seeds.
    "underestimation": Figure(
        Grid(HOPPER_AND_BUTTON, (Variant("sac-lag"), Variant("ucb", {"conservatism": 2.0})), SEEDS),
        Layout(("return", "cost", "gap"), single_or_conservative, tasks_down),
    ),
    # Fig. 3: what the augmented Lagrangian adds to conservatism. The paper does not say which
    # values of k it shows, but that one is "much larger".
    "convexification": Figure(
        Grid(
            HOPPER_AND_BUTTON,
            (
                *over("ucb", conservatism=(0.5, 1.0, 2.0)),
                Variant("cal", {"conservatism": 0.5}),
            ),
            SEEDS,
        ),
        Layout((*LEARNING, "spread", "gap"), among("ucb", "cal"), tasks_down),
    ),
    # Fig. 4: CAL and the off-policy baselines, at the update ratios of the paper's footnote.
    "off-policy": Figure(
        Grid(
            ALL_TASKS,
            (
                Variant("cal"),
                Variant("sac-pid"),
                Variant("wcsac", {"risk_level": 0.1}),
                Variant("cvpo"),
            ),
            SEEDS,
        ),
        Layout(LEARNING, among("cal", *OFF_POLICY), tasks_across),
    ),
    # Fig. 5, top: CAL from no conservatism (k = 0) to much. The paper's text names PointButton2
    # and CarButton1; Hopper is added, as in the lower half.
    "conservatism": Figure(
        Grid(THREE_TASKS, over("cal", conservatism=(0.0, 0.25, 0.5, 1.0, 2.0)), SEEDS),
        Layout(LEARNING, value_of_cal("conservatism", "k"), tasks_across),
    ),
    # Fig. 5, bottom: CAL from no quadratic term (c = 0) to far too strong a one. The paper names
    # neither tasks nor values.
    "convexity": Figure(
        Grid(THREE_TASKS, over("cal", convexity=(0.0, 1.0, 10.0, 100.0, 1000.0)), SEEDS),
        Layout(LEARNING, value_of_cal("convexity", "c"), tasks_across),
    ),
    # Fig. 6: the on-policy baselines for five million steps, beside CAL's few. The last two are
    # not in the paper's figure; where there are runs of them they are shown beside.
    "on-policy": Figure(
        Grid(ALL_TASKS, (*ON_POLICY, "cal"), SEEDS),
        Layout(
            ("return", "cost"),
            among(*ON_POLICY, "cal", "ppo-lag", "ppo"),
            tasks_across,
            log_steps=True,
        ),
    ),
    # Fig. 7: more gradient steps per environment step (UTD).
    "update-ratio": Figure(
        Grid(
            HOPPER_AND_BUTTON,
            tuple(
                variant
                for algorithm in ("cal", *OFF_POLICY)
                for variant in over(algorithm, updates_per_step=(1, 10, 20))
            ),
            SEEDS,
        ),
        Layout(
            ("return", "cost"),
            among("cal", *OFF_POLICY, varied="updates_per_step"),
            ratios_across,
        ),
    ),
    # Fig. 8: CAL with few and with many cost critics (E). The paper's values are not named.
    "ensemble-size": Figure(
        Grid((*HOPPER_AND_BUTTON, "car-button2"), over("cal", cost_critics=(2, 4, 6, 8)), SEEDS),
        Layout(("return", "cost"), value_of_cal("cost_critics", "E"), tasks_across),
    ),
    # The budgets: half of what unconstrained PPO costs after a million samples.
    "thresholds": Figure(
        Grid(ALL_TASKS, (Variant("ppo", preset="million"),), SEEDS, steps=1_000_000),
        Layout(("return", "cost"), among("ppo"), tasks_across, ("final", "half cost")),
    ),
    # Not in the paper: CAL's dual looking at the present policy, where episodes and replay
    # disagree. Each option by itself, the first two, all of them, and none.
    "dual": Figure(
        Grid(
            tasks=("skid", "stall", *HOPPER_AND_BUTTON),
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
        ),
        Layout(
            LEARNING,
            dual_options_of,
            tasks_down,
            ("last quarter",),
            kinds=("none", *DUAL_OPTIONS, "recent states + calibrated", "all three"),
        ),
    ),
    # CAL beside SAC-Lag, which has neither of its two ideas; the paper shows them in different
    # figures.
    "sac-lag": Figure(
        Grid(ALL_TASKS, ("cal", "sac-lag"), SEEDS),
        Layout((*LEARNING, "gap"), among("cal", "sac-lag"), tasks_down),
    ),
}
EXPERIMENTS = (*FIGURES, "theory")
