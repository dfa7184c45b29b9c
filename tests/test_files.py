"""Files are whole or not there, whatever stands in their place and whatever the disk says."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from prudent.runs.record import run_checksums

from prudent.files import CannotWrite, create_temporary, make_folder, read_regular, write_atomically
from prudent.policies.exported import write_exported
from prudent.runs.lines import Lines
from prudent.runs.lock import FolderInUse, new_run_folder, only_writer


def content_of(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


def link(path: Path) -> Path:
    victim = path.with_name("victim")
    victim.write_bytes(b"precious")
    path.symlink_to(victim)
    return victim


def socket_at(path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(path))


OBSTACLES = {
    "a symbolic link": link,
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a socket": socket_at,
}
WRITERS = {
    "write_atomically": lambda path: write_atomically(path, b"new"),
    "Lines": lambda path: Lines(path, 0),
    "export": lambda path: write_exported(path, {}, {}, None),
}


@pytest.mark.parametrize("kind", OBSTACLES)
@pytest.mark.parametrize("writer", WRITERS)
def test_only_regular_files_are_written(kind, writer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    path = Path("file")
    OBSTACLES[kind](path)
    before = content_of(tmp_path)
    with pytest.raises(CannotWrite, match=f"^file cannot be written: it is {kind}, where only"):
        WRITERS[writer](path)
    assert content_of(tmp_path) == before


@pytest.mark.parametrize("kind", OBSTACLES)
def test_a_lock_is_a_regular_file(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    OBSTACLES[kind](Path(".lock"))
    before = content_of(tmp_path)
    with pytest.raises(CannotWrite, match=f"lock cannot be written: it is {kind}"):
        only_writer(Path()).__enter__()
    assert content_of(tmp_path) == before


def test_a_device_is_not_replaced():
    with pytest.raises(CannotWrite, match="/dev/null cannot be written: it is a device"):
        write_atomically(Path("/dev/null"), b"new")
    assert Path("/dev/null").is_char_device()


def test_a_link_that_leads_nowhere_is_not_followed(tmp_path):
    path = tmp_path / "file"
    path.symlink_to(tmp_path / "elsewhere")
    for write in WRITERS.values():
        with pytest.raises(CannotWrite, match="it is a symbolic link"):
            write(path)
    assert not (tmp_path / "elsewhere").exists()


def test_a_lock_keeps_what_another_name_of_it_holds(tmp_path):
    (tmp_path / "victim").write_bytes(b"precious")
    os.link(tmp_path / "victim", tmp_path / ".lock")
    with only_writer(tmp_path):
        pass
    assert (tmp_path / "victim").read_bytes() == b"precious"


def test_the_temporary_name_cannot_be_prepared(tmp_path, monkeypatch):
    victim = link(tmp_path / "file.tmp")  # the name it had once
    seen = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (seen.append(Path(a).name), replace(a, b)))
    write_atomically(tmp_path / "file", b"one")
    write_atomically(tmp_path / "file", b"two")
    assert victim.read_bytes() == b"precious"
    assert len(set(seen)) == 2
    assert all(name.startswith(".prudent-") and len(name) == 29 for name in seen)


def test_folders_above_may_be_links_but_none_inside_a_run(tmp_path):
    (tmp_path / "big-disk").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "big-disk")
    write_atomically(tmp_path / "runs" / "file", b"new")
    assert (tmp_path / "big-disk" / "file").read_bytes() == b"new"
    with pytest.raises(CannotWrite, match="runs cannot be written: it is a symbolic link, not a"):
        make_folder(tmp_path / "runs")


def leave_temporary(folder: Path) -> Path:
    """What a killed writer leaves."""
    temporary = create_temporary(folder)
    os.close(temporary.descriptor)
    return temporary.path


def test_leftovers_of_a_crash_go_with_the_next_write(tmp_path):
    for _ in range(3):
        leave_temporary(tmp_path)
    (tmp_path / "mine.tmp").write_bytes(b"")
    write_atomically(tmp_path / "file", b"new")
    assert set(content_of(tmp_path)) == {"file", "mine.tmp"}


def test_what_another_process_is_writing_is_no_leftover(tmp_path):
    temporary = create_temporary(tmp_path)
    write_atomically(tmp_path / "file", b"new")
    assert temporary.path.exists()
    os.close(temporary.descriptor)


def test_many_writers_of_one_folder_do_not_disturb_each_other(tmp_path):
    failures = []

    def write_often(name):
        try:
            for i in range(50):
                write_atomically(tmp_path / name, b"%d" % i)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=write_often, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert content_of(tmp_path) == dict.fromkeys("abcd", b"49")


def full_disk(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def full_after_three_bytes():
    write = os.write
    left = [3]

    def some(descriptor, content):
        if not left[0]:
            full_disk()
        taken = write(descriptor, bytes(content)[: left[0]])
        left[0] -= taken
        return taken

    return some


@pytest.mark.parametrize("name", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(name, tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    monkeypatch.setattr(os, name, full_after_three_bytes() if name == "write" else full_disk)
    with pytest.raises(CannotWrite) as told:
        write_atomically(path, b"something new")
    assert str(told.value) == f"{path} cannot be written: No space left on device"
    assert content_of(tmp_path) == {"file": b"old"}


def test_short_writes_are_gone_on_with(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda d, content: write(d, bytes(content)[:2]))
    write_atomically(tmp_path / "file", b"seven b")
    lines = Lines(tmp_path / "lines", 0)
    lines.write({"x": 1})
    assert content_of(tmp_path) == {"file": b"seven b", "lines": b'{"x": 1}\n'}
    assert lines.sync() == 9
    lines.close()


def test_a_full_disk_leaves_no_half_line(tmp_path, monkeypatch):
    lines = Lines(tmp_path / "lines", 0)
    lines.write({"x": 1})
    monkeypatch.setattr(os, "write", full_after_three_bytes())
    with pytest.raises(CannotWrite, match="lines cannot be written: No space left on device"):
        lines.write({"x": 2})
    monkeypatch.undo()
    lines.write({"x": 3})
    lines.sync()
    lines.close()
    assert (tmp_path / "lines").read_text() == '{"x": 1}\n{"x": 3}\n'


LIMITED = """
import resource, sys
from pathlib import Path
from prudent.files import CannotWrite, write_atomically
from prudent.runs.lines import Lines
folder = Path(sys.argv[1])
lines = Lines(folder / "lines", 0)
lines.write({"x": 1})
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for write in (lambda: write_atomically(folder / "file", bytes(5000)),
              lambda: lines.write({"x": "y" * 5000})):
    try:
        write()
    except CannotWrite as error:
        print(error)
"""


def test_a_limit_on_file_sizes_is_met_in_the_same_way(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [
        f"{tmp_path / name} cannot be written: File too large" for name in ("file", "lines")
    ]
    assert content_of(tmp_path) == {"file": b"old", "lines": b'{"x": 1}\n'}


def refuse_to_create(monkeypatch):
    real = os.open

    def careful(path, flags, *rest, **more):
        if flags & os.O_CREAT:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", careful)


@pytest.mark.parametrize("write", [WRITERS["write_atomically"], WRITERS["Lines"]])
def test_paths_that_cannot_be_written_are_named(write, tmp_path, monkeypatch):
    for path, reason in (
        (tmp_path / ("x" * 300), "File name too long"),
        (tmp_path / "missing" / "file", "No such file or directory"),
    ):
        with pytest.raises(CannotWrite) as told:
            write(path)
        assert str(told.value) == f"{path} cannot be written: {reason}"
    refuse_to_create(monkeypatch)
    with pytest.raises(CannotWrite, match="file cannot be written: Permission denied"):
        write(tmp_path / "file")
    with pytest.raises(CannotWrite, match="lock cannot be written: Permission denied"):
        only_writer(tmp_path).__enter__()
    assert not content_of(tmp_path)


def test_the_longest_name_can_be_written(tmp_path):
    write_atomically(tmp_path / ("x" * 255), b"new")
    assert content_of(tmp_path) == {"x" * 255: b"new"}


def test_more_than_expected_is_not_read(tmp_path):
    with open(tmp_path / "file", "wb") as file:
        file.truncate(2**40)  # takes no space, and would not fit into memory
    with pytest.raises(OSError, match="it has 1099511627776 bytes, more than the 1000"):
        read_regular(tmp_path / "file", 1000)


def remove(path):
    path.unlink()


def replace_by_copy(path):
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)


def replace_by_link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def cut_short(path):
    os.truncate(path, 3)


def add_to(path):
    path.write_bytes(path.read_bytes() + b"{}\n")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (remove, "removed or replaced"),
        (replace_by_copy, "removed or replaced"),
        (replace_by_link, "removed or replaced"),
        (cut_short, "cut short or added to"),
        (add_to, "cut short or added to"),
    ],
)
def test_a_record_that_somebody_changes_is_noticed(change, what, tmp_path):
    lines = Lines(tmp_path / "progress.jsonl", 0)
    lines.write({"x": 1})
    assert lines.sync() == 9
    change(tmp_path / "progress.jsonl")
    with pytest.raises(CannotWrite, match=f"jsonl was {what} while the run writes it; put back"):
        lines.sync()
    lines.close()


def test_other_names_of_a_record_keep_what_they_had(tmp_path):
    path = tmp_path / "progress.jsonl"
    path.write_bytes(b'{"x": 1}\n{"x": 2}\n')
    os.link(path, tmp_path / "backup")
    lines = Lines(path, 9)
    lines.write({"x": 3})
    lines.sync()
    lines.close()
    assert path.read_text() == '{"x": 1}\n{"x": 3}\n'
    assert (tmp_path / "backup").read_text() == '{"x": 1}\n{"x": 2}\n'


def test_what_is_noted_stands_in_the_next_line_only(tmp_path):
    lines = Lines(tmp_path / "lines", 0)
    lines.noted["lost"] = [[1, 2]]
    lines.write({"x": 1})
    lines.write({"x": 2})
    lines.close()
    assert (tmp_path / "lines").read_text() == '{"x": 1, "lost": [[1, 2]]}\n{"x": 2}\n'


def test_checksums_of_a_run_see_meaning_and_not_layout(tmp_path):
    path = tmp_path / "run.json"
    assert run_checksums(tmp_path) == {}
    path.write_text('{"run": {"seed": 1, "preset": "a", "task": "t"}, "spec": {"scale": [1.0]}}')
    before = run_checksums(tmp_path)
    path.write_text(
        '{"spec": {"scale":\n [1.0]}, "run": {"task": "t", "seed": 1, "preset": "b"}, "more": 1}'
    )
    assert run_checksums(tmp_path) == before
    path.write_text('{"run": {"seed": 1, "preset": "a", "task": "t"}, "spec": {"scale": [2.0]}}')
    after = run_checksums(tmp_path)
    assert after["settings"] == before["settings"]
    assert after["spec"] != before["spec"]
    for wrong in ("[]", "{}", "[" * 100_000, '{"run": 1}'):
        path.write_text(wrong)
        with pytest.raises(ValueError, match=r"run\.json is not a run record this version reads"):
            run_checksums(tmp_path)


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


def test_training_takes_the_lock_over_and_nobody_else_does(tmp_path):
    with new_run_folder(tmp_path):
        with only_writer(tmp_path):
            with pytest.raises(FolderInUse):
                only_writer(tmp_path).__enter__()
            with pytest.raises(FolderInUse):
                new_run_folder(tmp_path).__enter__()
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
from prudent.runs.lock import new_run_folder, only_writer
from prudent.files import write_atomically
with new_run_folder(Path(sys.argv[1])) as folder:
    print("held", flush=True)
    sys.stdin.readline()
    write_atomically(folder / "run.json", b"mine")
    with only_writer(folder):
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
