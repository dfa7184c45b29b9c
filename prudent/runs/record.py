"""What a run writes about itself: `run.json`, `progress.jsonl`, `episodes.jsonl`.

Fields whose name ends in `_seconds` or `_per_second` depend on the clock; nothing else does.
"""

import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from prudent.files import (
    CannotWrite,
    canonical_json,
    checksum,
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
from prudent.runs.stored import FORMATS, earlier_fields, mark_of, with_steps
from prudent.settings.run import Run, identity_of, run_to_json

PACKAGES = ("prudent", "jax", "jaxlib", "optax", "numpy", "gymnasium", "mujoco", "safetensors")
LARGEST_RECORD = 2**24  # bytes of a run.json


def write_run(folder: Path, run: Run, extra: Mapping[str, Any]) -> None:
    content = {
        "format": FORMATS[-1],
        "identity": run.identity(),
        "run": run_to_json(run),
        **extra,
        "versions": {"python": platform.python_version(), **{p: version(p) for p in PACKAGES}},
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
        },
        "command": sys.argv[1:],
    }
    write_atomically(folder / "run.json", (to_json(content, indent=2) + "\n").encode())


def run_checksums(folder: Path) -> dict[str, str]:
    """Of the parts of `run.json` that decide how a checkpoint is read; none where it is not there.

    `spec` is what the algorithm knew of its environment, `settings` the run without its preset's
    name, which decides nothing.
    """
    with reading_record(folder) as content:
        return {} if content is None else parts_of(content, content["run"])


def earlier_checksums(folder: Path) -> dict[str, dict[str, str]]:
    """The same for checkpoints from before the run was prolonged, by the mark they carry."""
    with reading_record(folder) as content:
        return {
            mark_of(identity_of(fields), fields["seed"]): parts_of(content or {}, fields)
            for fields in ([] if content is None else earlier_fields(content))
        }


def lasting_mark(folder: Path) -> str:
    """Of the run, however many steps it is given; empty where there is no `run.json`."""
    with reading_record(folder) as content:
        if content is None:
            return ""
        fields = content["run"]
        return mark_of(identity_of(with_steps(fields, 0)), fields["seed"])


@contextmanager
def reading_record(folder: Path) -> Iterator[dict[str, Any] | None]:
    """All of `run.json`, None where it is not there; what is wrong with it is told."""
    path = folder / "run.json"
    try:
        found = os.path.lexists(path)
        yield json.loads(read_regular(path, LARGEST_RECORD)) if found else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is not a run record this version reads ({error})") from None


def parts_of(content: dict[str, Any], fields: dict[str, Any]) -> dict[str, str]:
    settings = {name: value for name, value in fields.items() if name != "preset"}
    parts = {"settings": settings}
    if "spec" in content:
        parts["spec"] = content["spec"]
    return {name: checksum(canonical_json(part)) for name, part in parts.items()}


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
