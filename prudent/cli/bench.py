"""`prudent bench`."""

import os
from dataclasses import dataclass
from typing import Any, Literal

from prudent import backend
from prudent.algorithms import find_algorithm
from prudent.cli.options import AlgorithmName, TaskName
from prudent.files import to_json
from prudent.settings.checks import Count, CountOrZero
from prudent.settings.schedules import OnPolicySchedule

# What measures imports JAX, so it is imported only when it is needed, after `backend.prepare`.


CAL = AlgorithmName("cal")


@dataclass(frozen=True)
class BenchOptions:
    algorithm: AlgorithmName = CAL
    """Whose update to measure."""
    env: TaskName | None = None
    """Measure this task's environment against its bare physics instead."""
    policy: bool = False
    """Measure one action of its policy instead, for each way to load one (extra `onnx`)."""
    batch_sizes: tuple[Count, ...] = (12, 256)
    """Of an off-policy learner."""
    environments: tuple[Count, ...] = (1, 8)
    """Of an on-policy learner, which is measured with all it does against a bare environment."""
    epochs: Count = 10
    """Of an on-policy learner, after a first one that compiles."""
    core: CountOrZero | None = None
    """The core to stay on (default: the last one this process may use)."""
    json: bool = False
    part: Literal["all", "first-update"] = "all"
    """`first-update` is what the start-up measurement runs in a process of its own."""
    started: float = 0.0
    """With it, when that process was started (seconds since the epoch)."""


def bench(options: BenchOptions) -> None:
    entry = find_algorithm(options.algorithm)
    backend.prepare()
    usable = os.sched_getaffinity(0)
    core = max(usable) if options.core is None else options.core
    if core not in usable:
        raise ValueError(f"--core is {core}; this process may use {sorted(usable)}")
    os.sched_setaffinity(0, {core})
    if options.part == "first-update":
        from prudent.bench.start import first_update

        first_update(options.started)
    elif options.policy:
        report_policies(options)
    elif entry.schedule is OnPolicySchedule:
        report_epochs(options)
    elif options.env is not None:
        report_environment(options.env, options.json)
    else:
        report_updates(options)


def report_epochs(options: BenchOptions) -> None:
    from prudent.bench.epochs import measure_epochs

    results = []
    for environments in options.environments:
        found = measure_epochs(options.algorithm, environments, options.epochs)
        results.append(found)
        if not options.json:
            print(
                f"environments: {environments}; {found['steps_per_second']:.0f} steps/s, "
                f"{found['bare_ratio']:.2f} of the bare environment's "
                f"({found['bare_steps_per_second']:.0f}), {found['passes']:.0f} passes an epoch; "
                f"five million in {found['minutes_for_five_million']:.0f} minutes, "
                f"{found['resident_memory_bytes'] / 2**20:.0f} MiB",
                flush=True,
            )
    if options.json:
        print(to_json({"algorithm": options.algorithm, "epochs": results}, indent=2))


def report_policies(options: BenchOptions) -> None:
    from prudent.bench.policies import measure_policies

    seconds = measure_policies(options.algorithm)
    if options.json:
        print(to_json({"algorithm": options.algorithm, "action_seconds": seconds}, indent=2))
        return
    for loaded_by, each in seconds.items():
        print(f"one action of {options.algorithm} by {loaded_by}: {1e6 * each:.1f} us")


def report_environment(name: str, as_json: bool) -> None:
    from prudent.bench.environments import measure_environment

    found = measure_environment(name)
    if as_json:
        print(to_json({"task": name, **found}, indent=2))
        return
    print(
        f"{name}: {found['environment_steps_per_second']:.0f} steps/s, "
        f"{found['physics_ratio']:.2f} of its physics alone "
        f"({found['bare_physics_steps_per_second']:.0f}); "
        f"reset {1000 * found['reset_seconds']:.2f} ms"
    )


def report_updates(options: BenchOptions) -> None:
    from prudent.bench.learners import measure_step, measure_update
    from prudent.bench.start import measure_start

    # First, while this process is small: a child begins with the peak memory of its parent.
    start = measure_start()
    updates = [measure_update(options.algorithm, batch) for batch in options.batch_sizes]
    results: dict[str, Any] = {"algorithm": options.algorithm, "updates": updates}
    results |= measure_step(options.algorithm) | start
    if options.json:
        first = {"updates_per_second": updates[0]["updates_per_second"]}
        print(to_json({**first, **results}, indent=2))
        return
    for update in updates:
        print(f"batch {update['batch_size']}: {update['updates_per_second']:.0f} updates/s")
    print(
        f"environment {results['environment_steps_per_second']:.0f} steps/s; one step outside its "
        f"updates adds {results['outside_share']:.1%} to ten updates\n"
        f"first update after {results['warm_start_seconds']:.1f} s "
        f"({results['cold_start_seconds']:.1f} s with nothing compiled yet); "
        f"{results['resident_memory_bytes'] / 2**20:.0f} MiB with a full replay"
    )
