"""What is left to do of a grid."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from prudent.experiments.engines import Job
from prudent.experiments.existing import State, existing_runs, folder_for
from prudent.experiments.grid import Grid, expand, nameless
from prudent.experiments.speed import hours_left, measured_speeds, speed_of
from prudent.runs.folder import in_a_name


class Plan(NamedTuple):
    job: Job
    state: State
    hours: float  # of one core, until it is finished
    measured: bool  # whether the hours are by the speed of a like run, not by a guess


def planned_jobs(
    grid: Grid, out: Path, scale: float, say: Callable[[str], None], measure: bool = False
) -> list[Plan]:
    """The grid's runs, with the state of those that are below `out`.

    Only with `measure` are these read for the speed that `hours` goes by.
    """
    found = existing_runs(out, say)
    speeds = measured_speeds(found.values()) if measure else {}
    plans = []
    for run, variant in expand(grid, scale):
        there, speed = found.get(nameless(run)), speed_of(run, speeds)
        key = f"{in_a_name(run.task)}-{run.algorithm}-{run.identity()}-seed-{run.seed}"
        job = Job(run, folder_for(run, out, found), variant, key)
        state, step = (there.state, there.step) if there else ("missing", 0)
        hours = 0.0 if state == "finished" else hours_left(run, step, speed)
        plans.append(Plan(job, state, hours, speed.measured))
    return plans
