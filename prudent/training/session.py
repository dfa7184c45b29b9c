"""One run in one process: what changes while it trains, whatever the loop, and how that is saved.

What the two loops collect with differs: each has a collector of its own, which a session holds.
"""

import math
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from prudent.pieces.types import Spec
from prudent.runs.checkpoint import (
    Checkpoint,
    DamagedCheckpoint,
    Found,
    Rows,
    fill,
    load_newest,
    named_leaves,
    save_checkpoint,
)
from prudent.runs.folder import RunFolder
from prudent.runs.lines import Lines
from prudent.runs.manifest import Manifest
from prudent.settings.run import Run
from prudent.tasks.adapter import AdaptedEnv
from prudent.tasks.episodes import Accounting, accounting_of
from prudent.tasks.task import Task
from prudent.training.learner import Learner
from prudent.training.reporter import Reporter
from prudent.training.warmup import with_initial_policy


class NonFinite(RuntimeError):
    """A NaN or an infinity, and where it appeared."""


class Collector(Protocol):
    """What a loop collects experience with."""

    work_unit: str  # "updates" or "steps": what its speed is measured in

    @property
    def episodes_begun(self) -> int: ...


C = TypeVar("C", bound=Collector)
# Called with each line of progress.jsonl and the session; a true answer or an exception stops the
# run, saved.
Callback = Callable[[dict[str, Any], "Session[Any]"], Any]


class Parts(NamedTuple):
    """What a run is made of, opened and built before anything is written (`training.run`)."""

    run: Run  # its settings say where the first experience and the first policy come from
    task: Task
    environment: AdaptedEnv
    spec: Spec
    learner: Learner
    initial: Mapping[str, np.ndarray]  # see `runs.folder`
    first_steps: Callable[[np.ndarray], Any] | None  # a policy for the warm-up


@dataclass(frozen=True)
class Prepared:
    """A run that can be trained: its folder, its parts, and who is told of it."""

    folder: RunFolder
    parts: Parts
    reporter: Reporter
    callbacks: Sequence[Callback] = ()
    closing: ExitStack = field(default_factory=ExitStack)  # closes what is opened for the run


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
    folder: RunFolder
    run: Run
    task: Task
    learner: Learner
    parts: Parts
    accounting: Accounting
    reporter: Reporter
    callbacks: Sequence[Callback]
    collector: C
    state: Any
    window: Window
    progress: Lines
    episodes: Lines
    step: int  # environment steps; those of a warm-up are negative
    updates: int
    history: list[dict[str, float]]  # of the last evaluations
    last_line: dict[str, Any]  # the newest of progress.jsonl
    last_checkpoint: int | None
    closing: ExitStack
    evaluation_environments: list[AdaptedEnv] = field(default_factory=list)
    window_started: float = field(default_factory=perf_counter)
    kept: list[Manifest] | None = None  # of the checkpoints there are, once one was saved
    stop_requested: bool = False  # by a signal
    halted: bool = False  # by a callback
    callback_error: BaseException | None = None


def find_checkpoint(prepared: Prepared) -> Found | None:
    """The newest usable one. Without any a run starts anew and its records with it, so they must
    hold nothing.
    """
    folder = prepared.folder
    found = load_newest(folder.path, folder.identity, prepared.reporter.say)
    progress = folder.path / "progress.jsonl"
    if found is None and progress.exists() and progress.read_bytes().count(b"\n") > 1:
        raise DamagedCheckpoint(
            f"{folder.path}: there are records but no checkpoint to go on from. They are left as "
            "they are; restore the checkpoints, or train into another folder."
        )
    return found


def open_session(
    prepared: Prepared, collector: C, found: Found | None, first_step: int = 0
) -> Session[C]:
    """A session at the beginning, or where the checkpoint that was found left off."""
    facts = found.facts if found else {}
    folder, learner = prepared.folder, prepared.parts.learner
    state = learner.init()
    if found:
        state = jax.tree.map(jnp.asarray, fill(state, found.arrays, "state/"))
    elif prepared.parts.initial:
        state = with_initial_policy(state, prepared.parts.initial)
    progress = Lines(folder.path / "progress.jsonl", facts.get("progress_bytes", 0))
    prepared.closing.callback(progress.close)
    episodes = Lines(folder.path / "episodes.jsonl", facts.get("episodes_bytes", 0))
    prepared.closing.callback(episodes.close)
    return Session(
        folder=folder,
        run=folder.run,
        task=prepared.parts.task,
        learner=learner,
        parts=prepared.parts,
        accounting=accounting_of(folder.run),
        reporter=prepared.reporter,
        callbacks=prepared.callbacks,
        collector=collector,
        state=state,
        window=Window(learner.metric_names, facts.get("window_sums"), facts.get("window_count", 0)),
        progress=progress,
        episodes=episodes,
        step=facts.get("step", first_step),
        updates=facts.get("updates", 0),
        history=facts.get("history", []),
        last_line=facts.get("last_line", {}),
        last_checkpoint=facts.get("step"),
        kept=None if found else [],
        closing=prepared.closing,
    )


def save_session(
    session: Session[Any],
    name: int,
    arrays: Mapping[str, np.ndarray],
    facts: Mapping[str, Any],
    rows: Rows | None = None,
) -> None:
    """A checkpoint of what every loop has, and of what `arrays`, `facts` and `rows` add to it."""
    everything = {
        "step": session.step,
        "updates": session.updates,
        "window_sums": session.window.sums.tolist(),
        "window_count": session.window.count,
        "history": session.history,
        "last_line": session.last_line,
        "progress_bytes": session.progress.sync(),
        "episodes_bytes": session.episodes.sync(),
        **facts,
    }
    checkpoint = Checkpoint({**state_arrays(session), **arrays}, everything)
    folder = session.folder
    identity, kept = folder.identity, session.kept
    session.kept = save_checkpoint(folder.path, identity, name, checkpoint, rows, kept)
    session.last_checkpoint = session.step


def run_session(session: Session[C], run_to_end: Callable[[Session[C]], object]) -> dict[str, Any]:
    """Train until the schedule ends or somebody asks to stop.

    Returns the last line of `progress.jsonl`.
    """
    schedule, steps = session.run.schedule, session.run.schedule.steps
    warmup_steps = getattr(schedule, "warmup_steps", 0)
    bar = session.reporter.following(session.step, steps, warmup_steps)
    with stop_on_signal(session), bar:
        run_to_end(session)
        if session.callback_error is not None:
            raise session.callback_error
        if session.stop_requested and session.step < steps:
            raise KeyboardInterrupt
    return session.last_line


@contextmanager
def stop_on_signal(session: Session[Any]) -> Iterator[None]:
    """Ctrl-C and SIGTERM ask to stop: the first finishes the step, saves, and stops; a second one
    stops at once.
    """

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


def all_finite(numbers: np.ndarray | float) -> bool:
    # A product is quicker; it is not finite if any number is not, or if they are very large.
    return math.isfinite(np.vdot(numbers, numbers)) or bool(np.isfinite(numbers).all())


def check_finite(session: Session[Any], **quantities: np.ndarray | float) -> None:
    for name, value in quantities.items():
        if not all_finite(value):
            stop_as_non_finite(session, f"the environment's {name}")


def check_metrics(session: Session[Any], values: np.ndarray) -> None:
    names = session.learner.metric_names
    if not np.isfinite(values).all():
        wrong = [n for n, v in zip(names, values, strict=True) if not math.isfinite(v)]
        stop_as_non_finite(session, f"the learner's {', '.join(wrong)}")


def state_arrays(session: Session[Any]) -> dict[str, np.ndarray]:
    """The learner's state for a checkpoint, which must not keep a number that is not finite."""
    leaves = {name: np.asarray(leaf) for name, leaf in named_leaves(session.state).items()}
    for name, leaf in leaves.items():
        if not np.isfinite(leaf).all():
            stop_as_non_finite(session, f"the learner's state ({name})")
    return {f"state/{name}": leaf for name, leaf in leaves.items()}


def stop_as_non_finite(session: Session[Any], quantity: str) -> None:
    where = "none was written yet"
    if session.last_checkpoint is not None:
        where = f"checkpoint at step {session.last_checkpoint} in {session.folder.path}"
    raise NonFinite(
        f"step {session.step}: {quantity} is not finite. Training stopped; the records are kept. "
        f"Last good checkpoint: {where}."
    )
