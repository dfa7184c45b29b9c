"""Keep a run's records: `python -m prudent.report.pack runs/cal-seed-0 results/cal-seed-0`.

Copies what reports read (run.json, progress.jsonl, episodes.jsonl, diagnostics.jsonl) and nothing
else. Line files of more than `LARGE` bytes are compressed; reports read both forms. Of places on
the machine in the run's command only the last part of the name is kept: records are for others.
"""

import gzip
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from prudent.files import to_json, write_atomically
from prudent.report.diagnostics import DIAGNOSTICS
from prudent.report.records import read_record
from prudent.report.stored import EPISODES, PROGRESS, RUN, find, read_bytes

LARGE = 100_000  # bytes


def compress(content: bytes) -> bytes:
    """Gzip without a time and a file name: the same zlib makes equal bytes of equal content."""
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=0) as file:
        file.write(content)
    return packed.getvalue()


def without_places(content: bytes) -> bytes:
    """run.json with no absolute path in its command."""
    about = json.loads(content)
    words = about.get("command", [])
    placeless = [Path(word).name if Path(word).is_absolute() else word for word in words]
    if placeless == words:
        return content
    return (to_json({**about, "command": placeless}, indent=2) + "\n").encode()


def pack(source: Path, destination: Path) -> None:
    """Copy a run's records into a new folder, large ones compressed."""
    if destination.exists():
        raise ValueError(f"{destination} exists already; choose another name or remove it")
    read_record(source)  # refuses what is no run, or damaged
    found = {name: find(source, name) for name in (RUN, PROGRESS, EPISODES, DIAGNOSTICS)}
    contents = {name: read_bytes(path) for name, path in found.items() if path}
    contents[RUN] = without_places(contents[RUN])
    destination.mkdir(parents=True)
    for name, content in contents.items():
        if name != RUN and len(content) > LARGE:
            write_atomically(destination / f"{name}.gz", compress(content))
        else:
            write_atomically(destination / name, content)


@dataclass(frozen=True)
class PackOptions:
    source: Annotated[Path, tyro.conf.Positional]
    """The run's folder."""
    destination: Annotated[Path, tyro.conf.Positional]
    """A new folder for its records."""


def main() -> None:
    options = tyro.cli(PackOptions, prog="python -m prudent.report.pack")
    try:
        pack(options.source, options.destination)
    except (ValueError, OSError) as error:
        sys.exit(f"prudent: {error}")


if __name__ == "__main__":
    main()
