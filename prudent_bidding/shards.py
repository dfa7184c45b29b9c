"""Parquet files of a data set: written whole or not at all, and the same bytes every time."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prudent.files import checksum, to_json, write_atomically
from prudent_bidding.schema import KIND_KEY, KINDS, TASK_KEY

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    raise ValueError("bidding's files need PyArrow: pip install 'prudent[bidding]'") from None

ROW_GROUP = 131_072
# Long random mantissas do not compress; whole columns of few values do.
DICTIONARY = ("adv", "day", "arm", "done", "seen", "conv", "win", "category", "block")


class OracleFile(ValueError):
    """A file with what no learner may know."""


class Written(NamedTuple):
    rows: int
    bytes: int
    sha256: str


def arrow_schema(kind: str, note: Mapping[str, Any] | None = None) -> pa.Schema:
    columns = [
        (name, pa.from_numpy_dtype(np.dtype(kind_of))) for name, kind_of in KINDS[kind].items()
    ]
    metadata = {KIND_KEY: kind, TASK_KEY: to_json(dict(note or {}))}
    return pa.schema(columns, metadata=metadata)


def encode(kind: str, table: Mapping[str, np.ndarray], note: Mapping[str, Any]) -> bytes:
    """The table as a file of this kind; `note` goes into its metadata."""
    schema = arrow_schema(kind, note)
    arrays = [pa.array(np.ascontiguousarray(table[field.name]), field.type) for field in schema]
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=schema),
        sink,
        row_group_size=ROW_GROUP,
        compression="zstd",
        compression_level=1,
        use_dictionary=[name for name in DICTIONARY if name in table],
        write_statistics=False,
    )
    return sink.getvalue().to_pybytes()


def write_table(
    path: Path, kind: str, table: Mapping[str, np.ndarray], note: Mapping[str, Any]
) -> Written:
    content = encode(kind, table, note)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)
    rows = len(next(iter(table.values())))
    return Written(rows, len(content), checksum(content))


def read_note(path: Path) -> dict[str, Any] | None:
    """What was noted when the file was written; None if there is no such file, or not all of it."""
    try:
        metadata = pq.read_schema(path).metadata or {}
        found: dict[str, Any] = json.loads(metadata.get(TASK_KEY.encode(), b"{}"))
    except (OSError, ValueError, pa.ArrowException):
        return None
    return found


def kind_of(path: Path) -> str:
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{path} is no Parquet file that can be read ({error})") from None
    return metadata.get(KIND_KEY.encode(), b"").decode(errors="replace")


def read_table(path: Path, kind: str) -> dict[str, np.ndarray]:
    """A file of a kind that a learner may read."""
    found = kind_of(path)
    if kind.startswith("oracle") or found.startswith("oracle"):
        raise OracleFile(f"{path} holds what no learner may know; metrics read it, learners do not")
    return _read(path, kind, found)


def read_oracle(path: Path, kind: str) -> dict[str, np.ndarray]:
    """For metrics and diagnostics only."""
    return _read(path, kind, kind_of(path))


def _read(path: Path, kind: str, found: str) -> dict[str, np.ndarray]:
    if found != kind:
        raise ValueError(f"{path} holds {found or 'a table of another kind'}, not {kind}")
    with pq.ParquetFile(path) as file:  # one file: not a data set with guessed partitions
        table = file.read(columns=list(KINDS[kind]), use_threads=False)
    return {name: table[name].to_numpy() for name in table.column_names}
