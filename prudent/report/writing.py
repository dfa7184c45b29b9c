"""A report in a folder: figures of every task, and one page of all of them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt

from prudent.files import write_atomically
from prudent.report.cautions import cautions
from prudent.report.figures import Groups, task_figure
from prudent.report.folders import TRACES, collect, run_folders
from prudent.report.groups import algorithms_of, by_task
from prudent.report.looks import looks_of
from prudent.report.page import Making, page
from prudent.report.rendering import rendered

PAGE, FIGURES = "index.html", "figures"
FORMATS = (".png", ".svg")
DOTS = 140  # per inch; in SVG of what is not lines
PACKING = 3  # of PNG: half the time for a tenth more bytes


class Read(NamedTuple):
    tasks: Mapping[str, Groups]
    remarks: list[str]


def read_all(paths: Iterable[Path]) -> Read:
    """What the folders hold by now, and what there is to say about them."""
    remarks: list[str] = []
    paths = list(paths)
    records = collect(paths, remarks.append)
    if not any(record.progress for record in records):
        below = ", ".join(map(str, paths)) or "nothing"
        found = f"; of {len(records)} none has an evaluation yet" if records else ""
        raise ValueError(f"no run to report below {below}{found}")
    return Read(by_task(records, remarks.append), remarks)


def title_of(paths: Sequence[Path]) -> str:
    names = [path.resolve().name or str(path.resolve()) for path in paths]
    return "Report: " + ", ".join(names[:3]) + (" …" if len(names) > 3 else "")


def write_report(
    found: Read, out: Path, log_steps: bool, title: str, reload: float | None = None
) -> None:
    """Page last: what it links to is there when it is."""
    refuse_other_folder(out)
    write_figures(found.tasks, out, log_steps)
    write_page(found, out, log_steps, title, reload)


def write_page(
    found: Read, out: Path, log_steps: bool, title: str, reload: float | None = None
) -> None:
    making = Making(title, now(), addresses(found.tasks), reload, log_steps)
    content = page(found.tasks, cautions(found.tasks, found.remarks), making)
    write_atomically(out / PAGE, content.encode(errors="backslashreplace"))


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def refuse_other_folder(out: Path) -> None:
    """A run's folder has one writer, and it is not this one."""
    if TRACES & {path.name for path in out.glob("*")}:
        raise ValueError(f"{out} is the folder of a run; choose another with --out")


def write_figures(tasks: Mapping[str, Groups], out: Path, log_steps: bool) -> None:
    algorithms = algorithms_of(tasks)
    (out / FIGURES).mkdir(parents=True, exist_ok=True)
    for task, files in addresses(tasks).items():
        figure = task_figure(tasks[task], looks_of(tasks[task], algorithms), log_steps)
        for address in files:
            write_atomically(out / address, rendered(figure, Path(address).suffix, DOTS, PACKING))
        plt.close(figure)


def addresses(tasks: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """By task, where its figures are relative to the page."""
    names = file_names(tasks)
    return {
        task: tuple(f"{FIGURES}/{name}{suffix}" for suffix in FORMATS)
        for task, name in names.items()
    }


def file_names(tasks: Iterable[str]) -> dict[str, str]:
    """A file name for each task that is one whatever the task is called."""
    names: dict[str, str] = {}
    for task in tasks:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", task).strip("-")[:80] or "task"
        taken = {name.lower() for name in names.values()}  # some systems do not tell case
        number = 2
        name = plain
        while name.lower() in taken:
            name, number = f"{plain}-{number}", number + 1
        names[task] = name
    return names


def fingerprint(paths: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """Changes when a record does."""
    found = {}
    for folder in run_folders(paths):
        for name in TRACES:
            with suppress(OSError):  # a run that is being set up may vanish again
                status = (folder / name).stat()
                found[folder / name] = status.st_mtime_ns, status.st_size
    return found
