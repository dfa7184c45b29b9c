"""The runs below some folders, as records; what cannot be read is reported and left out."""

import os
from collections.abc import Iterable
from pathlib import Path

from prudent.report.diagnostics import DIAGNOSTICS, read_diagnostics
from prudent.report.records import Record, read_record
from prudent.report.stored import EPISODES, PROGRESS, RUN, Entry, Say, note

TRACES = {RUN, *(name + end for name in (PROGRESS, EPISODES, DIAGNOSTICS) for end in ("", ".gz"))}


def collect(paths: Iterable[Path], say: Say = note) -> list[Record]:
    """Every run at or below these paths, with its diagnostics, in the order of their names.

    An error only where all that is there is damaged.
    """
    records: list[Record] = []
    faults: list[str] = []
    for folder in run_folders(paths):
        try:
            record = read_record(folder, say)
        except (ValueError, OSError) as error:
            faults.append(str(error))
        else:
            records.append(record._replace(diagnostics=diagnostics_of(folder, say)))
    if faults and not records:
        more = f" (and {len(faults) - 1} more like it)" if len(faults) > 1 else ""
        raise ValueError(faults[0] + more)
    for fault in faults:
        say(f"{fault}; it is left out here")
    return records


def diagnostics_of(folder: Path, say: Say) -> list[Entry]:
    """A run is worth showing without them."""
    try:
        return read_diagnostics(folder, say)
    except (ValueError, OSError) as error:
        say(f"shown without its diagnostics: {error}")
        return []


def runs_at(paths: Iterable[Path]) -> list[Path]:
    """Each path that is a run, or is no folder at all; of other folders the runs below."""
    found: list[Path] = []
    for path in paths:
        outer = path.is_dir() and not (path / RUN).exists()
        found += (run_folders([path]) or [path]) if outer else [path]
    return found


def run_folders(paths: Iterable[Path]) -> list[Path]:
    """Folders that hold a run or what is left of one. Links to folders are not followed."""
    found: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir():
            what = "is not a folder" if path.exists() else "does not exist"
            raise ValueError(f"{path} {what}; give folders with runs in them")
        for folder, below, files in os.walk(path):
            below.sort()
            if TRACES & set(files):
                found[Path(folder)] = None
    return list(found)
