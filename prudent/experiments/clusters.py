"""Joining a Ray cluster, or starting one of this machine alone. Ray is imported only when it is
asked for.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from prudent.files import CannotWrite

ANSWER_SECONDS = 5.0  # for anything to answer at a cluster's address
STATUS_SECONDS = 60.0  # for a cluster to tell its status, on a machine that is busy
OBJECT_STORE = 100 * 2**20  # bytes; nothing but numbers and names passes through it


@contextmanager
def connected(address: str | None, cores: int, log: Path | None = None) -> Iterator[Any]:
    """Ray, joined to the cluster at the address, or to one of this machine alone. `log` is what it
    has said, if that was kept (`output_to`).
    """
    if find_spec("ray") is None:
        raise ValueError("--engine ray needs an extra: pip install 'prudent[ray]'")
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    check_address(address)
    # For a cluster of our own: nothing is sent anywhere, and runs have the priority they have here.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")
    ray: Any = import_module("ray")
    alone = {"num_cpus": cores, "include_dashboard": False, "object_store_memory": OBJECT_STORE}
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level="error",
            **(alone if address == "local" else {}),
        )
    except Exception as error:
        ray.shutdown()
        reason = " ".join(str(error).split()).rstrip(".")
        if log is not None and "Unauthenticated" in log.read_text(errors="replace"):
            reason += "; it wants another token (RAY_AUTH_TOKEN, or ~/.ray/auth_token)"
        raise ValueError(f"the Ray cluster at {address} cannot be joined: {reason}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def check_address(address: str) -> None:
    """Refuse an address at which no cluster answers: `ray.init` would try again for many minutes.

    `ray status` tells, but gives up as late. What else is wrong with a cluster `ray.init` says.
    """
    if address in ("local", "auto"):
        return
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdecimal()) or "/" in address:
        raise ValueError(
            f"--address is {address!r}; it must be the HOST:PORT of a Ray cluster's head, or auto "
            "for the cluster that this machine belongs to"
        )
    hint = "start a cluster with `ray start --head`, or name another --address"
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS).close()
        status = [sys.executable, "-m", "ray.scripts.scripts", "status", "--address", address]
        subprocess.run(status, capture_output=True, timeout=STATUS_SECONDS)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"nothing answers at {address} ({reason}); {hint}") from None
    except subprocess.TimeoutExpired:
        raise ValueError(f"what answers at {address} is no Ray cluster's head; {hint}") from None


@contextmanager
def output_to(notes: Path) -> Iterator[Path]:
    """What Ray prints goes into a file: of nodes that are lost it says whole pages, to standard
    output from Python, to standard error from below it.
    """
    log = notes / "ray.log"
    try:
        notes.mkdir(parents=True, exist_ok=True)
        file = log.open("w")
    except OSError as error:
        raise CannotWrite(f"{notes} cannot be written: {error.strerror or error}") from error
    usual = os.dup(2)
    try:
        with file, redirect_stdout(file):
            os.dup2(file.fileno(), 2)
            yield log
    finally:
        os.dup2(usual, 2)
        os.close(usual)
