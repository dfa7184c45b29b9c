"""Files that are either whole or not there.

Only regular files are written and read: what stands behind a symbolic link, a device or a pipe is
somebody else's, and a run's folder may come from somebody else.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

TEMPORARY = re.compile(r"\.prudent-[0-9a-f]{16}\.tmp")
# Without O_NONBLOCK, opening a pipe that appears at the last moment would wait for its other end.
CAREFULLY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class CannotWrite(RuntimeError, OSError):
    """The operating system refused; what stands under that name is whole, or nothing does."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """An error of the operating system becomes one line that names the path."""
    try:
        yield
    except CannotWrite:
        raise
    except OSError as error:
        raise CannotWrite(f"{path} cannot be written: {error.strerror or error}") from error


def check_regular(mode: int) -> None:
    kind = KINDS.get(stat.S_IFMT(mode))
    if kind:
        raise OSError(errno.EINVAL, f"it is {kind}, where only a regular file will do")


def status_of(path: Path) -> os.stat_result | None:
    """What is known of a regular file; None where there is nothing, an OSError where it is none."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    check_regular(status.st_mode)
    return status


def open_regular(path: Path, flags: int) -> int:
    """A descriptor of that very file; nothing is followed."""
    status_of(path)  # before it is opened: with some devices that alone has effects
    descriptor = os.open(path, flags | CAREFULLY, 0o666)
    try:
        check_regular(os.fstat(descriptor).st_mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(path: Path, largest: int) -> bytes:
    """All of a regular file of at most that many bytes."""
    descriptor = open_regular(path, os.O_RDONLY)
    with open(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        if size > largest:
            raise OSError(errno.EFBIG, f"it has {size} bytes, more than the {largest} it may have")
        return file.read(size)


def write_all(descriptor: int, content: bytes) -> None:
    """The operating system may take less than it was given."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_folder(folder: Path) -> None:
    """Names in a folder last only once the folder itself was synced."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Temporary(NamedTuple):
    path: Path
    descriptor: int


def create_temporary(folder: Path) -> Temporary:
    """A new file under a name nobody can have prepared, locked as long as it is open."""
    while True:
        path = folder / f".prudent-{secrets.token_hex(8)}.tmp"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | CAREFULLY, 0o666)
        with suppress(OSError):  # where there are no locks, leftovers are left alone too
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return Temporary(path, descriptor)
        os.close(descriptor)  # somebody took it for a leftover before it was locked


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of writers that ended before they could."""
    for name in os.listdir(folder):
        if not TEMPORARY.fullmatch(name):
            continue
        with suppress(OSError):
            descriptor = open_regular(folder / name, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # else it is being written
                os.unlink(folder / name)
            finally:
                os.close(descriptor)


def write_atomically(path: Path, content: bytes) -> None:
    """After a crash the file holds the old content or the new, never a part."""
    with replacing(path) as descriptor:
        write_all(descriptor, content)


@contextmanager
def replacing(path: Path) -> Iterator[int]:
    """Where to write what shall take the file's place, which it does when all is written."""
    with writing(path):
        status_of(path)
        remove_leftovers(path.parent)
        temporary = create_temporary(path.parent)
        try:
            yield temporary.descriptor
            os.fsync(temporary.descriptor)
            os.replace(temporary.path, path)
        except BaseException:
            temporary.path.unlink(missing_ok=True)
            raise
        finally:
            os.close(temporary.descriptor)
        sync_folder(path.parent)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Where to put what a new folder shall hold, which is there when all is written or not at
    all. Folders that lead there are made.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".prudent-{secrets.token_hex(8)}")
        os.mkdir(temporary)
        try:
            yield temporary
            sync_folder(temporary)
            os.rename(temporary, path)  # fails if there is one that is not empty
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """A folder inside a run's folder: a link that leads elsewhere is none."""
    with writing(path):
        try:
            os.mkdir(path)
        except FileExistsError:
            check_folder(path)
        else:
            sync_folder(path.parent)


def check_folder(path: Path) -> None:
    mode = os.lstat(path).st_mode
    if not stat.S_ISDIR(mode):
        kind = KINDS.get(stat.S_IFMT(mode), "a file")
        raise OSError(errno.ENOTDIR, f"it is {kind}, not a folder; put the folder itself there")


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON that says nothing it cannot mean: no NaN, no infinity."""
    return json.dumps(value, allow_nan=False, indent=indent)


def canonical_json(value: Any) -> bytes:
    """The same bytes for the same meaning, whatever the order and the layout."""
    return json.dumps(value, allow_nan=False, sort_keys=True, separators=(",", ":")).encode()


def checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def stands_at(descriptor: int, path: Path) -> bool:
    """Whether this open file is the one that has this name now."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False
