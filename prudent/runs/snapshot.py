"""Snapshots: what a run acted and estimated with at some steps, for later diagnostics.

    snapshots/step-000012000.safetensors   the learner's state, without what only trains

The metadata has one entry, `snapshot`, in JSON: the step, the run that it is of, and a checksum of
both and of the arrays. Files of older versions have none, and are believed without.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from prudent.files import (
    canonical_json,
    checksum,
    make_folder,
    read_regular,
    to_json,
    write_atomically,
)
from prudent.runs.checkpoint import OPTIMISER, DamagedCheckpoint, fill, named_leaves
from prudent.runs.folder import RunFolder
from prudent.runs.manifest import LARGEST_ARRAYS


def snapshot_path(folder: Path, step: int) -> Path:
    return folder / "snapshots" / f"step-{step:09d}.safetensors"


def save_snapshot(folder: RunFolder, step: int, state: Any) -> None:
    make_folder(folder.path / "snapshots")
    arrays = {n: np.asarray(a, order="C") for n, a in named_leaves(state).items()}
    kept = {name: array for name, array in arrays.items() if OPTIMISER not in name}
    entry = to_json(metadata(folder, step, kept))
    write_atomically(snapshot_path(folder.path, step), save(kept, metadata={"snapshot": entry}))


def metadata(folder: RunFolder, step: int, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What a sound snapshot of this step says of itself."""
    about = {"run": folder.lasting_id, "step": step}
    return {**about, "checksum": checksum(canonical_json(about) + save(dict(arrays)))}


def read_snapshot(folder: RunFolder, step: int, template: Any) -> Any:
    """The state of the template's form; without its optimisers, whose numbers are 0."""
    path = snapshot_path(folder.path, step)
    try:
        content = read_regular(path, LARGEST_ARRAYS)
        arrays = dict(load(content))
        entry = stored_metadata(content)
    except FileNotFoundError:
        kept = sorted(int(p.stem.split("-")[1]) for p in path.parent.glob("step-*.safetensors"))
        raise ValueError(
            f"{folder.path}: no snapshot at step {step}; there is: {kept or 'none'}"
        ) from None
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(f"{path} was cut short or altered ({error})") from None
    if entry is not None:
        check_entry(path, entry.get("snapshot"), metadata(folder, step, arrays))
    try:
        return fill(template, arrays, prefix="", strict=False)
    except DamagedCheckpoint as damage:
        raise DamagedCheckpoint(f"{path}: {damage}") from None


def stored_metadata(content: bytes) -> dict[str, str] | None:
    """Of a safetensors file; its own reader keeps this to itself."""
    header = content[8 : 8 + int.from_bytes(content[:8], "little")]
    found: dict[str, str] | None = json.loads(header).get("__metadata__")
    return found


def check_entry(path: Path, written: str | None, expected: Mapping[str, Any]) -> None:
    try:
        found = json.loads(written or "")
        run, step = found["run"], found["step"]
    except (ValueError, KeyError, TypeError):
        raise DamagedCheckpoint(f"{path} is no snapshot of a run") from None
    if run != expected["run"]:
        raise DamagedCheckpoint(f"{path} is of another run ({run}, this one is {expected['run']})")
    if step != expected["step"]:
        raise DamagedCheckpoint(f"{path} is the snapshot of step {step}, renamed")
    if found != expected:
        raise DamagedCheckpoint(f"{path} was altered since it was written (its checksum differs)")
