"""One run in one process: what changes while it trains, whatever the loop.

What the two loops collect with differs: each has a collector of its own, which a session holds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from prudent.runs.checkpoint import (
    Checkpoint,
    DamagedCheckpoint,
    Found,
    fill,
    load_newest,
    save_checkpoint,
)
from prudent.runs.initial import with_initial_policy
from prudent.runs.record import Lines, earlier_checksums, run_checksums
from prudent.settings.run import Run
from prudent.tasks.adapter import AdaptedEnv
from prudent.tasks.task import Task
from prudent.training.evaluate import Accounting, accounting_of
from prudent.training.learner import Learner
from prudent.training.replay import Replay
from prudent.training.reporter import Reporter


class Collector(Protocol):
    """What a loop collects experience with."""

    work_unit: str  # "updates" or "steps": what its speed is measured in

    @property
    def episodes_begun(self) -> int: ...
    def close(self) -> None: ...


C = TypeVar("C", bound=Collector)
# Called with each line of progress.jsonl; a true answer or an exception stops the run, saved.
Callback = Callable[[dict[str, Any]], Any]


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


@dataclass
class Session(Generic[C]):
    run: Run
    task: Task
    folder: Path
    mark: str  # what checkpoints of this very run carry
    learner: Learner
    accounting: Accounting
    reporter: Reporter
    callbacks: Sequence[Callback]
    collector: C
    state: Any
    window: Window
    progress: Lines
    episodes: Lines
    parts_of_run: dict[str, str]  # checksums of parts of run.json, which checkpoints carry too
    step: int  # environment steps; those of a warm-up are negative
    updates: int
    history: list[dict[str, float]]  # of the last evaluations
    last_line: dict[str, Any]  # the newest of progress.jsonl
    last_checkpoint: int | None
    evaluation_environments: list[AdaptedEnv] = field(default_factory=list)
    window_started: float = field(default_factory=perf_counter)
    stop_requested: bool = False  # by a signal
    halted: bool = False  # by a callback
    callback_error: BaseException | None = None

    def work_in_window(self) -> int:
        """How much was done since the last evaluation, in the collector's unit."""
        if self.collector.work_unit == "updates":
            return self.window.count
        return int(self.step - self.last_line.get("step", 0))


@dataclass(frozen=True)
class Place:
    """Which run a session is of, and where it writes and reports."""

    run: Run
    task: Task
    folder: Path
    mark: str
    reporter: Reporter
    initial: Mapping[str, np.ndarray] = field(default_factory=dict)  # see `training.initial`
    callbacks: Sequence[Callback] = ()


@contextmanager
def closed_on_failure(closable: Any) -> Iterator[None]:
    try:
        yield
    except BaseException:
        closable.close()
        raise


def find_checkpoint(place: Place) -> Found | None:
    """The newest usable one. Without any a run starts anew and its records with it, so they must
    hold nothing.
    """
    folder, parts = place.folder, run_checksums(place.folder)
    earlier = earlier_checksums(folder)
    found = load_newest(folder, place.mark, place.reporter.say, parts_of_run=parts, earlier=earlier)
    progress = folder / "progress.jsonl"
    if found is None and progress.exists() and progress.read_bytes().count(b"\n") > 1:
        raise DamagedCheckpoint(
            f"{folder}: there are records but no checkpoint to go on from. They are left as they "
            "are; restore the checkpoints, or train into another folder."
        )
    return found


def open_session(
    place: Place, learner: Learner, collector: C, found: Found | None, first_step: int = 0
) -> Session[C]:
    """A session at the beginning, or where the checkpoint that was found left off."""
    facts = found.facts if found else {}
    folder, state = place.folder, learner.init()
    if found:
        state = jax.tree.map(jnp.asarray, fill(state, found.arrays, "state/"))
    else:
        state = with_initial_policy(state, place.initial)
    return Session(
        run=place.run,
        task=place.task,
        folder=folder,
        mark=place.mark,
        reporter=place.reporter,
        callbacks=place.callbacks,
        learner=learner,
        accounting=accounting_of(place.run),
        collector=collector,
        state=state,
        window=Window(learner.metric_names, facts.get("window_sums"), facts.get("window_count", 0)),
        progress=Lines(folder / "progress.jsonl", facts.get("progress_bytes", 0)),
        episodes=Lines(folder / "episodes.jsonl", facts.get("episodes_bytes", 0)),
        parts_of_run=run_checksums(folder),
        step=facts.get("step", first_step),
        updates=facts.get("updates", 0),
        history=facts.get("history", []),
        last_line=facts.get("last_line", {}),
        last_checkpoint=facts.get("step"),
    )


def session_facts(session: Session[Any]) -> dict[str, Any]:
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


def write_checkpoint(
    session: Session[Any], name: int, checkpoint: Checkpoint, replay: Replay | None = None
) -> None:
    mark, parts = session.mark, session.parts_of_run
    save_checkpoint(session.folder, name, checkpoint, replay, mark, parts)
    session.last_checkpoint = session.step


def conclusion(session: Session[Any]) -> dict[str, Any]:
    """The last line of progress, or why there is no more to come."""
    if session.callback_error is not None:
        raise session.callback_error
    if session.stop_requested and session.step < session.run.schedule.steps:
        raise KeyboardInterrupt
    return session.last_line


def close_session(session: Session[Any]) -> None:
    session.progress.close()
    session.episodes.close()
    session.collector.close()
    for environment in session.evaluation_environments:
        environment.close()
