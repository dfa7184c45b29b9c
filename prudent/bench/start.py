"""From the start of Python to the first update."""

import json
import os
import resource
import subprocess
import sys
import tempfile
from time import time

from prudent.files import to_json


def first_update(started: float) -> None:
    """Run in a process of its own, which began `started` seconds after the epoch."""
    from prudent.bench.hopper import hopper_session
    from prudent.bench.learners import UPDATES
    from prudent.training.off_policy import learn, take_step

    with hopper_session("cal") as session:
        began_warmup = time()
        for _ in range(session.collector.schedule.batch_size):
            take_step(session)
        warmup_seconds = time() - began_warmup
        learn(session, UPDATES, 0)
        elapsed = time() - started
        # The whole replay, touched, so that the operating system must give it to us.
        session.collector.replay.rows[:] = 1.0
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    facts = {"seconds": elapsed, "first_steps_seconds": warmup_seconds, "memory": memory}
    print(to_json(facts))


def measure_start() -> dict[str, float]:
    """Seconds from starting Python to the first update, with an empty and with a filled cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": cache}

        def child() -> dict[str, float]:
            command = [sys.executable, "-m", "prudent", "bench", "--part", "first-update"]
            finished = subprocess.run(
                [*command, "--started", repr(time())],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            facts: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
            return facts

        cold, warm = child(), min((child() for _ in range(3)), key=lambda facts: facts["seconds"])
    return {
        "cold_start_seconds": cold["seconds"],
        "warm_start_seconds": warm["seconds"],
        "resident_memory_bytes": warm["memory"],
    }
