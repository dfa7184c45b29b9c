"""What short runs of CAL and its relatives compute, in `tests/golden/dual.json`.

Recorded with the code from before the options of the dual (commit 41c14a8), and again only where
the library's numbers are meant to change: `python tests/golden_dual.py`.
"""

import hashlib
import json
import platform
import tempfile
from pathlib import Path
from typing import Any

import conftest  # noqa: F401  the compiler's options, before it is loaded
import jax
import numpy as np
from safetensors.numpy import load_file
from support import small_run, train_quietly

from prudent.tasks import TASKS

FILE = Path(__file__).parent / "golden" / "dual.json"
ALGORITHMS = ("cal", "ucb", "sac-lag", "sac")


def machine() -> str:
    """Where the same program gives the same bits."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    flags = next((line for line in lines if line.startswith("flags")), platform.processor())
    digest = hashlib.sha256(flags.encode()).hexdigest()[:12]
    return f"{platform.machine()} {digest} jax {jax.__version__}"


def computed(algorithm: str) -> dict[str, Any]:
    """The end of 60 steps on orbit: its identity, its state's bits, the sum of each array."""
    task = TASKS["orbit"]
    run = small_run(task, algorithm, seed=3)
    with tempfile.TemporaryDirectory() as folder:
        train_quietly(run, task, Path(folder) / "run")
        newest = sorted((Path(folder) / "run" / "checkpoints").glob("*.safetensors"))[-1]
        arrays = {
            name.replace("state/dual/", "state/"): array  # as leaves were named then
            for name, array in load_file(newest).items()
            if name.startswith("state/")
        }
    bits = hashlib.sha256(b"".join(n.encode() + arrays[n].tobytes() for n in sorted(arrays)))
    return {
        "identity": run.identity(),
        "bits": bits.hexdigest(),
        "sums": {n: float(np.abs(arrays[n].astype(float)).sum()) for n in sorted(arrays)},
    }


if __name__ == "__main__":
    content = {"machine": machine(), "runs": {name: computed(name) for name in ALGORITHMS}}
    FILE.write_text(json.dumps(content, indent=1) + "\n")
