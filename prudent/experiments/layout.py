"""How a figure of the paper is laid out: which panels it has, where each stands, and what its lines
are called. Data only; `drawing` makes pictures of it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from prudent.algorithms import OURS
from prudent.report.departures import departures
from prudent.report.paper import NAVIGATION

Run = Mapping[str, Any]  # the settings of one, as run.json stores them
Panel = Literal["return", "cost", "training cost", "gap", "spread"]
Table = Literal["final", "gap", "half cost", "last quarter"]
ORACLE: tuple[Panel, ...] = ("gap",)  # made of what `prudent diagnose` measures


class Place(NamedTuple):
    """Panels with the same row stand side by side, those with the same column below each other."""

    row: tuple[str, ...]
    column: str


class Layout(NamedTuple):
    panels: tuple[Panel, ...]
    label: Callable[[Run], str | None]  # of a run's line; None for runs that are none of its own
    place: Callable[[Run, Panel], Place]
    tables: tuple[Table, ...] = ("final", "gap")  # the latter where a run was diagnosed
    # Labels in this order, each in a colour of its own, where they are of different kinds and not
    # degrees of one thing.
    kinds: tuple[str, ...] = ()
    log_steps: bool = False  # where lines end at very different steps

    @property
    def needs_oracle(self) -> bool:
        return any(panel in ORACLE for panel in self.panels)


def tasks_down(run: Run, panel: Panel) -> Place:
    """A row for each task, its panels side by side."""
    return Place((run["task"],), panel)


def tasks_across(run: Run, panel: Panel) -> Place:
    """A column for each task, its panels below each other; each family of tasks by itself."""
    family = "navigation" if run["task"] in NAVIGATION else "other"
    return Place((family, panel), run["task"])


def ratios_across(run: Run, panel: Panel) -> Place:
    """A row for each task and panel, a column for each number of updates per step."""
    ratio = run["schedule"]["updates_per_step"]
    return Place((run["task"], panel), f"{ratio:g} per step")


# Our algorithms are written in capitals, but for these.
NAMES = {"sac-lag": "SAC-Lag", "sac-pid": "SAC-PIDLag", "ppo-lag": "PPO-Lag"}


def name_of(run: Run) -> str:
    """The algorithm as the paper writes it, and k where that tells runs of UCB apart."""
    algorithm = str(run["algorithm"])
    name = NAMES.get(algorithm, algorithm.upper() if algorithm in OURS else algorithm)
    return f"{name}, k = {run['config']['conservatism']:g}" if name == "UCB" else name


def among(*algorithms: str, varied: str = "") -> Callable[[Run], str | None]:
    """Runs of these, with what other experiments vary as their presets have it (but UCB's k)."""

    def label(run: Run) -> str | None:
        free = {varied, "conservatism"} if run["algorithm"] == "ucb" else {varied}
        if run["algorithm"] not in algorithms or departures(run) - free:
            return None
        return name_of(run)

    return label


def value_of_cal(setting: str, symbol: str) -> Callable[[Run], str | None]:
    """CAL's runs by the value of one of its settings, where no other is varied besides."""

    def label(run: Run) -> str | None:
        if run["algorithm"] != "cal" or departures(run) - {setting}:
            return None
        return f"{symbol} = {run['config'][setting]:g}"

    return label
