"""What every preset, default, task and constant is, in `tests/golden/presets.json`.

A change there is meant or is a mistake: `python tests/golden_settings.py` writes the file anew, and
its difference then shows what changed. Presets are held as what differs from the defaults.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from prudent.algorithms import ALGORITHMS as KNOWN
from prudent.algorithms import OURS, resolve
from prudent.tasks import TASKS
from prudent.tasks.finding import unknown_task

ALGORITHMS = {name: KNOWN[name] for name in OURS}
FILE = Path(__file__).parent / "golden" / "presets.json"
OTHER = "an environment of one's own"


def plain(value: Any) -> Any:
    """As JSON has it."""
    return json.loads(json.dumps(value))


def defaults() -> dict[str, Any]:
    classes = {part for e in ALGORITHMS.values() for part in (e.config, e.schedule)}
    return {
        kind.__name__: plain(asdict(kind())) for kind in sorted(classes, key=lambda k: k.__name__)
    }


def chosen(algorithm: str, task: Any, preset: str) -> dict[str, Any]:
    """All settings of a preset, none of which config and schedule may both have."""
    config, schedule = (
        plain(asdict(s)) for s in resolve.settings(ALGORITHMS[algorithm], task, preset)
    )
    assert not config.keys() & schedule.keys()
    return {**config, **schedule}


def presets() -> dict[str, Any]:
    """{algorithm: {preset: [{"tasks": [...], "values": {...}}, ...]}}, the first preset first."""
    tasks = {**TASKS, OTHER: unknown_task("test")}
    found: dict[str, Any] = {}
    for name, e in ALGORITHMS.items():
        usual = {**plain(asdict(e.config())), **plain(asdict(e.schedule()))}
        rows: dict[str, list[dict[str, Any]]] = {}
        for task_name, task in tasks.items():
            for preset in e.presets(task):
                settings = chosen(name, task, preset)
                values = {k: v for k, v in settings.items() if usual[k] != v}
                same = [row for row in rows.setdefault(preset, []) if row["values"] == values]
                if same:
                    same[0]["tasks"].append(task_name)
                else:
                    rows[preset].append({"tasks": [task_name], "values": values})
        found[name] = rows
    return found


def first_presets() -> dict[str, Any]:
    """Which preset is meant where none is named, by algorithm and by kind of task."""
    kinds = {"hopper-velocity", "point-button1", "orbit"}
    return {
        name: {kind: next(iter(e.presets(TASKS[kind]))) for kind in sorted(kinds)}
        for name, e in ALGORITHMS.items()
    }


def tasks() -> dict[str, Any]:
    return {
        name: {
            "horizon": task.horizon,
            "budget": task.constraint.budget,
            "discounted": task.constraint.discounted,
            "family": task.family,
            "variant_of": task.variant_of,
            "deterministic_reset": task.deterministic_reset,
            "together": task.together is not None,
        }
        for name, task in TASKS.items()
    }


def constants() -> dict[str, Any]:
    from prudent.algorithms import cppo_pid
    from prudent.pieces import critics, dual, fast, normaliser, policies, variational
    from prudent.policies import policy
    from prudent.report import pack, tables
    from prudent.runs import folder
    from prudent.tasks import episodes, orbit, velocity
    from prudent.tasks.navigation import layout
    from prudent.training import evaluation, off_policy

    return plain(
        {
            "bounds of log std": (policies.LOG_STD_MIN, policies.LOG_STD_MAX),
            "bounds of the variance": (critics.VARIANCE_MIN, critics.VARIANCE_MAX),
            "largest multiplier": dual.LARGEST,
            "few rows": fast.FEW_ROWS,
            "CPPO-PID's first integral": cppo_pid.INITIAL_INTEGRAL,
            "CVPO's smallest temperature": variational.SMALLEST,
            "infeasible after": evaluation.INFEASIBLE_AFTER,
            "evaluation seed": episodes.EVALUATION_SEED,
            "updates per call": off_policy.CALLS,
            "largest observation": normaliser.LARGEST,
            "evaluated together": policy.TOGETHER,
            "formats of run.json": folder.FORMATS,
            "last evaluations of a table": tables.LAST,
            "large records": pack.LARGE,
            "orbit": (orbit.SPEED, orbit.FIRE_RADIUS, orbit.FIELD),
            "velocity": (velocity.ANT, velocity.WALKER, velocity.HUMANOID, velocity.FASTEST),
            "layouts": (layout.PLACING_ORDER, layout.TURNING_ORDER, layout.TRIES_PER_THING),
        }
    )


def golden() -> dict[str, Any]:
    return {
        "defaults": defaults(),
        "first_presets": first_presets(),
        "presets": presets(),
        "tasks": tasks(),
        "constants": constants(),
    }


def written(content: dict[str, Any]) -> str:
    """A line for each setting class, preset of an algorithm, task and constant."""
    parts = []
    for section, entries in content.items():
        rows = []
        for name, value in entries.items():
            if section == "presets":
                inner = [
                    f"   {json.dumps(preset)}: [\n"
                    + ",\n".join(f"    {json.dumps(row)}" for row in found)
                    + "\n   ]"
                    for preset, found in value.items()
                ]
                rows.append(f"  {json.dumps(name)}: {{\n" + ",\n".join(inner) + "\n  }")
            else:
                rows.append(f"  {json.dumps(name)}: {json.dumps(value)}")
        parts.append(f" {json.dumps(section)}: {{\n" + ",\n".join(rows) + "\n }")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(written(golden()))
