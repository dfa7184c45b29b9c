"""Files of JSON lines that grow: `progress.jsonl` and `episodes.jsonl`.

Fields whose name ends in `_seconds` or `_per_second` depend on the clock; nothing else does.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prudent.files import (
    CannotWrite,
    open_regular,
    read_regular,
    stands_at,
    status_of,
    sync_folder,
    to_json,
    write_all,
    write_atomically,
    writing,
)


class Lines:
    """A file of JSON lines that only grows, and can be cut back to where a checkpoint saw it.

    `noted` are fields that the next line will carry as well.
    """

    def __init__(self, path: Path, keep_bytes: int) -> None:
        self.noted: dict[str, Any] = {}
        self._path, self._length = path, keep_bytes
        with writing(path):
            status = status_of(path)
            if (status.st_size if status else 0) < keep_bytes:
                raise ValueError(
                    f"{path} is shorter than its checkpoint remembers ({keep_bytes} bytes); "
                    "restore the file, or train into another folder"
                )
            if status and status.st_nlink > 1:  # its other names are somebody's copies: leave them
                write_atomically(path, read_regular(path, status.st_size)[:keep_bytes])
            self._file = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.ftruncate(self._file, keep_bytes)
            if status is None:
                sync_folder(path.parent)

    def write(self, line: Mapping[str, Any]) -> None:
        content = (to_json({**line, **self.noted}) + "\n").encode()
        with writing(self._path):
            try:
                write_all(self._file, content)
            except OSError:
                os.ftruncate(self._file, self._length)  # no half line
                raise
        self._length += len(content)
        self.noted = {}

    def sync(self) -> int:
        """Make what was written last; returns the file's length."""
        with writing(self._path):
            os.fsync(self._file)
        if not stands_at(self._file, self._path):
            self._stop("removed or replaced")
        if os.fstat(self._file).st_size != self._length:
            self._stop("cut short or added to")
        return self._length

    def _stop(self, what: str) -> None:
        raise CannotWrite(
            f"{self._path} was {what} while the run writes it; put back what it was and go on with "
            f"`prudent resume {self._path.parent}`, or train into another folder"
        )

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
