"""The same runs on a Ray cluster, whose nodes see the runs' folders on shared storage.

Each run is a task, which starts the process that the local engine would start and sees it through.
Where its node is lost, Ray runs the task again on another, and the process goes on from the run's
newest checkpoint. Ray itself is imported only here, and only when it is asked for.
"""

import fcntl
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from prudent import __version__
from prudent.backend import ONE_THREAD, usable_cores
from prudent.experiments.clusters import connected, output_to
from prudent.experiments.engines import (
    ELSEWHERE,
    POLL_SECONDS,
    REFRESH_SECONDS,
    Ended,
    Job,
    Show,
    Standing,
    command,
    done_meanwhile,
    end,
    note_beginning,
    refresh,
    stop_requests,
    write_job,
)
from prudent.files import create_temporary
from prudent.runs.lock import FolderInUse, only_writer

RETRIES = 20  # nodes that one run may lose
LOOK_SECONDS = 120.0  # for a node to start a process and look at the folder
# How long a run of ours may keep its lock after its node is lost: until its process has saved and
# stopped, or the storage's server has given its client up (90 s with NFS).
LOCK_SECONDS = 180.0
# A run that was killed failed, unless its node is going down and takes this process along by then.
GOING_DOWN_SECONDS = 10.0
TRAVELS = ("JAX_", "XLA_")  # what is set here for JAX holds on every node


class Order(NamedTuple):
    """What a task is told, in words that mean the same on every node."""

    description: str  # the file that describes the run
    folder: str  # of the run
    log: str
    errors: str
    marker: str
    environment: dict[str, str]
    working_folder: str


def order_for(job: Job, notes: Path, marker: Path) -> Order:
    return Order(
        description=str(notes / f"{job.key}.json"),
        folder=str(job.folder),
        log=str(notes / f"{job.key}.log"),
        errors=str(notes / f"{job.key}{marker.stem}.stderr"),
        marker=str(marker),
        environment={k: v for k, v in os.environ.items() if k.startswith(TRAVELS)},
        working_folder=os.getcwd(),
    )


# On a node.


def attend(order: Order) -> int:
    """See a run's process through to its end; returns its exit code."""
    trouble = look(order.marker)
    if trouble:
        raise RuntimeError(trouble)
    if Path(order.errors).exists() and not lock_is_free(Path(order.folder)):  # not the first try
        return ELSEWHERE
    environment = {**ONE_THREAD, **os.environ, **order.environment}
    there = order.working_folder if Path(order.working_folder).is_dir() else None
    with stop_requests() as requests:
        told = 0
        with Path(order.log).open("ab") as output, Path(order.errors).open("wb") as complaints:
            process = subprocess.Popen(
                [*command(Path(order.description)), "--with-parent"],
                stdin=subprocess.PIPE,  # which closes when this process ends, however it does
                stdout=output,
                stderr=complaints,
                env=environment,
                cwd=there,
                start_new_session=True,
            )
        while process.poll() is None:
            if len(requests) > told:
                told = len(requests)
                process.send_signal(signal.SIGINT)
            time.sleep(POLL_SECONDS)
        if signal.SIGTERM in requests:  # the node wants its process back: the run is for another
            os._exit(1)
    if process.returncode == -signal.SIGKILL:
        time.sleep(GOING_DOWN_SECONDS)
    return process.returncode


def lock_is_free(folder: Path) -> bool:
    """Whether no process holds the run's lock, or gives it up within `LOCK_SECONDS`."""
    until = time.monotonic() + LOCK_SECONDS
    while (folder / "run.json").exists():
        try:
            with only_writer(folder):
                return True
        except FolderInUse:
            if time.monotonic() >= until:
                return False
            time.sleep(1.0)
    return True


def look(marker: str) -> str:
    """What keeps this node from running the grid's runs, if anything does."""
    try:
        descriptor = os.open(marker, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        return f"it does not see {Path(marker).parent} ({error.strerror or error})"
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return ""  # held where the grid was started
    except OSError as error:
        return f"files in {Path(marker).parent} cannot be locked there ({error.strerror or error})"
    finally:
        os.close(descriptor)
    return f"locks of files in {Path(marker).parent} do not hold between it and this machine"


class Looked(NamedTuple):
    host: str
    trouble: str
    version: str


def look_around(marker: str) -> Looked:
    return Looked(socket.gethostname(), look(marker), __version__)


# Where the grid was started.


def run_on_ray(
    jobs: Sequence[Job], at_once: int | None, notes: Path, show: Show, address: str | None
) -> Ended:
    """Run all jobs as Ray places them, at most `at_once` at a time. See `run_locally`."""
    notes = Path(os.path.abspath(notes))
    jobs = [job._replace(folder=Path(os.path.abspath(job.folder))) for job in jobs]
    standings = [Standing(job) for job in jobs]
    cores = at_once or len(usable_cores())
    try:
        with (
            output_to(notes) as log,
            connected(address, cores, log) as ray,
            marked(notes) as marker,
            stop_requests() as requests,
        ):
            check_nodes(ray, marker)
            attend_all(Cluster(ray, notes, marker), standings, at_once or len(jobs), requests, show)
    except KeyboardInterrupt:  # before Ray was there: nothing has begun
        return Ended(standings, True)
    return Ended(standings, bool(requests))


class Cluster(NamedTuple):
    ray: Any
    notes: Path
    marker: Path

    def submit(self, standing: Standing) -> Any:
        job = standing.job
        write_job(self.notes / f"{job.key}.json", job)
        task = self.ray.remote(num_cpus=1, max_retries=RETRIES)(attend)
        return task.options(name=job.key).remote(order_for(job, self.notes, self.marker))

    def has_begun(self, standing: Standing) -> bool:
        return Path(order_for(standing.job, self.notes, self.marker).errors).exists()


def attend_all(
    cluster: Cluster, standings: list[Standing], at_once: int, requests: list[int], show: Show
) -> None:
    ray, waiting, told, shown_at = cluster.ray, list(standings), 0, -REFRESH_SECONDS
    under_way: dict[Any, Standing] = {}
    while under_way or (waiting and not requests):
        while waiting and len(under_way) < at_once and not requests:
            standing = waiting.pop(0)
            if not done_meanwhile(standing):
                under_way[cluster.submit(standing)] = standing
        if len(requests) > told:
            for task in under_way:  # the second time without waiting for them to save
                ray.cancel(task, force=told > 0)
            told = len(requests)
        for task in ended_among(ray, list(under_way)):
            conclude(cluster, under_way.pop(task), task, bool(requests))
        if time.monotonic() - shown_at >= REFRESH_SECONDS:
            for standing in under_way.values():
                if standing.stage == "waiting" and cluster.has_begun(standing):
                    note_beginning(standing)
            refresh(standings)
            show(standings)
            shown_at = time.monotonic()
    for standing in standings:
        if standing.stage == "elsewhere":
            done_meanwhile(standing)
    refresh(standings)
    show(standings)


def ended_among(ray: Any, tasks: list[Any]) -> list[Any]:
    if not tasks:
        return []
    ended, _ = ray.wait(tasks, num_returns=len(tasks), timeout=POLL_SECONDS)
    return list(ended)


def conclude(cluster: Cluster, standing: Standing, task: Any, stopping: bool) -> None:
    """What became of a task that has ended."""
    ray, notes = cluster.ray, cluster.notes
    errors = Path(order_for(standing.job, notes, cluster.marker).errors)
    refresh([standing])
    try:
        end(standing, ray.get(task), errors, notes)
        return
    except ray.exceptions.RayTaskError as error:
        standing.stage = "failed"
        standing.error = f"on one of the nodes: {last_line(error.cause)}"
    except ray.exceptions.RayError as error:
        if stopping:
            standing.stage = "stopped" if errors.exists() else "waiting"
        else:
            standing.stage = "failed"
            standing.error = f"given up after {RETRIES + 1} tries, the last of which Ray lost: "
            standing.error += " ".join(str(error).split())[:200]
    errors.unlink(missing_ok=True)


def last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()


@contextmanager
def marked(notes: Path) -> Iterator[Path]:
    """A file that is locked here, by which other nodes are seen to have the same storage."""
    marker = create_temporary(notes)
    try:
        yield marker.path
    finally:
        with suppress(OSError):
            marker.path.unlink()
        os.close(marker.descriptor)


def check_nodes(ray: Any, marker: Path) -> None:
    """Refuse a cluster any of whose nodes could not run the grid's runs. One that joins later is
    looked at by the first task that it is given.
    """
    on = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
    looks = []
    for node in ray.nodes():
        if node["Alive"]:
            task = ray.remote(num_cpus=0, max_retries=0)(look_around)
            here = on(node["NodeID"], soft=False)
            looks.append((node, task.options(scheduling_strategy=here).remote(str(marker))))
    for node, look_task in looks:
        name = node.get("NodeManagerHostname") or node["NodeID"]
        try:
            looked = Looked(*ray.get(look_task, timeout=LOOK_SECONDS))
        except ray.exceptions.RayTaskError as error:
            raise ValueError(
                f"node {name} of the Ray cluster cannot run prudent ({last_line(error.cause)}); "
                "install the same version there"
            ) from None
        except ray.exceptions.RayError:
            continue  # it is lost or busy; others will do
        if looked.version != __version__:
            raise ValueError(
                f"node {name} of the Ray cluster has prudent {looked.version}, not {__version__}; "
                "install the same version there"
            )
        if looked.trouble:
            raise ValueError(
                f"node {name} of the Ray cluster cannot share the runs: {looked.trouble}; choose "
                "an --out on storage that all nodes share"
            )
