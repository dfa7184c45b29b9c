"""Where the tasks of a simulation run: in this process, in local processes, or on Ray.

All of them call `tasks.run_task`, with one BLAS thread, so all of them write the same bytes.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from multiprocessing.connection import wait as wait_for_handles
from typing import Any, Literal

from threadpoolctl import threadpool_limits

from prudent.backend import ONE_THREAD, usable_cores
from prudent.experiments.clusters import connected
from prudent_bidding.simulate import Engine, Stage
from prudent_bidding.tasks import Finished, Task, run_task

EngineName = Literal["local", "ray"]


def make_engine(name: EngineName, processes: int) -> Engine:
    if name == "ray":
        return on_ray
    if processes == 1:
        return in_this_process

    def local(stages: Sequence[Stage]) -> Iterator[Finished]:
        return in_processes(stages, processes)

    return local


def in_this_process(stages: Sequence[Stage]) -> Iterator[Finished]:
    for task in (task for stage in stages for chain in stage for task in chain):
        with threadpool_limits(1):
            result = run_task(task)
        yield result


def in_processes(stages: Sequence[Stage], processes: int) -> Iterator[Finished]:
    def next_done(running: Sequence[Future[Finished]]) -> Future[Finished]:
        return next(iter(wait_for(running, return_when=FIRST_COMPLETED).done))

    with one_thread_children(min(processes, max(map(len, stages)))) as pool:
        try:
            yield from follow(
                stages, lambda task: pool.submit(run_task, task), next_done, lambda f: f.result()
            )
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def one_thread_children(processes: int) -> ProcessPoolExecutor:
    # Inherited by the children, which read it when they import NumPy. Ours has been already.
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)
    context = multiprocessing.get_context("spawn")  # a process in which JAX runs must not fork
    return ProcessPoolExecutor(processes, mp_context=context, initializer=begin_child)


def begin_child() -> None:
    """Ctrl-C is left to the parent; the child ends when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for_handles([parent.sentinel])
    os._exit(1)


def on_ray(stages: Sequence[Stage]) -> Iterator[Finished]:
    """On the cluster that RAY_ADDRESS names, else on one of this machine alone. The data set's
    folder must be one that all its machines see.
    """
    with connected(None, len(usable_cores())) as ray:
        remote = ray.remote(num_cpus=1, runtime_env={"env_vars": dict(ONE_THREAD)})(run_task)

        def next_done(running: Sequence[Any]) -> Any:
            return ray.wait(list(running), num_returns=1)[0][0]

        yield from follow(stages, remote.remote, next_done, ray.get)


def follow(
    stages: Sequence[Stage],
    submit: Callable[[Task], Any],
    next_done: Callable[[Sequence[Any]], Any],
    result_of: Callable[[Any], Finished],
) -> Iterator[Finished]:
    """The next task of a chain is submitted when the one before it is done."""
    for stage in stages:
        rest = {submit(chain[0]): list(chain[1:]) for chain in stage if chain}
        while rest:
            done = next_done(list(rest))
            following = rest.pop(done)
            result = result_of(done)
            if following:
                rest[submit(following[0])] = following[1:]
            yield result
