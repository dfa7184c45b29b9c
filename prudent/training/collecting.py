"""What an off-policy run collects with: one environment, its episode in progress, and a replay."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prudent.runs.checkpoint import Found
from prudent.settings.schedules import OffPolicySchedule, SemiBatchSchedule
from prudent.tasks.adapter import AdaptedEnv, Outcome
from prudent.tasks.episodes import episode_seed
from prudent.training.replay import Replay
from prudent.training.session import (
    Prepared,
    Session,
    find_checkpoint,
    open_session,
    save_session,
)


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
class ReplayCollector:
    schedule: OffPolicySchedule  # the run's
    environment: AdaptedEnv
    first_steps: Callable[[np.ndarray], Any] | None  # a policy for the warm-up
    replay: Replay
    generator: np.random.Generator
    episode: Episode
    updates_this_epoch: int = 0
    block_steps: int = 0  # environment steps since the last block of updates
    block_episodes: int = 0  # episodes that ended since then
    updates_owed: float = 0.0  # the fraction of an update that the last block left
    # Return, cost and length of each episode that ended in the present deployment, if there is one.
    deployed: list[list[float]] = field(default_factory=list)
    ended_episodes: int = 0  # of training, since the last update
    ended_cost: float = 0.0  # of all of these
    work_unit: str = field(default="updates", init=False)

    @property
    def episodes_begun(self) -> int:
        return self.episode.index


OffPolicySession = Session[ReplayCollector]
COUNTERS = (
    "updates_this_epoch",
    "block_steps",
    "block_episodes",
    "updates_owed",
    "ended_episodes",
    "ended_cost",
    "deployed",
)


def open_off_policy(prepared: Prepared) -> OffPolicySession:
    """A session at the beginning, or where the folder's newest checkpoint left off."""
    run, parts = prepared.folder.run, prepared.parts
    spec, environment = parts.spec, parts.environment
    schedule = run.schedule
    if isinstance(schedule, SemiBatchSchedule):
        schedule = between_deployments(schedule)
    assert isinstance(schedule, OffPolicySchedule)
    found = find_checkpoint(prepared)
    facts = found.facts if found else {}
    collector = ReplayCollector(
        schedule=schedule,
        environment=environment,
        first_steps=parts.first_steps,
        replay=Replay(schedule.replay_capacity, spec.observation_size, spec.action_size),
        generator=np.random.default_rng(np.random.SeedSequence((run.seed, 0xDA7A))),
        episode=Episode(environment, run.seed, facts.get("episode", 0)),
        **{name: facts[name] for name in COUNTERS if name in facts},
    )
    session = open_session(prepared, collector, found, first_step=-schedule.warmup_steps)
    logged = parts.initial.get("rows")
    if found:
        restore(session, found)
    elif logged is not None:
        collector.replay.write(0, logged)
        collector.replay.added = len(logged)
    if parts.task.shared:
        session.evaluation_environments.append(environment)
    if run.warmup != "untrained":
        check_first_experience(session)
    return session


def between_deployments(schedule: SemiBatchSchedule) -> OffPolicySchedule:
    """The same as a schedule that collects for one deployment between two blocks of updates."""
    return OffPolicySchedule(
        steps=schedule.steps,
        warmup_steps=0,
        update_every=schedule.steps_per_deployment,
        updates_cap=None,
        target_steps=schedule.target_steps,
        batch_size=schedule.batch_size,
        replay_capacity=schedule.replay_capacity,
        timeout_is_terminal=schedule.timeout_is_terminal,
        checkpoint_every=schedule.checkpoint_every,
    )


def check_first_experience(session: OffPolicySession) -> None:
    """A run that began with somebody's policy or log must not go on untrained without it."""
    run, collector = session.run, session.collector
    lacks_policy = run.warmup == "policy" and collector.first_steps is None
    lacks_log = run.warmup.startswith("log-") and not collector.replay.added
    if (lacks_policy and session.step < 0) or lacks_log:
        raise ValueError(
            f"{session.folder.path}: the run stopped during its warm-up ({run.warmup}); "
            "pass the same again with warmup=... (--warmup)"
        )


def restore(session: OffPolicySession, found: Found) -> None:
    """Bring back the replay, the generator and the episode in progress."""
    collector, arrays = session.collector, found.arrays
    collector.generator.bit_generator.state = found.facts["generator"]
    collector.replay.restore(found)
    noted = session.progress.noted = found.facts.get("noted", {})
    if found.lost:
        noted["lost_replay_rows"] = [*noted.get("lost_replay_rows", []), *found.lost]
    episode = collector.episode
    for action in arrays["episode/actions"]:
        episode.step(collector.environment, action)
    if not is_replayed(episode, arrays):
        session.reporter.say(
            "resume is inexact: replaying the episode's actions led elsewhere, so the environment "
            "is not deterministic given its reset seed. Starting a new episode."
        )
        collector.episode = Episode(collector.environment, session.run.seed, episode.index + 1)


def is_replayed(episode: Episode, arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether the episode's actions led where they had led before, at the same reward and cost."""
    found = {
        "observation": episode.observation,
        "rewards": np.array(episode.rewards),
        "costs": np.array(episode.costs),
    }
    return all(
        np.array_equal(values, arrays[f"episode/{name}"])
        for name, values in found.items()
        if f"episode/{name}" in arrays  # older checkpoints have only the observation
    )


def begin_again(session: OffPolicySession) -> None:
    """Start the present episode from its beginning, after its environment was used otherwise."""
    collector = session.collector
    index = collector.episode.index
    collector.episode = Episode(collector.environment, session.run.seed, index)


def save(session: OffPolicySession, name: int | None = None) -> None:
    """Checkpoint everything that changes, by default under the number of steps taken."""
    collector, episode = session.collector, session.collector.episode
    arrays = {
        "episode/observation": episode.observation,
        "episode/actions": np.array(episode.actions, np.float32),
        "episode/rewards": np.array(episode.rewards),
        "episode/costs": np.array(episode.costs),
    }
    facts = {
        **{name: getattr(collector, name) for name in COUNTERS},
        "episode": episode.index,
        "generator": collector.generator.bit_generator.state,
        "noted": session.progress.noted,
    }
    if name is None:
        name = session.step + collector.schedule.warmup_steps
    save_session(session, name, arrays, facts, collector.replay)
