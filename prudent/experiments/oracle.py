"""The oracle for the runs of a grid: `prudent diagnose` over those whose snapshots lack it."""

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from prudent.backend import ONE_THREAD
from prudent.report.diagnostics import read_diagnostics


def unmeasured(folder: Path) -> bool:
    """Whether a snapshot has no line yet, or has changed since."""
    from prudent.diagnostics.snapshots import snapshots_in

    try:
        known = {(line["step"], line["snapshot"]) for line in read_diagnostics(folder)}
    except ValueError:
        return True  # its own process will say what is wrong
    return any((shot.step, shot.checksum) not in known for shot in snapshots_in(folder))


def measure(folders: Sequence[Path], at_once: int) -> bool:
    """Whether all could be measured. One process per run, so that one that fails stops no other."""
    missing = [folder for folder in folders if unmeasured(folder)]
    if not missing:
        return True
    print(f"measuring the cost estimates of {len(missing)} runs (prudent diagnose)", flush=True)

    def diagnose(folder: Path) -> int:
        command = [sys.executable, "-m", "prudent", "diagnose", str(folder)]
        return subprocess.run(command, env={**ONE_THREAD, **os.environ}, check=False).returncode

    with ThreadPoolExecutor(at_once) as slots:
        return not any(slots.map(diagnose, missing))
