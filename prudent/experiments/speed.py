"""How long runs will take: by the speed of those that are there, else by a rough guess."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from prudent.experiments.existing import Existing, parsed
from prudent.settings.run import Run
from prudent.settings.schedules import OffPolicySchedule

# One core of a machine of 2024, one thread, batches of 12; large batches are several times slower.
UPDATES_PER_SECOND = 400.0
STEPS_PER_SECOND = 2_000.0


class Speed(NamedTuple):
    """Seconds per unit of work: updates of off-policy runs, steps of on-policy ones."""

    seconds: float
    measured: bool


def work(run: Run, steps: int) -> float:
    if isinstance(run.schedule, OffPolicySchedule):
        return float(run.schedule.updates_per_step * steps)
    return float(steps)


def measured_speeds(runs: Iterable[Existing]) -> dict[tuple[str, str], float]:
    """Seconds per unit of work by algorithm and task, evaluations apart."""
    totals: dict[tuple[str, str], list[float]] = {}
    for existing in runs:
        seconds, steps = time_spent(existing.folder)
        if steps > 0 and seconds > 0:
            run = existing.run
            total = totals.setdefault((run.algorithm, run.task), [0.0, 0.0])
            total[0] += seconds
            total[1] += work(run, steps)
    return {key: seconds / done for key, (seconds, done) in totals.items()}


class Spent(NamedTuple):
    seconds: float
    steps: int


def time_spent(folder: Path) -> Spent:
    """What the records say; what came before the first evaluation is the warm-up."""
    try:
        lines = list(parsed((folder / "progress.jsonl").read_bytes().split(b"\n")))
    except OSError:
        return Spent(0.0, 0)
    seconds = sum(float(line.get("window_seconds", 0.0)) for line in lines[1:])
    return Spent(seconds, lines[-1]["step"] - lines[0]["step"] if lines else 0)


def speed_of(run: Run, measured: dict[tuple[str, str], float]) -> Speed:
    known = measured.get((run.algorithm, run.task))
    if known is not None:
        return Speed(known, True)
    off_policy = isinstance(run.schedule, OffPolicySchedule)
    return Speed(1 / (UPDATES_PER_SECOND if off_policy else STEPS_PER_SECOND), False)


def hours_left(run: Run, step: int, speed: Speed) -> float:
    """Of one core. Steps of the environment are not counted apart: they take a share of updates'
    time where that was measured.
    """
    return work(run, max(0, run.schedule.steps - max(0, step))) * speed.seconds / 3600
