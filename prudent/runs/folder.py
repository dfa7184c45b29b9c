"""A run's folder: `run.json`, what the run began with, and what tells its files from another's.

run.json              settings, versions, what the algorithm knew of its environment
initial.safetensors   what it began with besides: a log, another run's policy; written first
progress.jsonl        a line per evaluation (`runs.lines`)
episodes.jsonl        a line per training episode
checkpoints/ replay/  what it goes on from (`runs.checkpoint`)
snapshots/            what it acted and estimated with at some steps (`runs.snapshot`)
"""

import json
import os
import platform
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from prudent.algorithms import ALGORITHMS, find_algorithm
from prudent.files import (
    canonical_json,
    checksum,
    new_folder,
    read_regular,
    to_json,
    write_atomically,
)
from prudent.runs.lock import INITIAL, LOCK
from prudent.runs.manifest import DamagedCheckpoint, RunIdentity
from prudent.settings.checks import Values, fitting
from prudent.settings.registration import OURS, SCRIPT, NotKnown, Registry, Unusable
from prudent.settings.run import Run, checked_run, identity_of, run_to_json
from prudent.settings.schedules import SemiBatchSchedule, deployments_in
from prudent.tasks import TASKS

# 1: one settings class served several algorithms, so that some stored settings were never read.
FORMATS = (1, 2)
PACKAGES = ("prudent", "jax", "jaxlib", "optax", "numpy", "gymnasium", "mujoco", "safetensors")
DEPLOYMENT = "steps_per_deployment"  # by which a stored schedule is known as one of deployments
LARGEST_RECORD = 2**24  # bytes of a run.json
LARGEST_INITIAL = 2**36


@dataclass(frozen=True)
class RunFolder:
    """A run as its folder holds it; the other modules of `prudent.runs` handle its files."""

    path: Path
    run: Run
    content: dict[str, Any] = field(repr=False)  # all of run.json

    @property
    def run_id(self) -> str:
        return self.identity.run_id

    @property
    def lasting_id(self) -> str:
        """The same however many steps the run is given; snapshots carry it."""
        fields = self.content["run"]
        return run_id(identity_of(with_steps(fields, 0)), fields["seed"])

    @cached_property
    def identity(self) -> RunIdentity:
        """What this run's checkpoints carry, and those from before it was prolonged."""
        earlier = [
            with_steps(self.content["run"], s) for s in self.content.get("earlier_steps", [])
        ]
        return RunIdentity(
            run_id(str(self.content["identity"]), self.run.seed),
            checksums_of(self.content, self.content["run"]),
            {
                run_id(identity_of(fields), fields["seed"]): checksums_of(self.content, fields)
                for fields in earlier
            },
        )


def run_id(identity: str, seed: int) -> str:
    return f"{identity}-seed-{seed}"


def checksums_of(content: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, str]:
    """Of the parts of `run.json` that decide how a checkpoint is read.

    `spec` is what the algorithm knew of its environment, `settings` the run without its preset's
    name, which decides nothing.
    """
    settings = {name: value for name, value in fields.items() if name != "preset"}
    parts = {"settings": settings}
    if "spec" in content:
        parts["spec"] = content["spec"]
    return {name: checksum(canonical_json(part)) for name, part in parts.items()}


def write_run(path: Path, run: Run, facts: Mapping[str, Any]) -> RunFolder:
    """`facts`: what `run.json` says besides the settings and where they ran."""
    content = {
        "format": FORMATS[-1],
        "identity": run.identity(),
        "run": run_to_json(run),
        **facts,
        "versions": {"python": platform.python_version(), **{p: version(p) for p in PACKAGES}},
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
        },
        "command": sys.argv[1:],
    }
    write_content(path, content)
    return RunFolder(path, run, content)


def write_content(path: Path, content: Mapping[str, Any]) -> None:
    write_atomically(path / "run.json", (to_json(content, indent=2) + "\n").encode())


def read_run(folder: str | Path) -> RunFolder:
    """The run in a folder; refuses what is none, or one that this version cannot read."""
    path = Path(folder) / "run.json"
    if not os.path.lexists(path):
        raise ValueError(f"{folder} holds no run (there is no run.json)")
    try:
        content = json.loads(read_regular(path, LARGEST_RECORD))
        run = run_from_json(content["run"], content["format"])
        identity = str(content["identity"])
    except NotKnown:
        raise NotKnown(
            f"{path}: its algorithm {content['run']['algorithm']!r} is not known here; register it "
            f"first (prudent.register_algorithm), or {ALGORITHMS.how_to_install()}"
        ) from None
    except Unusable as error:
        raise Unusable(f"{path}: {error}") from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is not a run record this version reads ({error})") from None
    if content["format"] > 1 and identity != identity_of(content["run"]):
        raise ValueError(f"{path} was altered: its settings do not have the identity it states")
    return RunFolder(Path(folder), run, content)


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
    schedule = fields["schedule"]
    form = SemiBatchSchedule if DEPLOYMENT in schedule else entry.schedule
    schedule = form(**schedule)
    return checked_run(Run(**{**fields, "config": entry.config(**config), "schedule": schedule}))


def with_steps(fields: dict[str, Any], steps: int) -> dict[str, Any]:
    """A run's stored fields, had it been given that many steps."""
    schedule = fields["schedule"]
    if DEPLOYMENT in schedule:
        deployments = deployments_in(steps, schedule[DEPLOYMENT])
        return {**fields, "schedule": {**schedule, "deployments": deployments}}
    return {**fields, "schedule": {**schedule, "steps": steps}}


def log_name(rows: np.ndarray) -> str:
    """What a run's settings call the log that it began with."""
    return f"log-{checksum(rows.tobytes())[:8]}"


def policy_name(arrays: Mapping[str, np.ndarray]) -> str:
    """What a run's settings call the policy that it began with."""
    policy = {name: array for name, array in arrays.items() if name != "rows"}
    return f"policy-{checksum(save(policy))[:8]}" if policy else "none"


def write_initial(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """What the run began with, so that one killed before its first checkpoint can begin again."""
    content = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    write_atomically(path / INITIAL, save(content))


def read_initial(folder: RunFolder) -> dict[str, np.ndarray]:
    """What the run began with, if it is what its settings say."""
    path, run = folder.path / INITIAL, folder.run
    if not path.exists():
        return {}
    try:
        arrays: dict[str, np.ndarray] = load(read_regular(path, LARGEST_INITIAL))
    except (SafetensorError, OSError) as error:
        raise DamagedCheckpoint(f"{path} was cut short or altered ({error})") from None
    logged = run.warmup.startswith("log-")
    same = policy_name(arrays) == run.init_from
    if not same or (logged and log_name(arrays.get("rows", np.empty(0))) != run.warmup):
        raise DamagedCheckpoint(f"{path} was altered: it is not what the run began with")
    return arrays


def default_folder(run: Run, runs: Path = Path("runs")) -> Path:
    return (
        runs
        / in_a_name(run.task)
        / run.algorithm
        / f"{run.preset}-{run.identity()}"
        / f"seed-{run.seed}"
    )


def in_a_name(text: str) -> str:
    """With what a file's name had better not hold replaced."""
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in text)


def packages_of(run: Run) -> list[str]:
    """Those, besides this one, that the run's algorithm and task come from."""
    names: list[tuple[Registry[Any], str]] = [(ALGORITHMS, run.algorithm), (TASKS, run.task)]
    sources = {registry.source(name) for registry, name in names if name in registry}
    return sorted(s for s in sources if s != SCRIPT and s.split()[0] != OURS)


def note_packages(folder: RunFolder) -> None:
    """Tell where the run's algorithm or task is of another package, or version, than it was."""
    now = packages_of(folder.run)
    then = folder.content.get("packages", now)
    if then != now:
        was, here = (" and ".join(names) or "no package besides prudent" for names in (then, now))
        print(f"prudent: {folder.path} was trained with {was}; here is {here}", file=sys.stderr)


def copy_run(folder: Path, target: Path) -> Path:
    """The whole folder but its lock, at a place where there is nothing yet."""
    if os.path.lexists(target):
        raise ValueError(f"{target} is there already; choose another folder")
    with new_folder(target) as made:
        shutil.copytree(folder, made, dirs_exist_ok=True, ignore=shutil.ignore_patterns(LOCK))
    return target
