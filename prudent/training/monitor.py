"""What both training loops do around learning: evaluate, record, guard, stop when asked."""

import math
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from prudent.configs import Run
from prudent.tasks.adapter import AdaptedEnv, open_environment
from prudent.tasks.task import Task
from prudent.training.checkpoint import (
    DamagedCheckpoint,
    Found,
    fill,
    load_newest,
    named_leaves,
)
from prudent.training.evaluate import (
    Accounting,
    accounting_of,
    evaluation_seeds,
    run_episodes,
)
from prudent.training.learner import Learner
from prudent.training.record import Lines, run_checksums
from prudent.training.reporter import Reporter


class NonFinite(RuntimeError):
    """A NaN or an infinity, and where it appeared."""


class Window:
    """Means of the training metrics since the last evaluation."""

    def __init__(self, names: tuple[str, ...], sums: list[float] | None = None, count: int = 0):
        self.names, self.count = names, count
        self.sums = np.array(sums, float) if sums else np.zeros(len(names))

    def add(self, values: np.ndarray, updates: int = 1) -> None:
        """Means over that many updates."""
        self.sums += updates * values
        self.count += updates

    def means(self) -> dict[str, float]:
        """Nothing where there was nothing to average."""
        if not self.count:
            return {}
        return dict(zip(self.names, (self.sums / self.count).tolist(), strict=True))


class Work(NamedTuple):
    unit: str  # "updates" or "steps"
    made: int


class Watched(Protocol):
    """What a session of either loop has."""

    run: Run
    task: Task
    folder: Path
    learner: Learner
    accounting: Accounting
    reporter: Reporter
    state: Any
    window: Window
    progress: Lines
    episodes: Lines
    step: int
    updates: int
    history: list[dict[str, float]]
    last_line: dict[str, Any]
    evaluation_environments: list[AdaptedEnv]
    window_started: float
    last_checkpoint: int | None
    stop_requested: bool

    @property
    def episodes_begun(self) -> int: ...
    @property
    def work_in_window(self) -> Work: ...


def find_checkpoint(run: Run, folder: Path, reporter: Reporter) -> Found | None:
    """The newest whole one; without any, a folder that holds no records yet."""
    found = load_newest(folder, run.mark(), reporter.say, parts_of_run=run_checksums(folder))
    if found is None:
        check_records(folder)
    return found


def beginning(
    run: Run,
    task: Task,
    folder: Path,
    reporter: Reporter,
    learner: Learner,
    facts: dict[str, Any],
) -> dict[str, Any]:
    """The fields with which a session of either loop begins, given the facts of its checkpoint."""
    return {
        "run": run,
        "task": task,
        "folder": folder,
        "reporter": reporter,
        "learner": learner,
        "accounting": accounting_of(run),
        "state": learner.init(),
        "window": Window(
            learner.metric_names, facts.get("window_sums"), facts.get("window_count", 0)
        ),
        "progress": Lines(folder / "progress.jsonl", facts.get("progress_bytes", 0)),
        "episodes": Lines(folder / "episodes.jsonl", facts.get("episodes_bytes", 0)),
        "parts_of_run": run_checksums(folder),
        "updates": facts.get("updates", 0),
        "history": facts.get("history", []),
        "last_line": facts.get("last_line", {}),
        "last_checkpoint": facts.get("step"),
    }


def restore_state(session: Watched, found: Found) -> None:
    session.state = jax.tree.map(jnp.asarray, fill(session.state, found.arrays, "state/"))


INFEASIBLE_AFTER = 10  # evaluations


def probably_infeasible(history: list[dict[str, float]]) -> bool:
    """A constraint broken in each of the last evaluations while its multiplier only grew."""
    if len(history) < INFEASIBLE_AFTER:
        return False
    multipliers = [entry["multiplier"] for entry in history]
    grew = all(b > a for a, b in pairwise(multipliers))
    return grew and all(e["violation"] > 0 and e["excess"] > 0 for e in history)


def all_finite(numbers: np.ndarray | float) -> bool:
    # A product is quicker; it is not finite if any number is not, or if they are very large.
    return math.isfinite(np.vdot(numbers, numbers)) or bool(np.isfinite(numbers).all())


def check_finite(session: Watched, **quantities: np.ndarray | float) -> None:
    for name, value in quantities.items():
        if not all_finite(value):
            stop_as_non_finite(session, f"the environment's {name}")


def check_metrics(session: Watched, values: np.ndarray) -> None:
    names = session.learner.metric_names
    if not np.isfinite(values).all():
        wrong = [n for n, v in zip(names, values, strict=True) if not math.isfinite(v)]
        stop_as_non_finite(session, f"the learner's {', '.join(wrong)}")


def state_arrays(session: Watched) -> dict[str, np.ndarray]:
    """The learner's state for a checkpoint, which must not keep a number that is not finite."""
    leaves = {name: np.asarray(leaf) for name, leaf in named_leaves(session.state).items()}
    for name, leaf in leaves.items():
        if not np.isfinite(leaf).all():
            stop_as_non_finite(session, f"the learner's state ({name})")
    return {f"state/{name}": leaf for name, leaf in leaves.items()}


def common_facts(session: Watched) -> dict[str, Any]:
    """What every checkpoint says besides its arrays."""
    return {
        "step": session.step,
        "updates": session.updates,
        "window_sums": session.window.sums.tolist(),
        "window_count": session.window.count,
        "history": session.history,
        "last_line": session.last_line,
        "progress_bytes": session.progress.sync(),
        "episodes_bytes": session.episodes.sync(),
    }


def stop_as_non_finite(session: Watched, quantity: str) -> None:
    where = "none was written yet"
    if session.last_checkpoint is not None:
        where = f"checkpoint at step {session.last_checkpoint} in {session.folder}"
    raise NonFinite(
        f"step {session.step}: {quantity} is not finite. Training stopped; the records are kept. "
        f"Last good checkpoint: {where}."
    )


def check_records(folder: Path) -> None:
    """Without a checkpoint a run starts anew and its records with it: only if they hold nothing."""
    progress = folder / "progress.jsonl"
    if progress.exists() and progress.read_bytes().count(b"\n") > 1:
        raise DamagedCheckpoint(
            f"{folder}: there are records but no checkpoint to go on from. They are left as they "
            "are; restore the checkpoints, or train into another folder."
        )


def evaluate_and_record(session: Watched) -> None:
    seconds = perf_counter() - session.window_started
    evaluations = evaluate(session)
    for name, values in evaluations["evaluation"].items():
        check_finite(session, **{f"{name} (in an evaluation)": np.asarray(values)})
    training = session.window.means()
    line: dict[str, Any] = {
        "step": session.step,
        "updates": session.updates,
        "episodes": session.episodes_begun,
        **evaluations,
        "training": training,
    }
    excess = evaluations["evaluation"]["cost"] - session.run.budget
    if "multiplier" in training:
        session.history.append(
            {
                "multiplier": training["multiplier"],
                "violation": training["violation"],
                "excess": excess,
            }
        )
        del session.history[:-INFEASIBLE_AFTER]
    if probably_infeasible(session.history):
        line["probably_infeasible"] = True
    unit, made = session.work_in_window
    line[f"{unit}_per_second"] = made / seconds
    line["window_seconds"] = seconds
    session.progress.write(line)
    session.reporter.evaluated(line)
    session.window = Window(session.learner.metric_names)
    session.window_started = perf_counter()
    session.last_line = line


def evaluate(session: Watched) -> dict[str, Any]:
    """Greedy episodes; where all of those are alike, one of them and sampled ones beside it."""
    episodes = session.run.schedule.evaluation_episodes
    while len(session.evaluation_environments) < episodes:
        session.evaluation_environments.append(open_environment(session.task))
    environments, seeds = session.evaluation_environments, evaluation_seeds(episodes)
    learner, state, budget = session.learner, session.state, session.run.budget

    def greedily(observations: np.ndarray, time: int) -> np.ndarray:
        return np.asarray(learner.act_greedily(state, observations.astype(np.float32)))

    def sampling(observations: np.ndarray, time: int) -> np.ndarray:
        return np.asarray(learner.sample(state, observations.astype(np.float32), time))

    if not session.task.deterministic_reset:
        greedy = run_episodes(greedily, environments, seeds, session.accounting)
        return {"evaluation": greedy.summary(budget)}
    greedy = run_episodes(greedily, environments[:1], seeds[:1], session.accounting)
    sampled = run_episodes(sampling, environments, seeds, session.accounting)
    return {"evaluation": greedy.summary(budget), "sampled_evaluation": sampled.summary(budget)}


@contextmanager
def stop_on_signal(session: Watched) -> Iterator[None]:
    """Ctrl-C and SIGTERM finish the step, save, and stop; a second Ctrl-C stops at once."""

    def request(number: int, frame: Any) -> None:
        if session.stop_requested:
            raise KeyboardInterrupt
        session.stop_requested = True

    try:
        previous = {s: signal.signal(s, request) for s in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: signals are somebody else's
        yield
        return
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
