"""Checkpoints: what is damaged is passed over, what is left is used, what is lost is said."""

import errno
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save
from support import small_run, train_quietly

from prudent.files import CannotWrite, checksum, to_json
from prudent.runs.checkpoint import (
    Checkpoint,
    DamagedCheckpoint,
    load_newest,
    save_checkpoint,
)
from prudent.runs.folder import write_run
from prudent.runs.manifest import RunIdentity
from prudent.runs.snapshot import save_snapshot
from prudent.tasks import TASKS
from prudent.tasks.adapter import Outcome
from prudent.training.replay import Discounts, Replay

RUN = RunIdentity("12345678-seed-0")
CAPACITY = 50


def add(replay: Replay, rows: int) -> None:
    """Rows that say which they are: the number of the row ever added is its reward."""
    for _ in range(rows):
        number = add.number = getattr(add, "number", -1) + 1
        outcome = Outcome(np.full(2, number + 1), number, 0.0, False, False, 1.0, 1.0, {})
        replay.add(np.full(2, number), np.zeros(1), outcome)


REWARD = 3  # its column: after two numbers of observation and one of action


def write(folder: Path, step: int, replay: Replay | None, run=RUN) -> None:
    facts = {"step": step, "progress_bytes": 0}
    checkpoint = Checkpoint({"state/x": np.full(3, float(step))}, facts)
    save_checkpoint(folder, run, step, checkpoint, replay)


@pytest.fixture
def run(tmp_path):
    """Checkpoints at 10, 20, ... 70, so that the replay of 50 has lost its oldest rows."""
    add.number = -1
    replay = Replay(CAPACITY, 2, 1)
    for step in range(10, 71, 10):
        add(replay, 10)
        write(tmp_path, step, replay)
    return tmp_path


def read(folder: Path, run=RUN, **more):
    said: list[str] = []
    return load_newest(folder, run, said.append, **more), said


def placed(found) -> Replay:
    replay = Replay(CAPACITY, 2, 1)
    replay.rows[:] = np.nan  # a hole would be seen
    replay.restore(found)
    return replay


def numbers(replay: Replay) -> list[int]:
    """Of the rows held, oldest first."""
    return replay.read(replay.first, replay.added)[:, REWARD].astype(int).tolist()


def newest(folder: Path) -> Path:
    return folder / "checkpoints" / "step-000000070.json"


def segment(folder: Path, start: int) -> Path:
    return folder / "replay" / f"rows-{start:09d}-{start + 10:09d}.safetensors"


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def signed(fields: dict) -> str:
    """A manifest whose checksum is right, whatever it says."""
    fields.pop("checksum", None)
    return to_json({**fields, "checksum": checksum(to_json(fields).encode())})


def change(path: Path, change) -> None:
    fields = json.loads(path.read_text())
    path.write_text(signed(change(fields) or fields))


def without(*names):
    return lambda fields: {name: value for name, value in fields.items() if name not in names}


def in_segment(**values):
    return lambda fields: fields["segments"][-1].update(values)


def lead_elsewhere(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").touch()


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def enlarge(path: Path) -> None:
    os.truncate(path, 2**40)  # takes no space, and would not fit into memory


def replaced(text: str):
    return lambda path: path.write_text(text)


def altered(**values):
    return lambda path: change(path, lambda fields: fields.update(values))


NO_MANIFEST = "is no manifest of ours"
MANIFESTS = {
    "folder": (as_folder, "cannot be read: it is a folder"),
    "pipe": (as_pipe, "cannot be read: it is a pipe"),
    "link": (lead_elsewhere, "cannot be read: it is a symbolic link"),
    "huge": (enlarge, "bytes, more than the"),
    "deep": (replaced("[" * 100_000 + "]" * 100_000), "no manifest of ours"),
    "deep inside": (replaced('{"checksum": "", "x": ' + "[" * 100_000), "no manifest of ours"),
    "NaN": (replaced('{"checksum": "", "x": NaN}'), "no manifest of ours"),
    "infinity": (replaced('{"checksum": "", "x": 1e999}'), "no manifest of ours"),
    "long number": (replaced('{"checksum": "", "x": ' + "1" * 5000), "no manifest of ours"),
    "list": (replaced("[1]"), "no manifest of ours"),
    "bytes": (lambda path: path.write_bytes(b"\xff\x00"), "no manifest of ours"),
    "nothing in it": (replaced(signed({})), NO_MANIFEST),
    "segments no list": (altered(segments={}), NO_MANIFEST),
    "segments of text": (altered(segments=["rows"]), NO_MANIFEST),
    "segments missing": (lambda p: change(p, without("segments")), NO_MANIFEST),
    "segments too few": (
        lambda p: change(p, lambda f: f["segments"].pop(1) and None),
        "its segments do not hold the rows from 20 to 70",
    ),
    "segment without name": (
        lambda p: change(p, lambda f: f["segments"][0].pop("name") and None),
        r"no 'name'",
    ),
    "segment elsewhere": (
        lambda p: change(p, in_segment(name="../checkpoints/step-000000060.safetensors")),
        "a segment is named '../check",
    ),
    "segment backwards": (lambda p: change(p, in_segment(start=70)), NO_MANIFEST),
    "segment's start a text": (lambda p: change(p, in_segment(start="60")), "start is '60'"),
    "segment's checksum a number": (lambda p: change(p, in_segment(checksum=1)), "checksum is 1"),
    "step a text": (altered(step="70"), "step is '70'"),
    "step a truth": (altered(step=True), "step is True"),
    "step another": (altered(step=71), "it is the checkpoint of step 71, renamed"),
    "added negative": (altered(added=-1), "added is -1"),
    "facts missing": (lambda p: change(p, without("facts")), "no 'facts'"),
    "facts no object": (altered(facts=[]), r"facts is \[\]"),
    "facts of other kinds": (altered(facts={"step": "70"}), "step is '70'"),
    "format": (altered(format=2), "format 2, known is 1"),
    "run a number": (altered(run=5), "run is 5"),
    "arrays a number": (altered(arrays=5), "arrays is 5"),
}


def assert_the_one_before_is_used(folder: Path, message: str) -> None:
    found, said = read(folder)
    assert found.facts["step"] == 60
    assert found.arrays["state/x"].tolist() == [60.0] * 3
    assert not found.lost
    assert numbers(placed(found)) == list(range(10, 60))
    assert len(said) == 1
    assert said[0].startswith("checkpoint step-000000070 is not used: ")
    assert len(said[0]) < 300
    assert re.search(message, said[0])


@pytest.mark.parametrize("name", MANIFESTS)
def test_whatever_a_manifest_is_the_one_before_is_used(name, run):
    damage, message = MANIFESTS[name]
    damage(newest(run))
    assert_the_one_before_is_used(run, message)


ARRAYS = {
    "missing": (Path.unlink, "is missing"),
    "folder": (as_folder, "cannot be read: it is a folder"),
    "pipe": (as_pipe, "cannot be read: it is a pipe"),
    "link": (lead_elsewhere, "cannot be read: it is a symbolic link"),
    "huge": (enlarge, "bytes, more than the"),
    "flipped": (flip, "was cut short or altered"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_whatever_the_arrays_are_the_one_before_is_used(name, run):
    damage, message = ARRAYS[name]
    damage(newest(run).with_suffix(".safetensors"))
    assert_the_one_before_is_used(run, message)


@pytest.mark.parametrize("name", ARRAYS)
def test_whatever_the_last_segment_is_the_one_before_is_used(name, run):
    damage, message = ARRAYS[name]
    damage(segment(run, 60))
    assert_the_one_before_is_used(run, message)


@pytest.mark.parametrize("content", [b"no arrays", save({"other": np.zeros(3)})])
def test_whole_files_with_other_contents_are_damage_too(content, run):
    segment(run, 60).write_bytes(content)
    change(newest(run), in_segment(checksum=checksum(content), bytes=len(content)))
    assert_the_one_before_is_used(run, "safetensors (is no safetensors file|does not hold its)")


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
def test_a_file_that_may_not_be_read_is_not_used(suffix, run, monkeypatch):
    secret, real = newest(run).with_suffix(suffix), os.open

    def careful(path, *rest, **more):
        if Path(path) == secret:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", careful)
    assert_the_one_before_is_used(run, f"step-000000070{suffix} cannot be read: Permission denied")


def test_damaged_ones_are_set_aside_only_to_go_on(run):
    newest(run).write_text("{}")
    found, _ = read(run, with_replay=False)  # as evaluating a policy does
    assert found.facts["step"] == 60
    assert newest(run).exists()
    read(run)
    aside = newest(run).with_suffix(".json.damaged")
    assert aside.read_text() == "{}"
    assert not newest(run).exists()
    as_folder_again = newest(run)
    as_folder_again.mkdir()
    read(run)
    assert aside.read_text() == "{}"
    assert aside.with_name(aside.name + "-2").is_dir()


def test_what_is_no_checkpoint_of_ours_is_neither_read_nor_dropped(run):
    odd = [
        run / "checkpoints" / name
        for name in ("step-zzz.json", "step-1.json", "step-00000000000000000099.json")
    ]
    for path in odd:
        path.touch()
    (run / "checkpoints" / "step-000000005.json").mkdir()
    found, said = read(run)
    replay = placed(found)
    assert not said
    add(replay, 10)
    write(run, 80, replay)
    steps = {path.stem for path in (run / "checkpoints").glob("step-*.safetensors")}
    assert steps == {"step-000000070", "step-000000080"}
    assert all(path.exists() for path in odd)


def test_steps_are_ordered_by_number(tmp_path):
    for step in (999_999_999, 1_000_000_000, 1_000_000_001):
        write(tmp_path, step, None)
    assert read(tmp_path)[0].facts["step"] == 1_000_000_001
    assert not (tmp_path / "checkpoints" / "step-999999999.json").exists()


def test_a_damaged_segment_of_both_costs_its_rows_and_no_more(run):
    flip(segment(run, 40))
    found, said = read(run)
    assert found.facts["step"] == 70
    assert found.lost == [(40, 50)]
    assert [line.split(": ")[0] for line in said] == [
        "checkpoint step-000000070 is not used",
        "checkpoint step-000000060 is not used",
        "resume is inexact",
    ]
    assert said[-1] == (
        "resume is inexact: rows 40..50 of the replay are lost, 10 of 50. "
        "Going on from step-000000070 with the others."
    )
    replay = placed(found)
    assert replay.size == 40
    assert numbers(replay) == [*range(20, 40), *range(50, 70)]


def test_a_hole_is_never_drawn_from(run):
    for start in (20, 50):
        flip(segment(run, start))
    replay = placed(read(run)[0])
    expected = {*range(30, 50), *range(60, 70)}
    for _ in range(30):
        drawn = replay.draw(np.random.default_rng(0), 1000, 5)
        rows = replay.rows[drawn][..., REWARD]
        assert set(rows.ravel().tolist()) == expected
        assert {*numbers(replay)} == expected
        if replay.size == CAPACITY:
            break
        expected |= {add.number + 1}
        add(replay, 1)
    assert replay.size == CAPACITY
    # Rows on the two sides of a hole are no successors of each other.
    (place,) = np.flatnonzero(replay.rows[:, REWARD] == 49)
    ahead = replay.look_ahead(np.array([place]), 2, Discounts(1.0, 1.0))
    assert ahead[0, REWARD] == 49


def test_after_a_loss_the_run_is_saved_and_read_as_any_other(run):
    flip(segment(run, 40))
    replay = placed(read(run)[0])
    for step in range(80, 131, 10):
        add(replay, 10)
        write(run, step, replay)
        found, said = read(run)
        assert not said
        assert not found.lost
        again = placed(found)
        assert (again.added, again.first) == (replay.added, replay.first)
        assert numbers(again) == numbers(replay)
        drawn = [r.rows[r.draw(np.random.default_rng(1), 9, 5)] for r in (replay, again)]
        np.testing.assert_array_equal(*drawn)
    assert numbers(replay) == list(range(80, 130))
    assert len(list((run / "replay").iterdir())) <= 7  # nothing is left of the old ones


def test_killed_right_after_a_loss_the_same_is_found_again(run):
    flip(segment(run, 40))
    newest(run).with_suffix(".safetensors").unlink()
    first, _ = read(run)
    assert first.facts["step"] == 60
    second, _ = read(run)
    assert (second.facts, second.lost) == (first.facts, [(40, 50)])


def test_neighbouring_losses_are_one(run):
    for path in (run / "replay").iterdir():
        path.unlink()
    (run / "replay").rmdir()
    found, said = read(run)
    assert found.lost == [(20, 70)]
    assert "rows 20..70 of the replay are lost, 50 of 50" in said[-1]
    replay = placed(found)
    assert replay.size == 0
    add(replay, 3)
    assert numbers(replay) == [70, 71, 72]


def test_any_flipped_bit_leaves_a_run_to_go_on_with(run, tmp_path_factory):
    files = [path.relative_to(run) for path in sorted(run.rglob("*.*"))]
    assert len(files) == 2 * 2 + 6
    lost = 0
    for name in files:
        copy = Path(shutil.copytree(run, tmp_path_factory.mktemp("flipped") / "run"))
        flip(copy / name)
        found, said = read(copy)
        assert found.facts["step"] in (60, 70)
        of_the_older_only = name.name.startswith(("step-000000060", "rows-000000010"))
        assert bool(said) != of_the_older_only
        lost += len(found.lost)
    assert lost == 4  # segments that both need


def test_rows_of_another_width_are_refused(run):
    found, _ = read(run)
    with pytest.raises(DamagedCheckpoint, match="rows have 9 numbers, not the 11 of this run's"):
        Replay(CAPACITY, 3, 1).restore(found)


@pytest.mark.parametrize("name", ["checkpoints", "replay"])
def test_folders_of_a_run_are_not_links(name, run):
    lead_elsewhere(run / name)
    before = {path: path.read_bytes() for path in run.rglob("*.*") if path.is_file()}
    with pytest.raises(DamagedCheckpoint, match=f"{name} cannot be read: it is a symbolic link"):
        read(run)
    add.number = -1
    replay = Replay(CAPACITY, 2, 1)
    add(replay, 90)
    with pytest.raises(CannotWrite, match=f"{name} cannot be written: it is a symbolic link"):
        write(run, 90, replay)
    assert {path: path.read_bytes() for path in run.rglob("*.*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["snapshots", "snapshots/step-000000001.safetensors"])
def test_snapshots_follow_no_links(name, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    path = tmp_path / "run" / name
    path.parent.mkdir(parents=True)
    path.symlink_to(tmp_path / "elsewhere")
    folder = write_run(tmp_path / "run", small_run(TASKS["orbit"]), {})
    with pytest.raises(CannotWrite, match=f"{name} cannot be written: it is a symbolic link"):
        save_snapshot(folder, 1, {"x": np.zeros(3)})
    assert not list((tmp_path / "elsewhere").iterdir())


def test_what_run_json_says_is_covered(tmp_path):
    run = RUN._replace(checksums={"spec": "a", "settings": "b"})
    write(tmp_path, 1, None, run)
    assert read(tmp_path, run)[0]
    assert json.loads((tmp_path / "checkpoints/step-000000001.json").read_text())["spec"] == "a"
    for other in ({"spec": "c", "settings": "b"}, {"settings": "b"}):
        with pytest.raises(DamagedCheckpoint, match=r"run\.json was altered since \(its spec\)"):
            read(tmp_path, RUN._replace(checksums=other))
    with pytest.raises(DamagedCheckpoint, match=r"run\.json was altered since \(its settings\)"):
        read(tmp_path, RUN._replace(checksums={"spec": "a", "settings": "c"}))


def test_checkpoints_from_before_a_run_was_prolonged_are_its_own(tmp_path):
    shorter = RunIdentity("87654321-seed-0", {"settings": "short"})
    write(tmp_path, 1, None, shorter)
    with pytest.raises(DamagedCheckpoint, match=shorter.run_id):
        read(tmp_path)
    longer = RunIdentity(RUN.run_id, {"settings": "long"}, {shorter.run_id: shorter.checksums})
    assert read(tmp_path, longer)[0].facts["step"] == 1
    other = longer._replace(earlier={shorter.run_id: {"settings": "other"}})
    with pytest.raises(DamagedCheckpoint, match="settings"):
        read(tmp_path, other)


def test_checkpoints_of_older_versions_are_read(run):
    for path in (run / "checkpoints").glob("*.json"):
        change(path, lambda f: [entry.pop("bytes") for entry in f["segments"]] and None)
        change(path, without("first", "bytes", "spec", "settings"))
    found, said = read(run, RUN._replace(checksums={"spec": "a", "settings": "b"}))
    assert not said
    assert numbers(placed(found)) == list(range(20, 70))


class Calls:
    """What reaches the disk, in order; one of the calls may fail."""

    def __init__(self, monkeypatch, fails_at: int | None = None) -> None:
        self.made: list[str] = []
        self._fails_at = fails_at
        fsync, replace, write = os.fsync, os.replace, os.write
        monkeypatch.setattr(os, "fsync", lambda d: self._call("sync", where(d), fsync, d))
        monkeypatch.setattr(os, "replace", lambda a, b: self._call("name", b, replace, a, b))
        monkeypatch.setattr(os, "write", lambda d, c: self._call("write", where(d), write, d, c))

    def _call(self, what, path, real, *arguments):
        name = "temporary" if Path(path).suffix == ".tmp" else Path(path).name
        self.made.append(f"{what} {name}")
        if len(self.made) - 1 == self._fails_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments)


def where(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")


def written(name: str, folder: str) -> list[str]:
    return ["write temporary", "sync temporary", f"name {name}", f"sync {folder}"]


def test_what_a_checkpoint_builds_on_is_on_disk_before_it(tmp_path, monkeypatch):
    calls = Calls(monkeypatch)
    task = TASKS["orbit"]
    train_quietly(small_run(task, steps=20, snapshot_every=1000), task, tmp_path)
    last = len(calls.made) - calls.made[::-1].index("sync progress.jsonl") - 1
    assert calls.made[last:] == [
        "sync progress.jsonl",
        "sync episodes.jsonl",
        *written("rows-000000050-000000060.safetensors", "replay"),
        *written("step-000000060.safetensors", "checkpoints"),
        *written("step-000000060.json", "checkpoints"),
    ]
    # New names last as well: of the record, of both files of lines, and of the folders.
    folder = f"sync {tmp_path.name}"
    assert calls.made[:6] == [*written("run.json", tmp_path.name), folder, folder]
    assert calls.made.count(folder) == 6


def test_a_disk_that_fills_at_any_moment_leaves_a_whole_checkpoint(run, monkeypatch):
    with monkeypatch.context() as patch:
        calls = Calls(patch)
        replay = placed(read(run)[0])
        add(replay, 10)
        write(run, 80, replay)
    assert len(calls.made) == 12
    for moment in range(len(calls.made)):
        for path in (run / "checkpoints").glob("step-000000080.*"):
            path.unlink()
        segment(run, 70).unlink(missing_ok=True)
        with monkeypatch.context() as patch:
            Calls(patch, fails_at=moment)
            with pytest.raises(CannotWrite, match="cannot be written: No space left on device"):
                write(run, 80, replay)
        found, said = read(run)
        assert not said
        assert not found.lost
        assert found.facts["step"] == (80 if moment == len(calls.made) - 1 else 70)
        assert not list(run.rglob("*.tmp"))
