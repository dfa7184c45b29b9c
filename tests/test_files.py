"""Files are whole or not there, whatever stands in their place and whatever the disk says."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from prudent.files import CannotWrite, create_temporary, make_folder, read_regular, write_atomically
from prudent.policies.exported import write_exported
from prudent.runs.lines import Lines
from prudent.runs.lock import only_writer


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
