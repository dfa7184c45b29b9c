"""A run's folder has one writer, and a new run a folder of its own."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from prudent.files import (
    TEMPORARY,
    open_regular,
    remove_leftovers,
    stands_at,
    status_of,
    sync_folder,
    writing,
)

LOCK = ".lock"
INITIAL = "initial.safetensors"  # written before `run.json`


class FolderInUse(RuntimeError):
    """Another process writes this run."""


class Lock(NamedTuple):
    descriptor: int
    created: bool  # the file was not there before


def take_lock(folder: Path) -> Lock:
    """The operating system lets go of it however this process ends."""
    path = folder / LOCK
    while True:
        created = status_of(path) is None
        try:
            exclusively = os.O_CREAT | os.O_EXCL if created else 0
            descriptor = open_regular(path, os.O_RDWR | exclusively)
        except (FileExistsError, FileNotFoundError):
            os.stat(folder)  # gone as well? then there is nothing to hold
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if stands_at(descriptor, path):
                return Lock(descriptor, created)
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                raise FolderInUse(
                    f"{folder}: another process is writing into this folder; "
                    "wait for it to end or choose another with --out"
                ) from None
            raise
        os.close(descriptor)  # its last holder removed it while we took it


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold the folder; `FolderInUse` where another process does."""
    with writing(folder / LOCK):
        lock = take_lock(folder)
    try:
        yield
    finally:
        os.close(lock.descriptor)


@contextmanager
def new_run_folder(folder: Path) -> Iterator[Path]:
    """Make and hold a folder for a new run: one that is not there yet, or is empty.

    Unless `run.json` has been written when this ends, all that was made here goes again: the lock,
    the folder and those above it.
    """
    made: list[Path] = []
    lock = None
    try:
        with writing(folder):
            lock = claim(folder, made)
            check_empty(folder)
        yield folder
    finally:
        if lock and not os.path.lexists(folder / "run.json"):
            with suppress(OSError):  # what led here is told, not that this failed as well
                remove_leftovers(folder)
                (folder / INITIAL).unlink(missing_ok=True)
                if lock.created:
                    os.unlink(folder / LOCK)
        for path in reversed(made):
            with suppress(OSError):  # it is not empty: somebody uses it
                path.rmdir()
        if lock:
            os.close(lock.descriptor)


def claim(folder: Path, made: list[Path]) -> Lock:
    """The folder's lock; folders that had to be made for it are appended to `made`."""
    for attempts_left in reversed(range(100)):
        try:
            make_missing(folder, made)
            return take_lock(folder)
        except FileNotFoundError:  # a set-up that failed has just removed it again
            if not attempts_left:
                raise
    raise AssertionError


def make_missing(folder: Path, made: list[Path]) -> None:
    for path in (*reversed(folder.parents), folder):
        if path.is_dir():
            continue
        try:
            os.mkdir(path)
        except FileExistsError:
            if os.path.lexists(path) and not path.is_dir():
                raise  # else somebody was quicker
        else:
            made.append(path)
            sync_folder(path.parent)


def check_free(folder: Path) -> None:
    """Refuse a folder that is in use, before anything else is looked at."""
    if os.path.lexists(folder / "run.json"):
        with only_writer(folder):  # whether somebody writes it is told first
            pass
    if folder.is_dir():
        check_empty(folder)


def check_empty(folder: Path) -> None:
    """Nothing but what a set-up that failed may leave: an empty lock, temporary files, what a run
    would have begun with.
    """
    others = []
    for entry in sorted(os.scandir(folder), key=attrgetter("name")):
        status = entry.stat(follow_symlinks=False)
        empty_lock = entry.name == LOCK and not status.st_size
        leftover = empty_lock or entry.name == INITIAL or TEMPORARY.fullmatch(entry.name)
        if not (leftover and stat.S_ISREG(status.st_mode)):
            others.append(entry.name)
    if "run.json" in others:
        raise ValueError(
            f"{folder} holds a run already: go on with `prudent resume {folder}`, or choose "
            "another folder with --out"
        )
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        raise ValueError(
            f"{folder} is not empty ({', '.join(others[:3])}{more}); choose another folder with "
            "--out, or empty it"
        )
