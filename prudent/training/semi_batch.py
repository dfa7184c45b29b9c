"""Semi-batch learning: deploy a policy that does not change, add its log, learn offline, repeat.

A schedule over the same parts as the off-policy loop: its steps, its replay, its updates and its
checkpoints. What is evaluated is the deployment itself, so that no step is taken that a user of the
system would not have seen: the k-th line of `progress.jsonl` is about the k-th deployment, with the
metrics of the updates that followed it. Snapshots are the policies that those updates led to, each
of which the next deployment deploys.
"""

from time import perf_counter

import numpy as np

from prudent.runs.snapshot import save_snapshot
from prudent.settings.schedules import SemiBatchSchedule
from prudent.statistics import violations
from prudent.tasks.episodes import Episodes
from prudent.training.collecting import Episode, OffPolicySession, save
from prudent.training.evaluation import write_line
from prudent.training.off_policy import call_sizes, collect_step, finish_episode, learn


def schedule_of(session: OffPolicySession) -> SemiBatchSchedule:
    schedule = session.run.schedule
    assert isinstance(schedule, SemiBatchSchedule)
    return schedule


def run_to_end(session: OffPolicySession) -> None:
    schedule, collector = schedule_of(session), session.collector
    if session.step == schedule.steps and not collector.block_steps:
        session.reporter.say(f"{session.folder.path}: {schedule.deployments} deployments are done")
    if learns_first(session):
        learn_offline(session)
    while not session.halted and not session.stop_requested:
        if collector.block_steps == schedule.steps_per_deployment:
            learn_offline(session)
        elif session.step < schedule.steps:
            step_deployment(session)
        else:
            break
        session.reporter.advance(session.step)
    if session.stop_requested:
        save_here(session)
        if collector.block_steps:
            raise KeyboardInterrupt


def learns_first(session: OffPolicySession) -> bool:
    """Whether there is a log to learn from, all or still, before the first policy is deployed."""
    wanted = schedule_of(session).updates_per_deployment or 0
    logged = session.run.warmup.startswith("log-")
    return logged and session.step == 0 and session.updates < wanted


def save_here(session: OffPolicySession) -> None:
    """A number of its own for every moment: there are several between the same two steps."""
    save(session, session.step + session.updates)


def step_deployment(session: OffPolicySession) -> None:
    """One step of the policy that is deployed; what is unfinished at the end is cut there."""
    collector = session.collector
    ends = collect_step(session)
    session.step += 1
    if ends:
        finish_episode(session)
    done = collector.block_steps
    if done == schedule_of(session).steps_per_deployment and not ends:
        index = collector.episode.index + 1
        collector.episode = Episode(collector.environment, session.run.seed, index)
    if done % collector.schedule.checkpoint_every == 0 or done == collector.schedule.update_every:
        save_here(session)


def learn_offline(session: OffPolicySession) -> None:
    """The updates after a deployment, those that are still to be made; then its record. After a
    request to stop there is none: a resumed run makes the rest.
    """
    collector, schedule = session.collector, schedule_of(session)
    assert schedule.updates_per_deployment is not None
    saved = collector.updates_this_epoch
    while left := schedule.updates_per_deployment - collector.updates_this_epoch:
        done = collector.updates_this_epoch
        learn(session, call_sizes(collector.schedule, left)[0], done)
        if session.stop_requested:
            return
        if collector.updates_this_epoch - saved >= schedule.checkpoint_every:
            saved = collector.updates_this_epoch
            save_here(session)
    if collector.block_steps:
        record_deployment(session)
    collector.block_steps = collector.block_episodes = collector.updates_this_epoch = 0
    collector.deployed = []
    save_snapshot(session.folder, session.step, session.state)
    save_here(session)


def record_deployment(session: OffPolicySession) -> None:
    """One line of `progress.jsonl`, about the deployment that these updates followed."""
    schedule, collector, budget = schedule_of(session), session.collector, session.run.budget
    results = np.array(collector.deployed, float).reshape(-1, 3)
    episodes = Episodes(results[:, 0], results[:, 1], results[:, 2].astype(int))
    broken = violations(episodes.costs, budget)
    deployment = {
        "index": session.step // schedule.steps_per_deployment,
        "episodes": len(episodes.costs),
        "steps_of_unfinished_episode": int(collector.block_steps - episodes.lengths.sum()),
        "violations": broken.episodes,
        "violation_share": broken.share,
        "excess": broken.excess,
    }
    found = {"evaluation": episodes.summary(budget), "deployment": deployment}
    write_line(session, found, perf_counter() - session.window_started)
