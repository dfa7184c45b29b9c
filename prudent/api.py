"""What is done with a run's policy from Python: load, export, evaluate."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from prudent import backend
from prudent.policies.exported import ExportedPolicy
from prudent.tasks.costs import Cost
from prudent.tasks.finding import Environment, check_same_task, task_of

if TYPE_CHECKING:  # JAX is imported only when something is computed
    from prudent.policies.policy import Policy


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
