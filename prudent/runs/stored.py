"""A run read back from its folder's `run.json`."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from prudent.algorithms import ALGORITHMS, find_algorithm
from prudent.settings.checks import Values, fitting
from prudent.settings.registration import NotKnown, Unusable
from prudent.settings.run import Run, checked_run, identity_of
from prudent.settings.schedules import SemiBatchSchedule

# 1: one settings class served several algorithms, so that some stored settings were never read.
FORMATS = (1, 2)


class StoredRun(NamedTuple):
    run: Run
    mark: str  # what checkpoints of this very run carry
    content: dict[str, Any]  # all of run.json


def with_steps(fields: dict[str, Any], steps: int) -> dict[str, Any]:
    """A run's stored fields, had it been given that many steps."""
    schedule = fields["schedule"]
    if is_semi_batch(schedule):
        each = schedule["steps_per_deployment"]
        if steps % each:
            raise ValueError(f"--steps is {steps}; deployments of {each} steps need a multiple")
        return {**fields, "schedule": {**schedule, "deployments": steps // each}}
    return {**fields, "schedule": {**schedule, "steps": steps}}


def is_semi_batch(schedule: Values) -> bool:
    """Whether a stored schedule is one of deployments, which several algorithms can have."""
    return "steps_per_deployment" in schedule


def earlier_fields(content: dict[str, Any]) -> list[dict[str, Any]]:
    """What a run's stored fields were each time before it was prolonged."""
    return [with_steps(content["run"], steps) for steps in content.get("earlier_steps", [])]


def mark_of(identity: str, seed: int) -> str:
    return f"{identity}-seed-{seed}"


def read_stored(folder: Path) -> StoredRun:
    path = folder / "run.json"
    if not path.exists():
        raise ValueError(f"{folder} holds no run (there is no run.json)")
    try:
        content = json.loads(path.read_text())
        run = run_from_json(content["run"], content["format"])
        identity = str(content["identity"])
    except NotKnown:
        raise NotKnown(
            f"{path}: its algorithm {content['run']['algorithm']!r} is not known here; register it "
            f"first (prudent.register_algorithm), or {ALGORITHMS.how_to_install()}"
        ) from None
    except Unusable as error:
        raise Unusable(f"{path}: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is not a run record this version reads ({error})") from None
    if content["format"] > 1 and identity != identity_of(content["run"]):
        raise ValueError(f"{path} was altered: its settings do not have the identity it states")
    return StoredRun(run, mark_of(identity, run.seed), content)


def run_from_json(fields: dict[str, Any], layout: int) -> Run:
    """The run of stored fields. What a later version added takes its default, which changes
    nothing; what this version does not know is refused, unless it never had a meaning.
    """
    if layout not in FORMATS:
        raise ValueError(f"format {layout}; this version reads {FORMATS}")
    entry = find_algorithm(fields["algorithm"])
    config: Values = fields["config"]
    if layout == 1:
        config = fitting(config, entry.config)
    form = SemiBatchSchedule if is_semi_batch(fields["schedule"]) else entry.schedule
    schedule = form(**fields["schedule"])
    return checked_run(Run(**{**fields, "config": entry.config(**config), "schedule": schedule}))
