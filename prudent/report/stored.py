"""The files of a run folder as JSON, plain or compressed; faults are told by file and line."""

import gzip
import json
import sys
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Say = Callable[[str], None]
Entry = dict[str, Any]

RUN, PROGRESS, EPISODES = "run.json", "progress.jsonl", "episodes.jsonl"


def note(text: str) -> None:
    """What a reader of the numbers should know, beside them and not among them."""
    print(f"prudent: {printable(text)}", file=sys.stderr)


def printable(text: str) -> str:
    """Text without what would steer a terminal or cannot be encoded, which is spelt instead."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def find(folder: Path, name: str) -> Path | None:
    """The file of that name or its compressed form, if there is one."""
    plain, compressed = folder / name, folder / f"{name}.gz"
    if plain.exists() and compressed.exists():
        raise ValueError(f"{folder} holds both {name} and {name}.gz; remove one of them")
    return next((path for path in (plain, compressed) if path.exists()), None)


def damaged(where: Path | str, fault: object) -> ValueError:
    return ValueError(f"{where}: {fault}; restore the file or leave this run out")


def read_bytes(path: Path) -> bytes:
    """The file's content, unpacked if its name ends in .gz."""
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise damaged(path, f"cannot be read ({reason})") from None


def refuse(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


DECODER = json.JSONDecoder(parse_constant=refuse)  # `json.loads` would make one for each line


def parse(text: bytes) -> Entry:
    """One JSON object, or a ValueError that says why it is none."""
    try:
        value = DECODER.decode(text.decode())
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"found {type(value).__name__}")
    return value


def read_object(path: Path) -> Entry:
    content = read_bytes(path)
    try:
        return parse(content)
    except json.JSONDecodeError as error:
        raise damaged(f"{path}:{error.lineno}", f"not a JSON object ({error.msg})") from None
    except ValueError as error:
        raise damaged(path, f"not a JSON object ({error})") from None


def read_lines(path: Path, say: Say = note) -> list[Entry]:
    """One JSON object a line. A last line that was cut short is left out, and `say` is told."""
    *whole, last = read_bytes(path).split(b"\n")
    entries = []
    for number, line in enumerate(whole, 1):
        try:
            entries.append(parse(line))
        except ValueError as error:
            reason = getattr(error, "msg", None) or error
            raise damaged(f"{path}:{number}", f"not a JSON object ({reason})") from None
    if last:
        try:
            entries.append(parse(last))
        except ValueError:
            say(f"{path}:{len(whole) + 1}: the last line is cut short; it is left out")
    return entries


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


STEPS = "a number of steps"

KINDS: dict[str, Callable[[Any], bool]] = {
    "a number": is_number,
    "a whole number": lambda value: type(value) is int,
    STEPS: lambda value: type(value) is int and abs(value) < 2**53,
    "a string": lambda value: isinstance(value, str),
    "true or false": lambda value: isinstance(value, bool),
    "an object": lambda value: isinstance(value, dict),
}


def require(where: str, entry: Entry, fields: Mapping[str, str]) -> None:
    """Each of these fields is there, and of the kind named."""
    for name, kind in fields.items():
        if name not in entry:
            raise damaged(where, f"there is no {name!r}")
        if not KINDS[kind](entry[name]):
            raise damaged(where, f"{name!r} is not {kind}")
