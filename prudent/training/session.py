"""One run in one process: what changes while it trains, and how all of it is saved and restored."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from prudent.configs import OffPolicySchedule, Run
from prudent.tasks.adapter import AdaptedEnv, Outcome, open_environment
from prudent.tasks.task import Task
from prudent.training.checkpoint import Checkpoint, Found, place_rows, save_checkpoint
from prudent.training.evaluate import Accounting, episode_seed
from prudent.training.learner import Learner, build_for, compile_learner, make_spec
from prudent.training.monitor import (
    Window,
    Work,
    beginning,
    common_facts,
    find_checkpoint,
    restore_state,
    state_arrays,
)
from prudent.training.record import Lines
from prudent.training.replay import Replay
from prudent.training.reporter import Reporter


class Warmup(NamedTuple):
    """Where the first experience comes from, when not from the untrained policy."""

    policy: Callable[[np.ndarray], np.ndarray] | None = None  # observation -> environment action
    rows: np.ndarray | None = None  # logged transitions, packed for the replay


class Episode:
    """The training episode in progress. Replaying its actions from its seed brings it back."""

    def __init__(self, environment: AdaptedEnv, run_seed: int, index: int) -> None:
        self.index = index
        self.observation = environment.reset(episode_seed(run_seed, index))
        self.actions: list[np.ndarray] = []
        self.rewards: list[float] = []
        self.costs: list[float] = []

    def step(self, environment: AdaptedEnv, action: np.ndarray) -> Outcome:
        outcome = environment.step(action)
        self.actions.append(action)
        self.rewards.append(outcome.reward)
        self.costs.append(outcome.cost)
        self.observation = outcome.observation
        return outcome


@dataclass
class Session:
    """One run in one process: all that changes while it trains."""

    run: Run
    schedule: OffPolicySchedule  # the run's
    task: Task
    folder: Path
    learner: Learner
    accounting: Accounting
    environment: AdaptedEnv
    warmup: Warmup
    reporter: Reporter
    replay: Replay
    generator: np.random.Generator
    state: Any
    episode: Episode
    window: Window
    progress: Lines
    episodes: Lines
    parts_of_run: dict[str, str]  # checksums of parts of run.json, as `record.run_checksums` has it
    step: int  # environment steps after the warm-up; negative during it
    updates: int = 0
    updates_this_epoch: int = 0
    block_steps: int = 0  # environment steps since the last block of updates
    block_episodes: int = 0  # episodes that ended since then
    updates_owed: float = 0.0  # the fraction of an update that the last block left
    history: list[dict[str, float]] = field(default_factory=list)  # of the last evaluations
    last_line: dict[str, Any] = field(default_factory=dict)  # the newest of progress.jsonl
    evaluation_environments: list[AdaptedEnv] = field(default_factory=list)
    window_started: float = field(default_factory=perf_counter)
    last_checkpoint: int | None = None
    stop_requested: bool = False

    @property
    def episodes_begun(self) -> int:
        return self.episode.index

    @property
    def work_in_window(self) -> Work:
        return Work("updates", self.window.count)


def open_session(run: Run, task: Task, folder: Path, reporter: Reporter, warmup: Warmup) -> Session:
    """A session at the beginning, or where the folder's newest checkpoint left off."""
    schedule = run.schedule
    assert isinstance(schedule, OffPolicySchedule)
    environment = open_environment(task)
    spec = make_spec(environment, run.critic_budget())
    algorithm = build_for(run, spec)
    learner = compile_learner(algorithm, spec, schedule, run.seed)
    replay = Replay(schedule.replay_capacity, spec.observation_size, spec.action_size)
    found = find_checkpoint(run, folder, reporter)
    facts = found.facts if found else {}
    session = Session(
        **beginning(run, task, folder, reporter, learner, facts),
        schedule=schedule,
        environment=environment,
        warmup=warmup,
        replay=replay,
        generator=np.random.default_rng(np.random.SeedSequence((run.seed, 0xDA7A))),
        episode=Episode(environment, run.seed, facts.get("episode", 0)),
        step=facts.get("step", -schedule.warmup_steps),
        updates_this_epoch=facts.get("updates_this_epoch", 0),
        block_steps=facts.get("block_steps", 0),
        block_episodes=facts.get("block_episodes", 0),
        updates_owed=facts.get("updates_owed", 0.0),
    )
    if found:
        restore(session, found)
    elif warmup.rows is not None:
        replay.write(0, warmup.rows)
        replay.added = len(warmup.rows)
    check_first_experience(session)
    return session


def check_first_experience(session: Session) -> None:
    """A run that began with somebody's policy or log must not go on untrained without it."""
    lacks_policy = session.run.warmup == "policy" and session.warmup.policy is None
    lacks_log = session.run.warmup.startswith("log-") and not session.replay.added
    if (lacks_policy and session.step < 0) or lacks_log:
        close_session(session)
        raise ValueError(
            f"{session.folder}: the run stopped during its warm-up ({session.run.warmup}); "
            "pass the same again with warmup=..."
        )


def close_session(session: Session) -> None:
    session.progress.close()
    session.episodes.close()
    for environment in (session.environment, *session.evaluation_environments):
        environment.close()


def restore(session: Session, found: Found) -> None:
    """Bring back the learner, the replay, the generator and the episode in progress."""
    arrays, facts = found.arrays, found.facts
    restore_state(session, found)
    session.generator.bit_generator.state = facts["generator"]
    place_rows(session.replay, found)
    session.progress.noted = facts.get("noted", {})
    if found.lost:
        told = session.progress.noted.get("lost_replay_rows", [])
        session.progress.noted["lost_replay_rows"] = [*told, *found.lost]
    for action in arrays["episode/actions"]:
        session.episode.step(session.environment, action)
    if not np.array_equal(session.episode.observation, arrays["episode/observation"]):
        session.reporter.say(
            "resume is inexact: replaying the episode's actions led elsewhere, so the environment "
            "is not deterministic given its reset seed. Starting a new episode."
        )
        session.episode = Episode(session.environment, session.run.seed, session.episode.index + 1)


def save(session: Session) -> None:
    """Checkpoint everything that changes."""
    episode, arrays = session.episode, state_arrays(session)
    arrays["episode/observation"] = episode.observation
    arrays["episode/actions"] = np.array(episode.actions, np.float32)
    facts = {
        **common_facts(session),
        "updates_this_epoch": session.updates_this_epoch,
        "block_steps": session.block_steps,
        "block_episodes": session.block_episodes,
        "updates_owed": session.updates_owed,
        "episode": episode.index,
        "generator": session.generator.bit_generator.state,
        "noted": session.progress.noted,
    }
    total = session.step + session.schedule.warmup_steps
    checkpoint = Checkpoint(arrays, facts)
    save_checkpoint(
        session.folder,
        total,
        checkpoint,
        session.replay,
        session.run.mark(),
        session.parts_of_run,
    )
    session.last_checkpoint = session.step
