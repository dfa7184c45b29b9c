"""What of the machine is used, and how JAX is set up, before it is first imported."""

import os
import sys
from pathlib import Path

# One thread: two are slower on small batches. Read when JAX and NumPy are first imported.
ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def usable_cores() -> list[int]:
    """Those of this machine that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def prepare() -> None:
    """One thread, and a cache that makes the second start fast.

    What the user has set in the environment stays as it is.
    """
    if "jax" not in sys.modules:
        for name, value in ONE_THREAD.items():
            os.environ.setdefault(name, value)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(cache) / "prudent" / "xla"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
