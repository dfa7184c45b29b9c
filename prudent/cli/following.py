"""`prudent report --follow`: a report that is written anew while runs go on."""

import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from prudent.report.writing import (
    PAGE,
    Read,
    fingerprint,
    read_all,
    title_of,
    write_page,
    write_report,
)

RELOAD = 15.0  # seconds at least, after which a page that is followed loads itself anew
# A refresh of many runs takes seconds; the grid that it watches should have the machine.
REST = 5.0  # times as long as the last refresh took


def follow(paths: Sequence[Path], out: Path, log_steps: bool, every: float) -> None:
    """Write anew whenever records have changed. Ctrl-C leaves a page that no longer reloads."""
    seen, last = None, None
    print(f"following; Ctrl-C ends it. Open {out / PAGE}", flush=True)
    try:
        while True:
            state, started = fingerprint(paths), time.monotonic()
            if state != seen:
                last = refresh(paths, out, log_steps, max(every, RELOAD)) or last
                seen = state
            time.sleep(max(every, REST * (time.monotonic() - started)))
    except KeyboardInterrupt:
        with suppress(KeyboardInterrupt):
            if last:
                write_page(last, out, log_steps, title_of(paths))
        print(f"\nStopped. The page is as of now: {out / PAGE}")


def refresh(paths: Sequence[Path], out: Path, log_steps: bool, reload: float) -> Read | None:
    try:
        found = read_all(paths)
    except ValueError as error:  # nothing there yet, or not whole yet
        print(f"{clock()}  waiting: {error}", flush=True)
        return None
    write_report(found, out, log_steps, title_of(paths), reload)
    runs = sum(len(records) for groups in found.tasks.values() for records in groups.values())
    left = f"; {len(found.remarks)} remarks" if found.remarks else ""
    print(f"{clock()}  {runs} runs on {len(found.tasks)} tasks{left}", flush=True)
    return found


def clock() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")
