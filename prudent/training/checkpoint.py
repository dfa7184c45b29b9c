"""Checkpoints: everything a run needs to go on as if it had never stopped.

    checkpoints/step-000012000.safetensors   arrays: the learner's state, the episode in progress
    checkpoints/step-000012000.json          the rest, and checksums; written last, so it commits
    replay/rows-000004000-000005000.safetensors   rows added between two checkpoints

A checkpoint is data, never code. The last two are kept, and every replay segment either needs.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from prudent.files import checksum, to_json, write_atomically
from prudent.training.replay import Replay

KEPT = 2


class DamagedCheckpoint(RuntimeError):
    """A checkpoint that is not what was written."""


class Checkpoint(NamedTuple):
    arrays: dict[str, np.ndarray]
    facts: dict[str, Any]  # JSON: counters, generators, lengths of the records


class Segment(NamedTuple):
    start: int  # absolute index of its first row
    rows: np.ndarray


class Found(NamedTuple):
    """A checkpoint as read back."""

    arrays: dict[str, np.ndarray]
    facts: dict[str, Any]
    added: int  # rows the replay had ever been given
    segments: list[Segment]


def named_leaves(tree: Any) -> dict[str, Any]:
    """The leaves of a pytree by path, such as `policy/params/0/weight`."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def fill(template: Any, arrays: Mapping[str, np.ndarray], prefix: str, strict: bool = True) -> Any:
    """The tree of `template` with the leaves that `arrays` holds under `prefix`.

    Without `strict`, absent leaves become zeros (snapshots leave the optimisers out).
    """
    found = {}
    for name, leaf in named_leaves(template).items():
        array = arrays.get(prefix + name)
        if array is None and not strict:
            array = np.zeros(leaf.shape, leaf.dtype)
        if array is None or array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise DamagedCheckpoint(f"{name} is missing or of another shape or type")
        found[name] = array
    return jax.tree.unflatten(jax.tree.structure(template), list(found.values()))


def save_checkpoint(
    folder: Path, step: int, checkpoint: Checkpoint, replay: Replay | None, mark: str
) -> None:
    """Write a checkpoint and the replay rows it adds, then drop what no kept one needs."""
    checkpoints, segments_folder = folder / "checkpoints", folder / "replay"
    checkpoints.mkdir(exist_ok=True)
    segments = _save_rows(checkpoints, segments_folder, replay) if replay else []
    path = checkpoints / f"step-{step:09d}"
    content = save({name: np.asarray(a, order="C") for name, a in checkpoint.arrays.items()})
    write_atomically(path.with_suffix(".safetensors"), content)
    manifest = {
        "format": 1,
        "run": mark,
        "step": step,
        "arrays": checksum(content),
        "added": replay.added if replay else 0,
        "segments": segments,
        "facts": checkpoint.facts,
    }
    manifest["checksum"] = checksum(to_json(manifest).encode())
    write_atomically(path.with_suffix(".json"), to_json(manifest).encode())
    _drop_old(checkpoints, segments_folder)


def _save_rows(checkpoints: Path, folder: Path, replay: Replay) -> list[dict[str, Any]]:
    """The segments that together hold the replay, after writing the rows added since."""
    folder.mkdir(exist_ok=True)
    # Segments beyond this point were written by a run that was killed and has since resumed.
    segments = [
        segment
        for segment in _newest_segments(checkpoints)
        if replay.first < segment["stop"] <= replay.added
    ]
    start = max([replay.first, *(segment["stop"] for segment in segments)])
    if start < replay.added:
        segments.append(_write_segment(folder, replay, start))
    return segments


def _write_segment(folder: Path, replay: Replay, start: int) -> dict[str, Any]:
    content = save({"rows": replay.read(start, replay.added)})
    name = f"rows-{start:09d}-{replay.added:09d}.safetensors"
    write_atomically(folder / name, content)
    return {"name": name, "start": start, "stop": replay.added, "checksum": checksum(content)}


def _newest_segments(checkpoints: Path) -> list[dict[str, Any]]:
    for manifest in sorted(checkpoints.glob("step-*.json"), reverse=True):
        try:
            segments: list[dict[str, Any]] = _read_manifest(manifest)["segments"]
        except DamagedCheckpoint:
            continue
        return segments
    return []


def _drop_old(checkpoints: Path, segments_folder: Path) -> None:
    manifests = sorted(checkpoints.glob("step-*.json"))
    for manifest in manifests[:-KEPT]:
        manifest.unlink()
    steps = {manifest.stem for manifest in manifests[-KEPT:]}
    for arrays in checkpoints.glob("step-*.safetensors"):
        if arrays.stem not in steps:
            arrays.unlink()
    needed: set[str] = set()
    for manifest in manifests[-KEPT:]:
        try:
            needed |= {segment["name"] for segment in _read_manifest(manifest)["segments"]}
        except DamagedCheckpoint:
            return  # cannot know what it needs
    for segment in segments_folder.glob("rows-*.safetensors"):
        if segment.name not in needed:
            segment.unlink()


def load_newest(
    folder: Path, mark: str, say: Callable[[str], None], *, with_replay: bool = True
) -> Found | None:
    """The newest whole checkpoint of the run with this mark; None where it has none yet.

    Damaged ones are named and passed over. If there are only damaged ones, that is an error.
    """
    manifests = sorted((folder / "checkpoints").glob("step-*.json"), reverse=True)
    complaints = []
    for path in manifests:
        try:
            found = _read_checkpoint(path, mark, folder / "replay", with_replay)
        except DamagedCheckpoint as damage:
            complaints.append(f"checkpoint {path.stem} is not used: {damage}")
            say(complaints[-1])
            continue
        if with_replay:  # to go on from here: set the damaged aside, so that nothing builds on them
            for damaged in manifests[: len(complaints)]:
                damaged.rename(damaged.with_suffix(".json.damaged"))
        return found
    if complaints:
        raise DamagedCheckpoint(
            f"{folder}: no whole checkpoint is left ({'; '.join(complaints)}). "
            "The records are untouched; restore the files, or train into another folder."
        )
    return None


def _read(path: Path, expected: str) -> dict[str, np.ndarray]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DamagedCheckpoint(f"{path.name} is missing") from None
    if checksum(content) != expected:
        raise DamagedCheckpoint(f"{path.name} was cut short or altered (its checksum differs)")
    try:
        return dict(load(content))
    except SafetensorError as error:
        raise DamagedCheckpoint(f"{path.name} is no safetensors file ({error})") from None


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_bytes())
        written = manifest.pop("checksum")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise DamagedCheckpoint(f"{path.name} was cut short or is no manifest of ours") from None
    if checksum(to_json(manifest).encode()) != written:
        raise DamagedCheckpoint(f"{path.name} was altered (its checksum differs)")
    return dict(manifest)


def _read_checkpoint(path: Path, mark: str, segments: Path, with_replay: bool) -> Found:
    manifest = _read_manifest(path)
    if manifest["format"] != 1 or manifest["run"] != mark:
        raise DamagedCheckpoint(f"it is of another run ({manifest['run']}, this one is {mark})")
    rows = [
        Segment(entry["start"], _read(segments / entry["name"], entry["checksum"])["rows"])
        for entry in (manifest["segments"] if with_replay else ())
    ]
    arrays = _read(path.with_suffix(".safetensors"), manifest["arrays"])
    return Found(arrays, manifest["facts"], manifest["added"], rows)


def save_snapshot(folder: Path, step: int, state: Any) -> None:
    """Keep what acts and estimates, without what only trains, for later diagnostics."""
    snapshots = folder / "snapshots"
    snapshots.mkdir(exist_ok=True)
    leaves = {n: np.asarray(a) for n, a in named_leaves(state).items() if "/optimiser/" not in n}
    write_atomically(snapshots / f"step-{step:09d}.safetensors", save(leaves))
