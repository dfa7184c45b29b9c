"""Files that are either whole or not there."""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def write_atomically(path: Path, content: bytes) -> None:
    """After a crash the file holds the old content or the new, never a part."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON that says nothing it cannot mean: no NaN, no infinity."""
    return json.dumps(value, allow_nan=False, indent=indent)


def checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class FolderInUse(RuntimeError):
    """Another process writes this run."""


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold the folder; the operating system lets go of it however this process ends."""
    with open(folder / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderInUse(
                f"{folder}: another process is training into this folder; "
                "wait for it to end or choose another with --out"
            ) from None
        yield
