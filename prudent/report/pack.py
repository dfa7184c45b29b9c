"""Keep a run's records: `python -m prudent.report.pack runs/cal-seed-0 results/cal-seed-0`.

Copies what reports read (run.json, progress.jsonl, episodes.jsonl, diagnostics.jsonl) and nothing
else. Line files of more than `LARGE` bytes are compressed; reports read both forms. Where there are
`HUGE` bytes of episodes, their numbers are kept to `DIGITS` digits, and that is said. Of places on
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

from prudent.files import new_folder, to_json, write_atomically
from prudent.report.diagnostics import DIAGNOSTICS, read_diagnostics
from prudent.report.records import read_record, steps_done, steps_planned
from prudent.report.stored import EPISODES, PROGRESS, RUN, Say, find, note, read_bytes

LARGE = 100_000  # bytes
HUGE = 10_000_000
DIGITS = 5


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
    placeless = list(map(without_place, words))
    if placeless == words:
        return content
    return (to_json({**about, "command": placeless}, indent=2) + "\n").encode()


def without_place(word: str) -> str:
    """Of an absolute path, also behind `--option=`, its last part."""
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return option + equals + (Path(value).name if Path(value).is_absolute() else value)


def whole_lines(content: bytes) -> bytes:
    """Without a last line that a kill cut short."""
    *_, last = content.split(b"\n")
    try:
        json.loads(last)
    except ValueError:
        return content.removesuffix(last)
    return content


def rounded(content: bytes) -> bytes:
    """Lines whose numbers have `DIGITS` digits: most of what is left of a compressed episode."""

    def short(value: object) -> object:
        return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value

    lines = map(json.loads, content.splitlines())
    return b"".join(
        to_json({name: short(value) for name, value in line.items()}).encode() + b"\n"
        for line in lines
    )


def pack(source: Path, destination: Path, say: Say = note) -> None:
    """Copy a run's records into a new folder, large ones compressed."""
    if destination.exists():
        raise ValueError(f"{destination} exists already; choose another name or remove it")
    record = read_record(source, say)  # refuses what is no run, or damaged
    read_diagnostics(source, say)
    done, planned = steps_done(record), steps_planned(record)
    if planned is not None and done < planned:
        say(f"{source} is not finished: {done} of {planned:.0f} steps are evaluated")
    paths = {name: find(source, name) for name in (RUN, PROGRESS, EPISODES, DIAGNOSTICS)}
    contents = {name: read_bytes(path) for name, path in paths.items() if path}
    contents[RUN] = without_places(contents[RUN])
    with new_folder(destination) as folder:
        for name, content in contents.items():
            kept = content if name == RUN else whole_lines(content)
            if name == EPISODES and len(kept) > HUGE:
                say(f"{source}: numbers of its episodes are kept to {DIGITS} digits")
                kept = rounded(kept)
            if name != RUN and len(kept) > LARGE:
                write_atomically(folder / f"{name}.gz", compress(kept))
            else:
                write_atomically(folder / name, kept)


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
