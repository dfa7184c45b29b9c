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
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

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
    manifest_bytes,
    manifests_in,
    read_arrays,
    read_manifest,
    read_rows,
    segment_name,
)
from prudent.runs.manifest import DamagedCheckpoint as DamagedCheckpoint
from prudent.training.replay import Replay

KEPT = 2
OPTIMISER = "/optimiser/"  # in the names of leaves that snapshots leave out


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
    step: int,
    checkpoint: Checkpoint,
    replay: Replay | None,
    mark: str,
    parts_of_run: Mapping[str, str] | None = None,
) -> None:
    """Write a checkpoint and the replay rows it adds, then drop what no kept one needs.

    `parts_of_run` are checksums, from `record.run_checksums`.
    """
    checkpoints, segments_folder = folder / "checkpoints", folder / "replay"
    make_folder(checkpoints)
    segments = save_rows(checkpoints, segments_folder, replay) if replay else []
    path = checkpoints / f"step-{step:09d}"
    content = save({name: np.asarray(a, order="C") for name, a in checkpoint.arrays.items()})
    write_atomically(path.with_suffix(".safetensors"), content)
    manifest = Manifest(
        run=mark,
        step=step,
        arrays=Content(checksum(content), len(content)),
        added=replay.added if replay else 0,
        first=replay.first if replay else 0,
        segments=segments,
        facts=checkpoint.facts,
        parts_of_run=dict(parts_of_run or {}),
    )
    write_atomically(path.with_suffix(".json"), manifest_bytes(manifest))
    drop_old(checkpoints, segments_folder)


def save_rows(checkpoints: Path, folder: Path, replay: Replay) -> list[Entry]:
    """The segments that together hold the replay, after writing the rows added since."""
    make_folder(folder)
    # Segments beyond this point were written by a run that was killed and has since resumed.
    segments = [
        entry for entry in newest_segments(checkpoints) if replay.first < entry.stop <= replay.added
    ]
    start = max([replay.first, *(entry.stop for entry in segments)])
    if start < replay.added:
        segments.append(write_segment(folder, replay, start))
    return segments


def write_segment(folder: Path, replay: Replay, start: int) -> Entry:
    content = save({"rows": replay.read(start, replay.added)})
    write_atomically(folder / segment_name(start, replay.added), content)
    return Entry(start, replay.added, Content(checksum(content), len(content)))


def newest_segments(checkpoints: Path) -> list[Entry]:
    for path in reversed(manifests_in(checkpoints)):
        try:
            return read_manifest(path).segments
        except DamagedCheckpoint:
            continue
    return []


def drop_old(checkpoints: Path, segments_folder: Path) -> None:
    manifests = manifests_in(checkpoints)
    kept = manifests[-KEPT:]
    steps = {path.stem for path in kept}
    remove_files(manifests[:-KEPT])
    remove_files(p for p in checkpoints.glob("step-*.safetensors") if p.stem not in steps)
    try:
        needed = {entry.name for path in kept for entry in read_manifest(path).segments}
    except DamagedCheckpoint:
        return  # cannot know what it needs
    remove_files(p for p in segments_folder.glob("rows-*.safetensors") if p.name not in needed)


def remove_files(paths: Iterable[Path]) -> None:
    """Regular files only: what else stands there is not ours."""
    for path in paths:
        if path.is_file() and not path.is_symlink():
            with writing(path):
                path.unlink()


class Expected(NamedTuple):
    """What a checkpoint of this run says of itself."""

    mark: str
    parts_of_run: Mapping[str, str] | None  # None where nobody asks
    # The same by mark, of checkpoints from before the run was prolonged.
    earlier: Mapping[str, Mapping[str, str]]


def load_newest(
    folder: Path,
    mark: str,
    say: Callable[[str], None],
    *,
    with_replay: bool = True,
    parts_of_run: Mapping[str, str] | None = None,
    earlier: Mapping[str, Mapping[str, str]] | None = None,
) -> Found | None:
    """The newest whole checkpoint of the run with this mark; None where it has none yet.

    `parts_of_run` and `earlier` are of `record.run_checksums` and `record.earlier_checksums`.

    Damaged ones are named and passed over. If none is whole, the newest that lacks nothing but
    rows of the replay is used without them. If there is none of those either, that is an error.
    """
    manifests = manifests_in(folder / "checkpoints")[::-1]
    segments = replay_folder(folder) if with_replay else None
    expected = Expected(mark, parts_of_run, earlier or {})
    complaints = []
    attempts = [(path, False) for path in manifests]
    if with_replay:
        attempts += [(path, True) for path in manifests]
    for path, without_lost_rows in attempts:
        try:
            found = read_checkpoint(path, expected, segments, without_lost_rows)
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
    path: Path, expected: Expected, segments: Path | None, without_lost_rows: bool
) -> Found:
    manifest = read_manifest(path)
    if manifest.run != expected.mark and manifest.run not in expected.earlier:
        raise DamagedCheckpoint(
            f"it is of another run ({manifest.run}, this one is {expected.mark})"
        )
    if path.stem != f"step-{manifest.step:09d}":
        raise DamagedCheckpoint(f"it is the checkpoint of step {manifest.step}, renamed")
    parts = expected.earlier.get(manifest.run, expected.parts_of_run)
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


def place_rows(replay: Replay, found: Found) -> None:
    """Fill the replay with the rows that the checkpoint has.

    Where some are lost the others close up, so that no hole is ever drawn from. They are counted on
    from the newest that ever was, so that no segment on disk is mistaken for one of theirs.
    """
    first = max(found.first, found.added - replay.capacity)
    for segment in found.segments:
        if segment.rows.shape[1:] != replay.rows.shape[1:]:
            raise DamagedCheckpoint(
                f"the replay's rows have {segment.rows.shape[1]} numbers, not the "
                f"{replay.rows.shape[1]} of this run's environment"
            )
    replay.origin, replay.added = (found.added,) * 2 if found.lost else (first, first)
    for segment in found.segments:
        rows = segment.rows[max(0, first - segment.start) :]
        replay.write(replay.added, rows)
        replay.added += len(rows)
