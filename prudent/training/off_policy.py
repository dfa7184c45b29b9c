"""The off-policy training loop: act, step, store, learn; now and then evaluate and save.

Everything a run will do follows from its settings and its seed: the random key of step t is folded
from t, an episode's reset seed from its index, and what changes is held in the `Session`, all of
which a checkpoint covers.
"""

from pathlib import Path
from typing import Any

import numpy as np

from prudent.configs import OffPolicySchedule, Run
from prudent.files import only_writer
from prudent.tasks.task import Task
from prudent.training.checkpoint import save_snapshot
from prudent.training.monitor import (
    check_finite,
    check_metrics,
    evaluate_and_record,
    stop_on_signal,
)
from prudent.training.reporter import Reporter
from prudent.training.session import (
    Episode,
    Session,
    Warmup,
    close_session,
    open_session,
    save,
)


def updates_due(schedule: OffPolicySchedule, step: int, updates_this_epoch: int) -> bool:
    """Whether to learn after the environment step that had `step` others before it."""
    if step < 0:
        return False
    return schedule.updates_cap is None or updates_this_epoch <= schedule.updates_cap * step


def train(run: Run, task: Task, folder: Path, reporter: Reporter, warmup: Warmup) -> dict[str, Any]:
    """Train until the schedule ends, going on from the folder's newest checkpoint if it has one.

    Returns the last line of `progress.jsonl`.
    """
    with only_writer(folder):
        session = open_session(run, task, folder, reporter, warmup)
        try:
            with (
                stop_on_signal(session),
                reporter.following(
                    session.step, session.schedule.steps, session.schedule.warmup_steps
                ),
            ):
                return run_to_end(session)
        finally:
            close_session(session)


def run_to_end(session: Session) -> dict[str, Any]:
    schedule = session.schedule
    if session.step == schedule.steps:
        session.reporter.say(f"{session.folder}: all {schedule.steps} steps are done already")
    if session.step == 0 and not session.last_line:  # the warm-up came as logged transitions
        evaluate_and_record(session)
        save(session)
    while session.step < schedule.steps:
        take_step(session)
        step, ends = session.step, session.step == schedule.steps
        if step >= 0 and (step % schedule.evaluate_every == 0 or ends):
            evaluate_and_record(session)
        if step > 0 and (step % schedule.snapshot_every == 0 or ends):
            save_snapshot(session.folder, step, session.state)
        if step >= 0 and (step % schedule.checkpoint_every == 0 or ends):
            save(session)
        session.reporter.advance(step)
        if session.stop_requested and not ends:
            save(session)
            raise KeyboardInterrupt
    return session.last_line


def take_step(session: Session) -> None:
    """One environment step and the updates that are due after it."""
    run, schedule, episode = session.run, session.schedule, session.episode
    before, observation = session.step, episode.observation
    outcome = episode.step(session.door, choose_action(session))
    ends = outcome.terminated or outcome.truncated or len(episode.rewards) >= run.horizon
    if ends and not outcome.terminated and schedule.timeout_is_terminal:
        outcome = outcome._replace(reward_continues=0.0, cost_continues=0.0)
    check_finite(
        session,
        observation=outcome.observation,
        reward=outcome.reward,
        cost=outcome.cost,
    )
    session.replay.add(observation, episode.actions[-1], outcome)

    if before >= 0 and before % run.horizon == 0:
        session.updates_this_epoch = 0
    if updates_due(schedule, before, session.updates_this_epoch):
        learn(session)
    session.step = before + 1
    if ends:
        finish_episode(session)


def choose_action(session: Session) -> np.ndarray:
    observation = session.episode.observation
    if session.step < 0 and session.warmup.policy is not None:
        action = session.door.to_unit(session.warmup.policy(observation))
        return np.clip(action, -1.0, 1.0).astype(np.float32)
    time = session.step + session.schedule.warmup_steps
    return np.asarray(session.learner.act(session.state, observation.astype(np.float32), time))


def learn(session: Session) -> None:
    schedule = session.schedule
    rows = session.replay.sample(session.generator, schedule.updates_per_step, schedule.batch_size)
    session.state, metrics = session.learner.update(session.state, rows, session.step)
    values = np.asarray(metrics)
    check_metrics(session, values)
    session.window.add(values)
    session.updates += schedule.updates_per_step
    session.updates_this_epoch += schedule.updates_per_step


def finish_episode(session: Session) -> None:
    episode, accounting = session.episode, session.accounting
    began = session.step - len(episode.rewards)
    session.episodes.write(
        {
            "step": session.step,
            "phase": "warmup" if began < 0 else "training",
            "return": sum(episode.rewards),
            "cost": accounting.constraint.measure(episode.costs, accounting.discount),
            "length": len(episode.rewards),
        }
    )
    session.episode = Episode(session.door, session.run.seed, episode.index + 1)
    check_finite(session, observation=session.episode.observation)
