"""How fast `prudent diagnose` steps its episodes, against the same environments alone.

    python benchmarks/diagnose.py [TASK ...] [--snapshots 3] [--episodes 100]

A short run is trained for its snapshots, with the paper's networks. Then, snapshot after snapshot
and in one process, first the pass measures it, and after that its very episodes are stepped again
bare: the same starts and actions in as many environments of Gymnasium, in the same order, with no
policy, no adapter and nothing kept. Resets count in both, compilation (once per run) in neither.
The ratio of the two speeds is what is asked for. It is taken of seconds of CPU time, all threads of
the process included, so that it means something on a machine that is in use; by the clock stands
beside it.
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

os.environ.setdefault("JAX_CPU_ENABLE_ASYNC_DISPATCH", "false")  # as `prudent diagnose` sets it

import numpy as np

import prudent
from prudent.diagnostics import run as pass_over
from prudent.diagnostics.episodes import Visited
from prudent.tasks import TASKS
from prudent.tasks.adapter import AdaptedEnv, open_several

TARGET = 0.5
TASK_NAMES = ("orbit", "hopper-velocity", "point-button1")


def train(task: str, folder: Path, snapshots: int) -> None:
    steps = 10 * snapshots
    schedule = {"warmup_steps": 300, "updates_per_step": 1, "batch_size": 12}
    often = {"snapshot_every": 10, "evaluate_every": steps, "evaluation_episodes": 1}
    prudent.train("cal", task=task, out=folder, quiet=True, steps=steps, **schedule, **often)


def step_bare(
    environments: Sequence[AdaptedEnv], episodes: Sequence[Visited], seeds: Sequence[int]
) -> np.ndarray:
    """Steps per second of those episodes with nothing around them: by CPU time, by the clock."""
    bare = [environment.unwrapped for environment in environments]
    to_environment = environments[0].to_environment
    waiting = iter(
        [(s, list(to_environment(e.actions))) for s, e in zip(seeds, episodes, strict=True)]
    )
    count, running = sum(len(episode.costs) for episode in episodes), {}
    started = clocks()
    for env in bare:
        begin(env, running, waiting)
    while running:
        for env, actions in tuple(running.items()):
            env.step(next(actions))
            if not actions.__length_hint__():
                begin(env, running, waiting)
    return count / (clocks() - started)


def clocks() -> np.ndarray:
    return np.array([process_time(), perf_counter()])


def begin(env: Any, running: dict[Any, Any], waiting: Any) -> None:
    running.pop(env, None)
    seed, actions = next(waiting, (0, None))
    if actions is not None:
        env.reset(seed=seed)
        running[env] = iter(actions)


def compare(task: str, folder: Path, snapshots: int, episodes: int) -> None:
    train(task, folder, snapshots)
    played: list[Any] = []
    play: Callable[..., Any] = pass_over.play
    environments = open_several(TASKS[task], min(pass_over.TOGETHER, episodes))

    def recording(act: Any, own: Any, seeds: Any, *rest: Any) -> list[Visited]:
        started = clocks()
        found = play(act, own, seeds, *rest)
        speeds[:] = sum(len(episode.costs) for episode in found) / (clocks() - started)
        played[:] = [found, seeds]
        return found

    ratios, speeds = [], np.zeros(2)

    def step_again(line: dict[str, Any]) -> None:
        bare = step_bare(environments, *played)
        ratios.append(speeds[0] / bare[0])
        print(
            f"{task}, snapshot of step {line['step']}: {line['steps_taken']} steps; diagnose "
            f"{speeds[0]:.0f}/s, bare {bare[0]:.0f}/s, ratio {ratios[-1]:.2f} (by the clock "
            f"{speeds[1]:.0f}/s, {bare[1]:.0f}/s, {speeds[1] / bare[1]:.2f})",
            flush=True,
        )

    pass_over.play = recording
    try:
        plan = pass_over.Plan(episodes)
        pass_over.diagnose(folder, plan, watcher=pass_over.Watcher(measured=step_again))
    finally:
        pass_over.play = play
    verdict = "reached" if median(ratios) >= TARGET else "MISSED"
    print(f"{task}: median ratio {median(ratios):.2f}, target {TARGET} {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", default=TASK_NAMES)
    parser.add_argument("--snapshots", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        for task in options.tasks:
            compare(task, Path(home) / task, options.snapshots, options.episodes)


if __name__ == "__main__":
    main()
