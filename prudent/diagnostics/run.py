"""One pass over a run's snapshots, which writes `diagnostics.jsonl` beside the run's records.

One line per snapshot, by step. The file is replaced as a whole after each, so that a pass that is
killed leaves whole lines, and the next computes only what is missing. All lines of a file are made
with the same episodes. A snapshot that has changed since is measured again.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from prudent.diagnostics.episodes import Visited, play
from prudent.diagnostics.gap import describe_dual, describe_gap, describe_oracle, oracle_of
from prudent.diagnostics.snapshots import Snapshot, Subject, snapshots_in, subject_of
from prudent.files import to_json, write_atomically
from prudent.report.diagnostics import DIAGNOSTICS, FORMAT, read_diagnostics
from prudent.report.records import read_record
from prudent.runs.checkpoint import DamagedCheckpoint
from prudent.runs.folder import read_run
from prudent.settings.run import Run
from prudent.tasks.adapter import AdaptedEnv, open_several
from prudent.tasks.episodes import EVALUATION_SEED, episode_seed
from prudent.tasks.finding import Environment, check_same_environment, task_of

TOGETHER = 100  # environments that are stepped together, so that calls of the policy are few

Line = dict[str, Any]


class Plan(NamedTuple):
    """What is measured with, the same for all lines of a file."""

    episodes: int = 100
    seed: int = EVALUATION_SEED

    def stated(self) -> Line:
        return {"format": FORMAT, **self._asdict()}


class Watcher(NamedTuple):
    """Who is told how a pass goes."""

    begins: Callable[[int], object] = lambda snapshots: None  # that many are to be measured
    episode_ended: Callable[[], object] = lambda: None
    measured: Callable[[Line], object] = lambda line: None
    complain: Callable[[str], object] = lambda text: None


def check_alike(folder: Path, lines: Sequence[Line], plan: Plan) -> None:
    for line in lines:
        for name, asked in plan.stated().items():
            if line.get(name) != asked:
                raise ValueError(
                    f"{folder / DIAGNOSTICS} was made with {name} {line.get(name)}, not {asked}; "
                    "ask for the same, or move the file away to measure all snapshots again"
                )


DEFAULT_PLAN, NOBODY = Plan(), Watcher()


def diagnose(
    folder: Path,
    plan: Plan = DEFAULT_PLAN,
    env: Environment | None = None,
    watcher: Watcher = NOBODY,
) -> list[Line]:
    """Measure the snapshots that were not measured yet; returns the lines of all."""
    stored = read_run(folder)
    task = task_of(stored.run, env)
    known = read_diagnostics(folder)
    check_alike(folder, known, plan)
    measured = {(line["step"], line["snapshot"]) for line in known}
    snapshots = snapshots_in(folder)
    if not snapshots:
        watcher.complain(f"{folder}: no snapshots; they are kept every `snapshot_every` steps")
    missing = [s for s in snapshots if (s.step, s.checksum) not in measured]
    watcher.begins(len(missing))
    if not missing:
        return known
    environments = open_several(task, min(TOGETHER, plan.episodes))
    try:
        check_same_environment(environments[0], stored)
        subject, progress = subject_of(folder, stored), read_record(folder).progress
        stage = Stage(stored.run, subject, environments, progress)
        for snapshot in missing:
            try:
                line = measure(stage, snapshot, plan, watcher.episode_ended)
            except DamagedCheckpoint as damage:
                watcher.complain(f"left out: {damage}")
                continue
            add_line(folder, line, plan)
            watcher.measured(line)
    finally:
        for environment in environments:
            environment.close()
    return read_diagnostics(folder)


class Stage(NamedTuple):
    """What all snapshots of a run are measured on."""

    run: Run
    subject: Subject
    environments: Sequence[AdaptedEnv]
    progress: Sequence[Line]  # the run's record


def measure(
    stage: Stage, snapshot: Snapshot, plan: Plan, episode_ended: Callable[[], object]
) -> Line:
    run, subject = stage.run, stage.subject
    state = subject.read(snapshot.step)
    seeds = [episode_seed(plan.seed, index) for index in range(plan.episodes)]
    act = subject.acting(state, seeds[0])
    first = stage.environments[0]
    act(np.zeros((len(stage.environments), first.observation_size)), 0)  # compiles it, once
    started = perf_counter()
    visited = play(act, stage.environments, seeds, run.horizon, episode_ended)
    seconds = perf_counter() - started
    oracle = oracle_of(as_taught(visited, run), run.config.cost_discount, time_limit_ends(run))
    line = {
        "step": snapshot.step,
        **plan.stated(),
        "cost_discount": run.config.cost_discount,
        "cost_budget": run.critic_budget(),
        "snapshot": snapshot.checksum,
        **describe_oracle(oracle),
    }
    if subject.estimating is not None:
        line |= describe_gap(visited, oracle, subject.estimating(state))
        line |= dual_signal(stage.progress, line)
    steps = sum(len(episode.costs) for episode in visited)
    return {**line, "steps_taken": steps, "steps_per_second": steps / seconds}


def time_limit_ends(run: Run) -> bool:
    """Whether the run's cost critics were taught that nothing follows a time limit."""
    return run.schedule.timeout_is_terminal and knows_ends(run)


def knows_ends(run: Run) -> bool:
    """Whether the run's cost critics were taught that there are ends at all."""
    return bool(getattr(run.config, "cost_mask", "task") == "task")


def as_taught(episodes: Sequence[Visited], run: Run) -> Sequence[Visited]:
    """Where critics look past every end, an episode that ended was cut for them."""
    if knows_ends(run):
        return episodes
    return [e._replace(cut=True, continues=np.ones_like(e.continues)) for e in episodes]


def dual_signal(progress: Sequence[Line], line: Line) -> Line:
    """Gap (B), from the record of training around the snapshot; nothing where there is none.

    Training's own estimate is the mean over the batches of all updates since the last evaluation.
    """
    entry = next((entry for entry in progress if entry["step"] >= line["step"]), None)
    if entry is None or "cost_estimate" not in entry.get("training", {}):
        return {}
    return {**describe_dual(line, entry["training"]["cost_estimate"]), "dual_step": entry["step"]}


def add_line(folder: Path, line: Line, plan: Plan) -> None:
    """Beside what is there by now: another pass may have written meanwhile."""
    known = read_diagnostics(folder)
    check_alike(folder, known, plan)
    others = [other for other in known if other["step"] != line["step"]]
    lines = sorted([*others, line], key=lambda line: int(line["step"]))
    write_atomically(folder / DIAGNOSTICS, "".join(to_json(line) + "\n" for line in lines).encode())
