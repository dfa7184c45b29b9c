"""What a run writes about itself: `run.json`, `progress.jsonl`, `episodes.jsonl`.

Fields whose name ends in `_seconds` or `_per_second` depend on the clock; nothing else does.
"""

import os
import platform
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from prudent.configs import Run, run_to_json
from prudent.files import to_json, write_atomically
from prudent.training.stored import FORMATS

PACKAGES = ("prudent", "jax", "jaxlib", "optax", "numpy", "gymnasium", "mujoco", "safetensors")


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


class Lines:
    """A file of JSON lines that only grows, and can be cut back to where a checkpoint saw it."""

    def __init__(self, path: Path, keep_bytes: int) -> None:
        if keep_bytes and (not path.exists() or path.stat().st_size < keep_bytes):
            raise ValueError(
                f"{path} is shorter than its checkpoint remembers ({keep_bytes} bytes); "
                "restore the file, or train into another folder"
            )
        self._file = open(path, "ab")  # noqa: SIM115 - open as long as the run
        self._file.truncate(keep_bytes)

    def write(self, line: Mapping[str, Any]) -> None:
        self._file.write((to_json(line) + "\n").encode())
        self._file.flush()

    def sync(self) -> int:
        """Make what was written last; returns the file's length."""
        os.fsync(self._file.fileno())
        return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        self._file.close()
