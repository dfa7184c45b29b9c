"""Checkpoints: everything a run needs to go on as if it had never stopped.

    checkpoints/step-000012000.safetensors   arrays: the learner's state, the episode in progress
    checkpoints/step-000012000.json          the rest, and checksums; written last, so it commits
    replay/rows-000004000-000005000.safetensors   rows added between two checkpoints

A checkpoint is data, never code. The last two are kept, and every replay segment either needs.
A damaged checkpoint is passed over for the one before. Segments are shared by both, so where one
is damaged neither is whole: then the newest goes on without those rows, and says so.

A manifest carries the checksums of the parts of `run.json` that decide how its arrays are read;
those of older versions do not, and are believed without.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
from safetensors.numpy import save

from prudent.files import (
    check_folder,
    checksum,
    make_folder,
    sync_folder,
    write_atomically,
    writing,
)
from prudent.runs.manifest import (
    Content,
    Entry,
    Manifest,
    RunIdentity,
    manifest_bytes,
    manifests_in,
    read_arrays,
    read_manifest,
    read_rows,
)
from prudent.runs.manifest import DamagedCheckpoint as DamagedCheckpoint

KEPT = 2
OPTIMISER = "/optimiser/"  # in the names of leaves that snapshots leave out


class Rows(Protocol):
    """A replay: its rows by absolute index, `first` the oldest that it holds."""

    added: int

    @property
    def first(self) -> int: ...
    def read(self, start: int, stop: int) -> np.ndarray: ...


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
    first: int  # the oldest of them it still held
    segments: list[Segment]  # those that are whole
    lost: list[tuple[int, int]]  # rows of the others: from, up to and not including


def named_leaves(tree: Any) -> dict[str, Any]:
    """The leaves of a pytree by path, such as `policy/params/0/weight`."""
    found: dict[str, Any] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        if name in found:
            raise ValueError(f"two leaves of the state are named {name}; name them apart")
        found[name] = leaf
    return found


def fill(template: Any, arrays: Mapping[str, np.ndarray], prefix: str, strict: bool = True) -> Any:
    """The tree of `template` with the leaves that `arrays` holds under `prefix`.

    Without `strict`, the optimisers' may be absent, as in snapshots, and become zeros.
    """
    found = {}
    for name, leaf in named_leaves(template).items():
        array = arrays.get(prefix + name)
        if array is None and (old := arrays.get(prefix + name.replace("dual/", "", 1))) is not None:
            array = old.reshape(leaf.shape) if old.size == leaf.size else old  # before 0.5
        if array is None and not strict and OPTIMISER in name:
            array = np.zeros(leaf.shape, leaf.dtype)
        if array is None or array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise DamagedCheckpoint(f"{name} is missing or of another shape or type")
        found[name] = array
    return jax.tree.unflatten(jax.tree.structure(template), list(found.values()))


def save_checkpoint(
    folder: Path,
    run: RunIdentity,
    step: int,
    checkpoint: Checkpoint,
    rows: Rows | None = None,
    before: Sequence[Manifest] | None = None,
) -> list[Manifest]:
    """Write a checkpoint and the replay's rows that it adds, then drop what no kept one needs.

    Returns the manifests that are kept, which the next call takes as those from `before`; without
    them they are read from the folder.
    """
    checkpoints, segments_folder = folder / "checkpoints", folder / "replay"
    make_folder(checkpoints)
    before = kept_in(checkpoints) if before is None else before
    segments = []
    if rows:
        make_folder(segments_folder)
        segments = save_rows(before[-1].segments if before else [], segments_folder, rows)
    path = checkpoints / f"step-{step:09d}"
    content = save({name: np.asarray(a, order="C") for name, a in checkpoint.arrays.items()})
    write_atomically(path.with_suffix(".safetensors"), content)
    manifest = Manifest(
        run=run.run_id,
        step=step,
        arrays=Content(checksum(content), len(content)),
        added=rows.added if rows else 0,
        first=rows.first if rows else 0,
        segments=segments,
        facts=checkpoint.facts,
        parts_of_run=dict(run.checksums or {}),
    )
    write_atomically(path.with_suffix(".json"), manifest_bytes(manifest))
    kept = [*(other for other in before if other.step != step), manifest][-KEPT:]
    drop_others(checkpoints, segments_folder, kept)
    return kept


def save_rows(segments: Sequence[Entry], folder: Path, rows: Rows) -> list[Entry]:
    """The segments that together hold the replay, after writing the rows added since."""
    # Segments beyond this point were written by a run that was killed and has since resumed.
    held = [entry for entry in segments if rows.first < entry.stop <= rows.added]
    start = max([rows.first, *(entry.stop for entry in held)])
    if start < rows.added:
        content = save({"rows": rows.read(start, rows.added)})
        entry = Entry(start, rows.added, Content(checksum(content), len(content)))
        write_atomically(folder / entry.name, content)
        held.append(entry)
    return held


def kept_in(checkpoints: Path) -> list[Manifest]:
    """The readable ones of the newest, oldest first."""
    kept = []
    for path in manifests_in(checkpoints)[-KEPT:]:
        with suppress(DamagedCheckpoint):
            kept.append(read_manifest(path))
    return kept


def drop_others(checkpoints: Path, segments_folder: Path, kept: Sequence[Manifest]) -> None:
    names = {f"step-{manifest.step:09d}" for manifest in kept}
    remove_files(path for path in manifests_in(checkpoints) if path.stem not in names)
    remove_files(p for p in checkpoints.glob("step-*.safetensors") if p.stem not in names)
    needed = {entry.name for manifest in kept for entry in manifest.segments}
    remove_files(p for p in segments_folder.glob("rows-*.safetensors") if p.name not in needed)


def newest_step(folder: Path) -> int:
    """Environment steps as of the newest checkpoint; 0 where there is none."""
    for path in reversed(manifests_in(folder / "checkpoints")):
        try:
            return int(read_manifest(path).facts.get("step", 0))
        except DamagedCheckpoint:
            continue
    return 0


def remove_files(paths: Iterable[Path]) -> None:
    """Regular files only: what else stands there is not ours."""
    for path in paths:
        if path.is_file() and not path.is_symlink():
            with writing(path):
                path.unlink()


def load_newest(
    folder: Path, run: RunIdentity, say: Callable[[str], None], *, with_replay: bool = True
) -> Found | None:
    """The newest whole checkpoint of this run; None where it has none yet.

    Damaged ones are named and passed over. If none is whole, the newest that lacks nothing but
    rows of the replay is used without them. If there is none of those either, that is an error.
    """
    manifests = manifests_in(folder / "checkpoints")[::-1]
    segments = replay_folder(folder) if with_replay else None
    complaints = []
    attempts = [(path, False) for path in manifests]
    if with_replay:
        attempts += [(path, True) for path in manifests]
    for path, without_lost_rows in attempts:
        try:
            found = read_checkpoint(path, run, segments, without_lost_rows)
        except DamagedCheckpoint as damage:
            if not without_lost_rows:
                complaints.append(f"checkpoint {path.stem} is not used: {damage}")
                say(complaints[-1])
            continue
        if found.lost:
            say(inexact(path, found))
        if with_replay:  # to go on from here: set the damaged aside, so that nothing builds on them
            for newer in manifests[: manifests.index(path)]:
                set_aside(newer)
        return found
    if complaints:
        raise DamagedCheckpoint(
            f"{folder}: no whole checkpoint is left ({'; '.join(complaints)}). "
            "The records are untouched; restore the files, or train into another folder."
        )
    return None


def replay_folder(folder: Path) -> Path:
    """Where it is a link, its rows are not lost: they only have to be put back."""
    path = folder / "replay"
    try:
        check_folder(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise DamagedCheckpoint(f"{path} cannot be read: {error.strerror}") from None
    return path


def read_checkpoint(
    path: Path, run: RunIdentity, segments: Path | None, without_lost_rows: bool
) -> Found:
    manifest = read_manifest(path)
    if manifest.run != run.run_id and manifest.run not in run.earlier:
        raise DamagedCheckpoint(f"it is of another run ({manifest.run}, this one is {run.run_id})")
    if path.stem != f"step-{manifest.step:09d}":
        raise DamagedCheckpoint(f"it is the checkpoint of step {manifest.step}, renamed")
    parts = run.earlier.get(manifest.run, run.checksums)
    for name, written in manifest.parts_of_run.items():
        if parts is not None and parts.get(name) != written:
            raise DamagedCheckpoint(f"run.json was altered since (its {name}); restore it")
    arrays = read_arrays(path.with_suffix(".safetensors"), manifest.arrays)
    kept = Kept([], [])
    if segments is not None:
        kept = read_segments(manifest, segments, without_lost_rows)
    return Found(arrays, manifest.facts, manifest.added, manifest.first, *kept)


class Kept(NamedTuple):
    segments: list[Segment]
    lost: list[tuple[int, int]]


def read_segments(manifest: Manifest, folder: Path, without_lost_rows: bool) -> Kept:
    kept = Kept([], [])
    for entry in manifest.segments:
        try:
            kept.segments.append(Segment(entry.start, read_rows(folder, entry)))
        except DamagedCheckpoint:
            if not without_lost_rows:
                raise
            start = max(entry.start, manifest.first)
            if kept.lost and kept.lost[-1][1] == start:
                start = kept.lost.pop()[0]
            kept.lost.append((start, entry.stop))
    return kept


def inexact(path: Path, found: Found) -> str:
    ranges = ", ".join(f"{start}..{stop}" for start, stop in found.lost)
    missing, held = sum(stop - start for start, stop in found.lost), found.added - found.first
    return (
        f"resume is inexact: rows {ranges} of the replay are lost, {missing} of {held}. "
        f"Going on from {path.stem} with the others."
    )


def set_aside(path: Path) -> None:
    """Under a name that no reader looks for, and that was free."""
    for attempt in count(1):
        aside = path.with_name(f"{path.name}.damaged{f'-{attempt}' if attempt > 1 else ''}")
        if not os.path.lexists(aside):
            break
    with writing(path):
        os.rename(path, aside)
        sync_folder(path.parent)
