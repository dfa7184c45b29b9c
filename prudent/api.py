"""The library from Python: train, semi_batch, resume, load, export, evaluate."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from prudent import backend
from prudent.agent import Agent
from prudent.policies.exported import ExportedPolicy
from prudent.tasks.costs import Cost
from prudent.tasks.recorded import Environment, check_same_task, task_of

if TYPE_CHECKING:  # JAX is imported only when something is computed
    from prudent.policies.policy import Policy


class Result(NamedTuple):
    folder: Path
    evaluation: dict[str, Any]  # the last one: return, cost, length, within_budget


def train(algorithm: str = "cal", *, out: str | Path | None = None, **arguments: Any) -> Result:
    """Train to the end of what the settings ask for; all arguments are those of `Agent`.

    Without `out` the folder is `runs/TASK/ALGORITHM/PRESET-HASH/seed-N`.
    """
    backend.prepare()
    from prudent.runs.folder import default_folder

    agent = Agent(algorithm, out=out or default_folder, **arguments)
    return Result(agent.folder, agent.learn())


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


def resume(folder: str | Path, *, steps: int | None = None, **arguments: Any) -> Result:
    """Go on with a run that was stopped, as if it never had been.

    With `steps`, to that many instead of those it was given: finished or not, it becomes the run
    that had them from the start. Its folder stays where it is. The other arguments are those of
    `Agent.load`.
    """
    agent = Agent.load(folder, **arguments)
    return Result(agent.folder, agent.learn(until=steps))


def load(folder: str | Path, *, step: int | None = None) -> "Policy":
    """The policy of a run: call it with an observation to get an action.

    By default as of the newest checkpoint; `step` picks a snapshot.
    """
    backend.prepare()
    from prudent.policies.policy import load_policy
    from prudent.runs.folder import note_packages, read_run

    stored = read_run(folder)
    note_packages(stored)
    return load_policy(stored, step)


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
    from prudent.runs.folder import read_run

    check_target(Path(path))
    policy, stored = load(folder, step=step), read_run(folder)
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
    backend.prepare()
    from prudent.policies.policy import evaluate_policy
    from prudent.policies.video import check_video_path, film
    from prudent.runs.folder import read_run

    stored = read_run(folder)
    task = task_of(stored.run, env, cost)
    policy = load(folder, step=step)
    if video is not None:
        check_video_path(Path(video))
    check_same_task(task, stored)
    results = evaluate_policy(policy, stored.run, task, episodes, seed)
    if video is not None:
        film(policy, stored.run, task, Path(video), results)
    return results
