"""A run's folder has one writer; a set-up that fails leaves nothing behind."""

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from test_files import OBSTACLES, content_of, leave_temporary

from prudent.files import CannotWrite, write_atomically
from prudent.runs.lock import FolderInUse, check_free, new_run_folder, only_writer


@pytest.mark.parametrize("kind", OBSTACLES)
def test_a_lock_is_a_regular_file(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    OBSTACLES[kind](Path(".lock"))
    before = content_of(tmp_path)
    with pytest.raises(CannotWrite, match=f"lock cannot be written: it is {kind}"):
        only_writer(Path()).__enter__()
    assert content_of(tmp_path) == before


def test_a_lock_keeps_what_another_name_of_it_holds(tmp_path):
    (tmp_path / "victim").write_bytes(b"precious")
    os.link(tmp_path / "victim", tmp_path / ".lock")
    with only_writer(tmp_path):
        pass
    assert (tmp_path / "victim").read_bytes() == b"precious"


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_new_run_gets_its_folder(tmp_path):
    with new_run_folder(tmp_path / "a" / "b") as folder:
        assert folder == tmp_path / "a" / "b"
        write_atomically(folder / "run.json", b"{}")
    assert everything(tmp_path) == ["a", "a/b", "a/b/.lock", "a/b/run.json"]
    with pytest.raises(ValueError, match="b holds a run already: go on with `prudent resume "):
        new_run_folder(tmp_path / "a" / "b").__enter__()
    assert everything(tmp_path) == ["a", "a/b", "a/b/.lock", "a/b/run.json"]


def set_up_and_fail(folder, work):
    with pytest.raises(KeyError), new_run_folder(folder) as made:
        raise KeyError(work(made))


def test_a_set_up_that_fails_leaves_nothing(tmp_path):
    (tmp_path / "here").mkdir()
    for folder in ("here", "new/deeper"):
        set_up_and_fail(tmp_path / folder, leave_temporary)
    assert everything(tmp_path) == ["here"]


def test_a_set_up_that_fails_after_run_json_leaves_the_run(tmp_path):
    set_up_and_fail(tmp_path / "run", lambda made: write_atomically(made / "run.json", b"{}"))
    assert everything(tmp_path) == ["run", "run/.lock", "run/run.json"]


def test_a_folder_with_other_things_is_refused_and_left(tmp_path):
    for name in ("d", "b", "c", "a", "e"):
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=r"is not empty \(a, b, c and 2 more\); choose another"):
        new_run_folder(tmp_path).__enter__()
    assert everything(tmp_path) == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("name", [".lock", ".prudent-0123456789abcdef.tmp"])
def test_what_only_looks_like_a_leftover_is_not_taken_for_one(name, tmp_path):
    (tmp_path / name).mkdir() if name != ".lock" else (tmp_path / name).write_text("theirs")
    with pytest.raises(ValueError, match=r"is not empty \(\.\w+"):
        new_run_folder(tmp_path).__enter__()
    assert everything(tmp_path) == [name]


def test_leftovers_of_a_failed_set_up_are_no_obstacle(tmp_path):
    (tmp_path / ".lock").touch()
    leave_temporary(tmp_path)
    with new_run_folder(tmp_path):
        write_atomically(tmp_path / "run.json", b"{}")
    assert everything(tmp_path) == [".lock", "run.json"]


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("nowhere")])
def test_what_is_no_folder_is_refused(make, tmp_path):
    make(tmp_path / "run")
    for path in (tmp_path / "run", tmp_path / "run" / "inside"):
        with pytest.raises(CannotWrite, match=r"written: (File exists|Not a directory)"):
            new_run_folder(path).__enter__()
    assert everything(tmp_path) == ["run"]
    with pytest.raises(CannotWrite, match="File name too long"):
        new_run_folder(tmp_path / "above" / ("x" * 300)).__enter__()
    assert everything(tmp_path) == ["run"]


def test_whoever_begins_a_run_holds_its_folder_alone(tmp_path):
    with new_run_folder(tmp_path):
        for other in (only_writer, new_run_folder):
            with pytest.raises(FolderInUse, match=str(tmp_path)):
                other(tmp_path).__enter__()
        refused = []

        def elsewhere():
            try:
                only_writer(tmp_path).__enter__()
            except FolderInUse as error:
                refused.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert refused
    with only_writer(tmp_path):
        pass


def test_a_folder_is_free_until_a_run_is_in_it(tmp_path):
    check_free(tmp_path / "missing")
    (tmp_path / ".lock").touch()
    leave_temporary(tmp_path)
    check_free(tmp_path)
    (tmp_path / "run.json").touch()
    with pytest.raises(ValueError, match=str(tmp_path)):
        check_free(tmp_path)
    assert len(everything(tmp_path)) == 3


def test_a_lock_that_its_last_holder_removed_is_no_lock(tmp_path, monkeypatch):
    path, flock, calls = tmp_path / ".lock", fcntl.flock, []
    path.touch()

    def removed_meanwhile(descriptor, operation):
        flock(descriptor, operation)
        calls.append(descriptor)
        if len(calls) == 1:
            path.unlink()

    monkeypatch.setattr(fcntl, "flock", removed_meanwhile)
    with only_writer(tmp_path):
        assert len(calls) == 2
        with pytest.raises(FolderInUse):
            only_writer(tmp_path).__enter__()


HOLDER = """
import sys
from pathlib import Path
from prudent.files import write_atomically
from prudent.runs.lock import new_run_folder
with new_run_folder(Path(sys.argv[1])) as folder:
    print("held", flush=True)
    sys.stdin.readline()
    write_atomically(folder / "run.json", b"mine")
    print("trains", flush=True)
    sys.stdin.readline()
"""


def test_the_second_of_two_processes_changes_nothing(tmp_path):
    folder = tmp_path / "runs" / "one"
    words = [sys.executable, "-c", HOLDER, str(folder)]
    first = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        for state, files in (("held\n", {}), ("trains\n", {"run.json": b"mine"})):
            assert first.stdout.readline() == state
            second = subprocess.run(words, input="\n\n", capture_output=True, text=True)
            assert "FolderInUse" in second.stderr
            assert "another process is writing into this folder" in second.stderr
            assert content_of(folder) == {".lock": b"", **files}
            first.stdin.write("\n")
            first.stdin.flush()
        assert first.wait(timeout=30) == 0
    finally:
        first.kill()
        first.communicate()
    second = subprocess.run(words, input="\n\n", capture_output=True, text=True)
    assert "holds a run already" in second.stderr


RACER = """
import sys
from pathlib import Path
from prudent.runs.lock import FolderInUse, new_run_folder
inside = Path(sys.argv[2])
won = 0
while won < 100:
    try:
        with new_run_folder(Path(sys.argv[1])):
            inside.mkdir()  # fails if the other process is here too
            inside.rmdir()
            won += 1
    except FolderInUse:
        pass
"""


def test_two_set_ups_that_come_and_go_are_never_both_inside(tmp_path):
    words = [sys.executable, "-c", RACER, str(tmp_path / "a" / "run"), str(tmp_path / "inside")]
    racers = [subprocess.Popen(words) for _ in range(2)]
    for racer in racers:
        assert racer.wait(timeout=120) == 0
    # Of two that leave at the same moment, one may find the other's folder in use: it is empty.
    assert set(everything(tmp_path)) <= {"a", "a/run", "a/run/.lock"}
