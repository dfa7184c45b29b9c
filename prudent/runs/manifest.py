"""A checkpoint's manifest, and the files it names: what is read is checked before it is believed.

Whatever is wrong with them is a `DamagedCheckpoint`; no content of a file may stop a run that has
another checkpoint to go on from.
"""

import json
import re
import reprlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from prudent.files import check_folder, checksum, read_regular, to_json

FORMAT = 1
NAME = re.compile(r"step-([0-9]{9}|[1-9][0-9]{9,})\.json")
LARGEST_MANIFEST = 2**26  # bytes; a replay in a thousand segments takes 2^18
LARGEST_ARRAYS = 2**34  # bytes, where a manifest of an older version does not say how many
PARTS_OF_RUN = ("spec", "settings")  # of run.json, whose checksums a manifest may carry
# Facts that every training loop's checkpoint has, where they are there at all.
KINDS_OF_FACTS: dict[str, type] = {
    "step": int,
    "updates": int,
    "window_sums": list,
    "window_count": int,
    "history": list,
    "last_line": dict,
    "noted": dict,
    "progress_bytes": int,
    "episodes_bytes": int,
}


class DamagedCheckpoint(RuntimeError):
    """A checkpoint that is not what was written."""


class RunIdentity(NamedTuple):
    """What the checkpoints of a run say of it, to tell them from those of another."""

    run_id: str
    # Checksums of the parts of `run.json` that decide how arrays are read; None: not compared.
    checksums: Mapping[str, str] | None = None
    # The same by run_id, of checkpoints from before the run was prolonged.
    earlier: Mapping[str, Mapping[str, str]] = MappingProxyType({})


class Content(NamedTuple):
    """What a file of arrays must hold."""

    checksum: str
    size: int | None  # in bytes; older versions did not say


class Entry(NamedTuple):
    """A replay segment: rows `start` up to, not including, `stop`."""

    start: int
    stop: int
    content: Content

    @property
    def name(self) -> str:
        return f"rows-{self.start:09d}-{self.stop:09d}.safetensors"


class Manifest(NamedTuple):
    run: str
    step: int
    arrays: Content
    added: int  # rows the replay had ever been given
    first: int  # the oldest of them it still held
    segments: list[Entry]
    facts: dict[str, Any]
    parts_of_run: dict[str, str]  # their checksums; older versions left them out


def manifest_bytes(manifest: Manifest) -> bytes:
    fields = {
        "format": FORMAT,
        "run": manifest.run,
        "step": manifest.step,
        **manifest.parts_of_run,
        "arrays": manifest.arrays.checksum,
        "bytes": manifest.arrays.size,
        "added": manifest.added,
        "first": manifest.first,
        "segments": [
            {
                "name": entry.name,
                "start": entry.start,
                "stop": entry.stop,
                "checksum": entry.content.checksum,
                "bytes": entry.content.size,
            }
            for entry in manifest.segments
        ],
        "facts": manifest.facts,
    }
    fields["checksum"] = checksum(to_json(fields).encode())
    return to_json(fields).encode()


def manifests_in(checkpoints: Path) -> list[Path]:
    """Oldest first."""
    try:
        check_folder(checkpoints)
        names = [path.name for path in checkpoints.iterdir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DamagedCheckpoint(f"{checkpoints} cannot be read: {error.strerror}") from None
    steps = sorted(int(found[1]) for name in names if (found := NAME.fullmatch(name)))
    return [checkpoints / f"step-{step:09d}.json" for step in steps]


def read_manifest(path: Path) -> Manifest:
    content = read_bytes(path, LARGEST_MANIFEST)
    try:
        fields = json.loads(content, parse_constant=refuse)
        written = fields.pop("checksum")
        now = checksum(to_json(fields).encode())
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise DamagedCheckpoint(f"{path.name} was cut short or is no manifest of ours") from None
    if now != written:
        raise DamagedCheckpoint(f"{path.name} was altered (its checksum differs)")
    try:
        return parse(fields)
    except KeyError as missing:
        raise DamagedCheckpoint(f"{path.name} is no manifest of ours (no {missing})") from None
    except ValueError as error:
        raise DamagedCheckpoint(f"{path.name} is no manifest of ours ({error})") from None


def refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")


def parse(fields: dict[str, Any]) -> Manifest:
    """Of the right kinds throughout; else a KeyError or ValueError."""
    if fields["format"] != FORMAT:
        raise ValueError(f"format {reprlib.repr(fields['format'])}, known is {FORMAT}")
    facts = of_kind(fields["facts"], dict, "facts")
    for name, kind in KINDS_OF_FACTS.items():
        if name in facts:
            of_kind(facts[name], kind, name)
    segments = [parse_entry(entry) for entry in of_kind(fields["segments"], list, "segments")]
    added = count(fields["added"], "added")
    start = segments[0].start if segments else added
    first = count(fields.get("first", start), "first")
    # Together the segments hold every row from the first to the last.
    bounds = [start, *(entry.stop for entry in segments)]
    follow = all(entry.start == stop for entry, stop in zip(segments, bounds, strict=False))
    if not (follow and start <= first <= added == bounds[-1]):
        raise ValueError(f"its segments do not hold the rows from {first} to {added}")
    return Manifest(
        run=of_kind(fields["run"], str, "run"),
        step=count(fields["step"], "step"),
        arrays=parse_content(fields, "arrays"),
        added=added,
        first=first,
        segments=segments,
        facts=facts,
        parts_of_run={p: of_kind(fields[p], str, p) for p in PARTS_OF_RUN if p in fields},
    )


def parse_entry(value: Any) -> Entry:
    fields = of_kind(value, dict, "a segment")
    entry = Entry(
        count(fields["start"], "start"),
        count(fields["stop"], "stop"),
        parse_content(fields, "checksum"),
    )
    if fields["name"] != entry.name or entry.start >= entry.stop:
        raise ValueError(f"a segment is named {reprlib.repr(fields['name'])}, not {entry.name}")
    return entry


def parse_content(fields: dict[str, Any], name: str) -> Content:
    size = fields.get("bytes")
    return Content(of_kind(fields[name], str, name), None if size is None else count(size, "bytes"))


def of_kind(value: Any, kind: type, name: str) -> Any:
    if type(value) is not kind:  # exactly: `true` is no number
        raise ValueError(f"{name} is {reprlib.repr(value)}")
    return value


def count(value: Any, name: str) -> int:
    number: int = of_kind(value, int, name)
    if number < 0:
        raise ValueError(f"{name} is {reprlib.repr(value)}")
    return number


def read_bytes(path: Path, largest: int) -> bytes:
    try:
        return read_regular(path, largest)
    except FileNotFoundError:
        raise DamagedCheckpoint(f"{path.name} is missing") from None
    except OSError as error:
        raise DamagedCheckpoint(f"{path.name} cannot be read: {error.strerror or error}") from None


def read_arrays(path: Path, expected: Content) -> dict[str, np.ndarray]:
    content = read_bytes(path, LARGEST_ARRAYS if expected.size is None else expected.size)
    if checksum(content) != expected.checksum:
        raise DamagedCheckpoint(f"{path.name} was cut short or altered (its checksum differs)")
    try:
        return dict(load(content))
    except (SafetensorError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise DamagedCheckpoint(f"{path.name} is no safetensors file ({error})") from None


def read_rows(folder: Path, entry: Entry) -> np.ndarray:
    rows = read_arrays(folder / entry.name, entry.content).get("rows")
    if rows is None or rows.ndim != 2 or len(rows) != entry.stop - entry.start:
        raise DamagedCheckpoint(f"{entry.name} does not hold its rows")
    return rows
