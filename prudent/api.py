"""The library from Python: train, resume, load, evaluate, export."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium

from prudent import backend
from prudent.algorithms import find_algorithm
from prudent.algorithms.entry import Settings, preset_named, settings, with_values
from prudent.configs import OnPolicySchedule, Run, checked_run
from prudent.exported import ExportedPolicy
from prudent.tasks.adapter import describe_spaces, open_environment, probe
from prudent.tasks.custom import find_task
from prudent.tasks.task import Task
from prudent.training.stored import mark_of, read_stored

if TYPE_CHECKING:  # JAX is imported only when something is computed
    from prudent.training.policy import Policy
    from prudent.training.replay_collector import Warmup

MakeEnvironment = Callable[..., gymnasium.Env]


class Result(NamedTuple):
    folder: Path
    evaluation: dict[str, Any]  # the last one: return, cost, length, within_budget


def train(
    algorithm: str = "cal",
    *,
    task: str | None = None,
    env: MakeEnvironment | str | None = None,
    budget: float | None = None,
    horizon: int | None = None,
    discounted: bool | None = None,
    preset: str | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    warmup: Any = None,
    log: Sequence[str] = (),
    quiet: bool = False,
    **values: Any,
) -> Result:
    """Train on one of our tasks (`task`) or on any Gymnasium environment (`env`).

    `env` is a function that makes the environment, `module:callable`, or a Gymnasium id; it needs
    a `budget` (cost allowed per episode; a plain sum unless `discounted`) and a `horizon` (steps
    per episode). `warmup` replaces the first, untrained steps: a policy (observation -> action) or
    logged transitions (see `prudent.training.warmup`). Any setting of the algorithm or its
    schedule is an argument too (`prudent train ALGORITHM --task TASK --help` shows them).
    """
    entry = find_algorithm(algorithm)
    found = name_task(task, env, budget, horizon, discounted)
    preset = preset_named(entry, found, preset)
    run = make_run(
        algorithm, found, preset, seed, with_values(settings(entry, found, preset), values)
    )
    return start(run, found, Path(out) if out else default_folder(run), warmup, log, quiet)


def name_task(
    task: str | None,
    env: MakeEnvironment | str | None,
    budget: float | None,
    horizon: int | None,
    discounted: bool | None,
) -> Task:
    if (task is None) == (env is None):
        raise ValueError("name either a task (`prudent list` shows them) or an env, and one only")
    if callable(env):
        return find_task(callable_name(env), env, budget, horizon, discounted)
    return find_task(task or env or "", None, budget, horizon, discounted)


def callable_name(make: Callable[..., Any]) -> str:
    """`module:name`, by which the command line finds it again if it can be imported at all."""
    return f"{getattr(make, '__module__', 'custom')}:{getattr(make, '__qualname__', 'env')}"


def make_run(algorithm: str, task: Task, preset: str, seed: int, chosen: Settings) -> Run:
    return checked_run(
        Run(
            algorithm=algorithm,
            task=task.name,
            preset=preset,
            seed=seed,
            config=chosen.config,
            schedule=chosen.schedule,
            budget=task.constraint.budget,
            discounted=task.constraint.discounted,
            horizon=task.horizon,
        )
    )


def default_folder(run: Run) -> Path:
    task = "".join(c if c.isalnum() or c in "-_." else "-" for c in run.task)
    setting = f"{run.preset}-{run.identity()}"
    return Path("runs") / task / run.algorithm / setting / f"seed-{run.seed}"


def start(
    run: Run, task: Task, folder: Path, warmup: Any, log: Sequence[str], quiet: bool
) -> Result:
    """Train a new run into an empty folder."""
    if (folder / "run.json").exists():
        raise ValueError(
            f"{folder} holds a run already: go on with `prudent resume {folder}`, or choose "
            "another folder with --out"
        )
    probe(task)
    backend.prepare()
    from prudent.training.learner import make_spec
    from prudent.training.record import write_run
    from prudent.training.warmup import with_warmup

    environment = open_environment(task)
    try:
        run, first_experience = with_warmup(run, warmup, environment)
    finally:
        environment.close()
    spec = make_spec(environment, run.critic_budget())
    folder.mkdir(parents=True, exist_ok=True)
    extra = {
        "spec": spec._asdict(),
        "spaces": describe_spaces(environment),
        "deterministic_reset": task.deterministic_reset,
    }
    write_run(folder, run, extra)
    return _train(
        run, mark_of(run.identity(), run.seed), task, folder, first_experience, log, quiet
    )


def resume(
    folder: str | Path,
    *,
    env: MakeEnvironment | None = None,
    warmup: Any = None,
    log: Sequence[str] = (),
    quiet: bool = False,
) -> Result:
    """Go on with a run that was stopped, as if it never had been.

    `env` is needed only where the run's environment cannot be imported by name; `warmup` only where
    the run stopped during its warm-up.
    """
    folder = Path(folder)
    run, mark, _ = read_stored(folder)
    task = task_of(run, env)
    backend.prepare()
    from prudent.training.warmup import with_warmup

    environment = open_environment(task)
    try:
        same_run, first_experience = with_warmup(run, warmup, environment)
    finally:
        environment.close()
    if warmup is not None and same_run != run:
        raise ValueError(f"{folder}: began with warm-up {run.warmup}, not {same_run.warmup}")
    return _train(run, mark, task, folder, first_experience, log, quiet)


def _train(
    run: Run,
    mark: str,
    task: Task,
    folder: Path,
    warmup: "Warmup",
    log: Sequence[str],
    quiet: bool,
) -> Result:
    from prudent.training.off_policy import train as train_off_policy
    from prudent.training.on_policy import train as train_on_policy
    from prudent.training.reporter import SINKS, Reporter
    from prudent.training.session import Place

    reporter = Reporter(quiet, [SINKS[name](folder) for name in log])
    reporter.say(start_line(run, folder))
    place = Place(run, task, folder, mark, reporter)
    if isinstance(run.schedule, OnPolicySchedule):
        last = train_on_policy(place)
    else:
        last = train_off_policy(place, warmup)
    return Result(folder, last["evaluation"])


def start_line(run: Run, folder: Path) -> str:
    schedule = run.schedule
    if isinstance(schedule, OnPolicySchedule):
        plan = f"{schedule.steps} steps in epochs of {schedule.epoch_steps}"
        seen = "held against the mean cost of finished episodes"
    else:
        plan = f"{schedule.steps} steps after {schedule.warmup_steps} of warm-up"
        seen = (
            f"which the critic sees as {run.critic_budget():.6g} "
            f"(discounted by {run.config.cost_discount:g})"
        )
    return (
        f"{run.algorithm} on {run.task}, preset {run.preset}, seed {run.seed}, {plan}\n"
        f"budget {run.budget:g} ({run.constraint.unit}, {run.horizon} steps), {seen}\n"
        f"into {folder}"
    )


def task_of(run: Run, env: MakeEnvironment | None = None) -> Task:
    try:
        return find_task(
            run.task, env, run.budget, run.horizon, run.discounted, negative_costs=True
        )
    except ValueError as error:
        raise ValueError(f"{error}. Pass the run's environment with env=...") from None


def load(folder: str | Path, *, step: int | None = None) -> "Policy":
    """The policy of a run: call it with an observation to get an action.

    By default as of the newest checkpoint; `step` picks a snapshot.
    """
    backend.prepare()
    from prudent.training.policy import load_policy

    folder = Path(folder)
    return load_policy(folder, read_stored(folder), step)


def export(folder: str | Path, path: str | Path, *, step: int | None = None) -> ExportedPolicy:
    """Write a run's policy as one file that acts without JAX; `load_exported` reads it."""
    policy = load(folder, step=step)
    from prudent.training.export import export_policy

    return export_policy(policy, read_stored(Path(folder)).run, Path(path))


def evaluate(
    folder: str | Path,
    *,
    episodes: int = 10,
    step: int | None = None,
    seed: int | None = None,
    env: MakeEnvironment | None = None,
    video: str | Path | None = None,
) -> dict[str, Any]:
    """Fresh episodes of a run's policy: mean, 95 % interval, share within the budget.

    Where these succeed and the `video` does not, `prudent.training.video.VideoFailed` is raised,
    which has them as its `results`.
    """
    policy = load(folder, step=step)
    from prudent.training.policy import evaluate_policy
    from prudent.training.video import check_video_path, film

    if video is not None:
        check_video_path(Path(video))
    run = read_stored(Path(folder)).run
    task = task_of(run, env)
    results = evaluate_policy(policy, run, task, episodes, seed)
    if video is not None:
        film(policy, run, task, Path(video), results)
    return results
