"""The library from Python: train, resume, load, evaluate, export."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from prudent import backend
from prudent.algorithms import ALGORITHMS, find_algorithm
from prudent.algorithms.resolve import make_run, preset_named, resolved
from prudent.files import new_run_folder
from prudent.policies.exported import ExportedPolicy
from prudent.runs.stored import StoredRun, mark_of, read_stored
from prudent.settings.registration import OURS, SCRIPT, Registry
from prudent.settings.run import Run
from prudent.settings.schedules import OnPolicySchedule, SemiBatchSchedule
from prudent.tasks import TASKS
from prudent.tasks.adapter import describe_spaces, open_environment, probe
from prudent.tasks.costs import Cost
from prudent.tasks.recorded import (
    Environment,
    check_same_environment,
    check_same_task,
    name_task,
    task_of,
)
from prudent.tasks.task import Task
from prudent.training.reporter import PACKAGES, SINKS, Reporter, start_line

if TYPE_CHECKING:  # JAX is imported only when something is computed
    from prudent.policies.policy import Policy
    from prudent.training.replay_collector import Warmup


class Result(NamedTuple):
    folder: Path
    evaluation: dict[str, Any]  # the last one: return, cost, length, within_budget


class Extras(NamedTuple):
    """What a run is given besides its settings."""

    warmup: Any = None
    init_from: str | Path | None = None
    callbacks: Sequence[Callable[[dict[str, Any]], Any]] = ()
    log: Sequence[str] = ()
    quiet: bool = False


def train(
    algorithm: str = "cal",
    *,
    task: str | None = None,
    env: Environment | None = None,
    cost: Cost | None = None,
    budget: float | None = None,
    horizon: int | None = None,
    discounted: bool | None = None,
    negative_costs: bool = False,
    cost_range: tuple[float, float] | None = None,
    preset: str | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    warmup: Any = None,
    init_from: str | Path | None = None,
    callbacks: Sequence[Callable[[dict[str, Any]], Any]] = (),
    log: Sequence[str] = (),
    quiet: bool = False,
    **values: Any,
) -> Result:
    """Train on one of our tasks (`task`) or on any Gymnasium environment (`env`).

    `env` is a function that makes the environment, an environment, `module:callable`, or a
    Gymnasium id; it needs a `budget` (cost allowed per episode; a plain sum unless `discounted`)
    and a `horizon` (steps per episode). `cost` says where a step's cost comes from, if not from
    `info["cost"]`: the key of another entry of `info`, or a function of (observation, action,
    reward, terminated, truncated, info). A budget below 0 needs `negative_costs`. `cost_range` is
    the least and the largest cost a step can have, for settings that make use of it.

    `warmup` replaces the first, untrained steps: a policy (observation -> action) or logged
    transitions (see `prudent.training.warmup`). `init_from` is the folder of a run whose policy is
    the first one here. Each of `callbacks` is called with every line of `progress.jsonl`; where one
    returns something true or raises, the run is saved and stops. Any setting of the algorithm or
    its schedule is an argument too (`prudent train ALGORITHM --task TASK --help` shows them).
    """
    entry = find_algorithm(algorithm)
    limits = budget, horizon, discounted
    how = {"cost": cost, "negative_costs": negative_costs, "cost_range": cost_range}
    found = name_task(task, env, limits, **how)
    preset = preset_named(entry, found, preset)
    chosen = resolved(entry, found, preset, values)
    run = make_run(algorithm, found, preset, seed, chosen)
    extras = Extras(warmup, init_from, callbacks, log, quiet)
    return start(run, found, Path(out) if out else default_folder(run), extras)


def semi_batch(
    algorithm: str = "cal",
    *,
    deployments: int = 5,
    steps_per_deployment: int = 2_000,
    updates_per_deployment: int | None = None,
    **arguments: Any,
) -> Result:
    """Deploy a fixed policy, add its log, learn offline, and so on; all else as in `train`.

    By default as many updates follow a deployment as the preset makes in as many steps. The first
    policy deployed is the untrained one, that of the run `init_from`, or one that has learned from
    the log `warmup` already. The result is about the last deployment.
    """
    return train(
        algorithm,
        deployments=deployments,
        steps_per_deployment=steps_per_deployment,
        updates_per_deployment=updates_per_deployment,
        **arguments,
    )


def default_folder(run: Run, runs: Path = Path("runs")) -> Path:
    setting = f"{run.preset}-{run.identity()}"
    return runs / in_a_name(run.task) / run.algorithm / setting / f"seed-{run.seed}"


def in_a_name(text: str) -> str:
    """With what a file's name had better not hold replaced."""
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in text)


def start(run: Run, task: Task, folder: Path, extras: Extras) -> Result:
    """Train a new run into a folder that is not there yet, or empty.

    The folder is held before anything is looked at, and a set-up that fails leaves nothing behind.
    """
    check_extras(extras)
    with new_run_folder(folder):
        probe(task)
        backend.prepare()
        from prudent.runs.initial import (
            check_initial,
            mark_of_policy,
            policy_of_run,
            write_initial,
        )
        from prudent.runs.record import write_run
        from prudent.training.contract import check_algorithm
        from prudent.training.learner import make_spec
        from prudent.training.warmup import with_warmup

        environment = open_environment(task)
        try:
            run, first_steps, rows = with_warmup(run, extras.warmup, environment)
        finally:
            environment.close()
        initial = {} if rows is None else {"rows": rows}
        if extras.init_from is not None:
            initial |= policy_of_run(Path(extras.init_from))
            run = replace(run, init_from=mark_of_policy(initial))
        spec = make_spec(environment, run.critic_budget(), run.cost_ahead())
        check_initial(run, spec, initial)
        check_algorithm(run, spec)
        facts = {
            "spec": spec._asdict(),
            "spaces": describe_spaces(environment),
            "deterministic_reset": task.deterministic_reset,
            "packages": packages_of(run),
        }
        write_initial(folder, initial)
        write_run(folder, run, facts)
        mark = mark_of(run.identity(), run.seed)
        return _train(run, mark, task, folder, first_steps, extras)


def packages_of(run: Run) -> list[str]:
    """Those, besides this one, that the run's algorithm and task come from."""
    names: list[tuple[Registry[Any], str]] = [(ALGORITHMS, run.algorithm), (TASKS, run.task)]
    sources = {registry.source(name) for registry, name in names if name in registry}
    return sorted(s for s in sources if s != SCRIPT and s.split()[0] != OURS)


def note_packages(folder: Path, stored: StoredRun) -> None:
    """Tell where the run's algorithm or task is of another package, or version, than it was."""
    now = packages_of(stored.run)
    then = stored.content.get("packages", now)
    if then != now:
        was, found = (" and ".join(names) or "no package besides prudent" for names in (then, now))
        print(f"prudent: {folder} was trained with {was}; here is {found}", file=sys.stderr)


def resume(
    folder: str | Path,
    *,
    steps: int | None = None,
    env: Environment | None = None,
    cost: Cost | None = None,
    warmup: Any = None,
    callbacks: Sequence[Callable[[dict[str, Any]], Any]] = (),
    log: Sequence[str] = (),
    quiet: bool = False,
) -> Result:
    """Go on with a run that was stopped, as if it never had been.

    With `steps`, to that many instead of those it was given: finished or not, it becomes the run
    that had them from the start. Its folder stays where it is.

    `env` is needed where the run's environment is neither a task known here nor a registered
    Gymnasium id, `cost` where it was a function, `warmup` where the run stopped during its warm-up
    with a policy.
    """
    folder = Path(folder)
    stored = read_stored(folder)
    extras = Extras(warmup, None, callbacks, log, quiet)
    check_extras(extras)
    task = task_of(stored.run, env, cost)
    note_packages(folder, stored)
    backend.prepare()
    from prudent.training.warmup import with_warmup

    environment = open_environment(task)
    try:
        if env is not None:
            check_same_environment(environment, stored)
        same_run, first_steps, _ = with_warmup(stored.run, warmup, environment)
    finally:
        environment.close()
    if warmup is not None and same_run != stored.run:
        began, given = stored.run.warmup, same_run.warmup
        raise ValueError(f"{folder}: began with warm-up {began}, not {given}")
    if steps is not None or "earlier_steps" in stored.content:
        from prudent.runs.prolong import prolong

        stored = prolong(folder, stored.run.schedule.steps if steps is None else steps, task.shared)
    return _train(stored.run, stored.mark, task, folder, first_steps, extras)


def _train(
    run: Run, mark: str, task: Task, folder: Path, first_steps: "Warmup", extras: Extras
) -> Result:
    from prudent.runs.initial import read_initial
    from prudent.training.off_policy import train as train_off_policy
    from prudent.training.on_policy import train as train_on_policy
    from prudent.training.semi_batch import train as train_in_deployments
    from prudent.training.session import Place

    reporter = Reporter(extras.quiet, [SINKS[name](folder) for name in extras.log])
    reporter.say(start_line(run, folder))
    initial = read_initial(folder, run)
    place = Place(run, task, folder, mark, reporter, initial, tuple(extras.callbacks))
    if isinstance(run.schedule, OnPolicySchedule):
        last = train_on_policy(place)
    elif isinstance(run.schedule, SemiBatchSchedule):
        last = train_in_deployments(place)
    else:
        last = train_off_policy(place, first_steps)
    return Result(folder, last["evaluation"])


def load(folder: str | Path, *, step: int | None = None) -> "Policy":
    """The policy of a run: call it with an observation to get an action.

    By default as of the newest checkpoint; `step` picks a snapshot.
    """
    backend.prepare()
    from prudent.policies.policy import load_policy

    folder = Path(folder)
    stored = read_stored(folder)
    note_packages(folder, stored)
    return load_policy(folder, stored, step)


def export(
    folder: str | Path,
    path: str | Path,
    *,
    step: int | None = None,
    env: Environment | None = None,
) -> ExportedPolicy:
    """Write a run's policy as one file that acts without JAX; `load_exported` reads it.

    A `path` that ends in `.onnx` becomes an ONNX model (extra `onnx`), one that ends in
    `.safetensors` or not at all the plain numbers. A run's own folder is left alone. With `env`,
    only if the policy fits that environment.
    """
    backend.prepare()
    from prudent.policies.export import check_target, export_policy

    check_target(Path(path))
    policy = load(folder, step=step)
    stored = read_stored(Path(folder))
    if env is not None:
        check_same_task(task_of(stored.run, env), stored)
    return export_policy(policy, stored.run, Path(path))


def evaluate(
    folder: str | Path,
    *,
    episodes: int = 10,
    step: int | None = None,
    seed: int | None = None,
    env: Environment | None = None,
    cost: Cost | None = None,
    video: str | Path | None = None,
) -> dict[str, Any]:
    """Fresh episodes of a run's policy: mean, 95 % interval, share within the budget.

    Where these succeed and the `video` does not, `prudent.policies.video.VideoFailed` is raised,
    which has them as its `results`.
    """
    if episodes < 1:
        raise ValueError(f"--episodes is {episodes}; it must be a whole number at least 1")
    if seed is not None and seed < 0:
        raise ValueError(f"--seed is {seed}; it must be a whole number at least 0")
    stored = read_stored(Path(folder))
    task = task_of(stored.run, env, cost)
    policy = load(folder, step=step)
    from prudent.policies.policy import evaluate_policy
    from prudent.policies.video import check_video_path, film

    if video is not None:
        check_video_path(Path(video))
    check_same_task(task, stored)
    results = evaluate_policy(policy, stored.run, task, episodes, seed)
    if video is not None:
        film(policy, stored.run, task, Path(video), results)
    return results


def check_extras(extras: Extras) -> None:
    for name in extras.log:
        if name not in SINKS:
            raise ValueError(
                f"log: no place {name!r} to send progress to; there is: {', '.join(SINKS)}"
            )
        if find_spec(PACKAGES[name]) is None:
            raise ValueError(f"--log {name} needs an extra: pip install 'prudent[{name}]'")
    for callback in extras.callbacks:
        if not callable(callback):
            raise ValueError(f"callbacks: {callback!r} is not callable")
