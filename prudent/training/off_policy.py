"""The off-policy training loop: act, step, store, learn; now and then evaluate and save.

Everything a run will do follows from its settings and its seed: the random key of step t is folded
from t, an episode's reset seed from its index, and what changes is held in the session, all of
which a checkpoint covers.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from prudent.runs.snapshot import save_snapshot
from prudent.settings.schedules import OffPolicySchedule, SemiBatchSchedule
from prudent.tasks.task import check_step_cost
from prudent.training.guards import check_finite, check_metrics
from prudent.training.progress import evaluate_and_record
from prudent.training.replay import Discounts
from prudent.training.replay_collector import (
    Episode,
    OffPolicySession,
    Warmup,
    begin_again,
    open_off_policy,
    save,
)
from prudent.training.running import run_session
from prudent.training.session import Place, conclusion


def updates_due(schedule: OffPolicySchedule, step: int, updates_this_epoch: int) -> bool:
    """Whether to learn after the environment step that had `step` others before it."""
    if step < 0:
        return False
    return schedule.updates_cap is None or updates_this_epoch <= schedule.updates_cap * step


CALLS = (64, 8, 1)  # updates per compiled call, where a block is not the same few updates each time


class Block(NamedTuple):
    """Updates to make now, and the fraction of one that is left for later."""

    updates: int
    owed: float


def next_block(schedule: OffPolicySchedule, steps: int, owed: float) -> Block:
    """What `steps` environment steps earn at the schedule's ratio."""
    due = schedule.updates_per_step * steps + owed
    updates = math.floor(due + 1e-6)  # 0.1 * 10 may fall short of 1 by rounding
    return Block(updates, max(0.0, due - updates))


def call_sizes(schedule: OffPolicySchedule, updates: int) -> list[int]:
    """How a block is cut into calls: few sizes, since each is compiled, and none too large to draw
    its batches at once.
    """
    if schedule.update_unit == "steps" and updates == schedule.updates_per_step <= CALLS[0]:
        return [updates]
    sizes = []
    for size in CALLS:
        sizes += [size] * (updates // size)
        updates %= size
    return sizes


def train(place: Place, warmup: Warmup) -> dict[str, Any]:
    schedule = place.run.schedule
    assert isinstance(schedule, OffPolicySchedule)
    return run_session(
        place, partial(open_off_policy, place, warmup), run_to_end, schedule.warmup_steps
    )


def run_to_end(session: OffPolicySession) -> dict[str, Any]:
    schedule = session.collector.schedule
    if session.step == schedule.steps:
        session.reporter.say(f"{session.folder}: all {schedule.steps} steps are done already")
    if session.step == 0 and not session.last_line:  # the warm-up came as logged transitions
        evaluate_and_record(session)
        if session.task.shared:
            begin_again(session)
        save(session)
    while session.step < schedule.steps and not session.halted:
        take_step(session)
        step, ends = session.step, session.step == schedule.steps
        if evaluation_due(session):
            evaluate_and_record(session)
            if session.task.shared and not ends:
                begin_again(session)
        if step > 0 and (step % schedule.snapshot_every == 0 or ends):
            save_snapshot(session.folder, step, session.state)
        if step >= 0 and (step % schedule.checkpoint_every == 0 or ends):
            save(session)
        session.reporter.advance(step)
        if (session.stop_requested or session.halted) and not ends:
            save(session)
            break
    return conclusion(session)


def evaluation_due(session: OffPolicySession) -> bool:
    """At every multiple of `evaluate_every`. Where there is one environment only, it is the first
    beginning of a training episode after that.
    """
    step, schedule = session.step, session.collector.schedule
    if step == schedule.steps:
        return True
    if not session.task.shared:
        return step >= 0 and step % schedule.evaluate_every == 0
    last = session.last_line.get("step", -1)
    passed = step >= 0 and step // schedule.evaluate_every > last // schedule.evaluate_every
    return passed and not session.collector.episode.actions


def take_step(session: OffPolicySession) -> None:
    """One environment step and the updates that are due after it."""
    ends = collect_step(session)
    if session.step >= 0:
        end_block(session)
    session.step += 1
    if ends:
        finish_episode(session)


def collect_step(session: OffPolicySession) -> bool:
    """One environment step into the replay; whether the episode ends with it."""
    run, collector = session.run, session.collector
    schedule, episode = collector.schedule, collector.episode
    before, observation = session.step, episode.observation
    outcome = episode.step(collector.environment, choose_action(session))
    ends = outcome.terminated or outcome.truncated or len(episode.rewards) >= run.horizon
    if ends and not outcome.terminated and schedule.timeout_is_terminal:
        outcome = outcome._replace(reward_continues=0.0, cost_continues=0.0)
    check_finite(
        session,
        observation=outcome.observation,
        reward=outcome.reward,
        cost=outcome.cost,
    )
    check_step_cost(run.task, outcome.cost, run.step_bounds())
    collector.replay.add(observation, episode.actions[-1], outcome)

    if before >= 0:
        if before % run.horizon == 0:
            collector.updates_this_epoch = 0
        collector.block_steps += 1
        collector.block_episodes += ends
    return ends


def choose_action(session: OffPolicySession) -> np.ndarray:
    collector = session.collector
    observation = collector.episode.observation
    if session.step < 0 and collector.warmup.policy is not None:
        action = collector.environment.to_unit(collector.warmup.policy(observation))
        return np.clip(action, -1.0, 1.0).astype(np.float32)
    time = session.step + collector.schedule.warmup_steps
    return np.asarray(session.learner.act(session.state, observation.astype(np.float32), time))


def end_block(session: OffPolicySession) -> None:
    """Make the updates that the collected steps have earned, if enough were collected.

    Before there are rows for a batch the block goes on, and what it earns is made up for then.
    """
    collector = session.collector
    schedule = collector.schedule
    if collector.replay.size < schedule.batch_size:
        return
    in_steps = schedule.update_unit == "steps"
    if (collector.block_steps if in_steps else collector.block_episodes) < schedule.update_every:
        return
    block = next_block(schedule, collector.block_steps, collector.updates_owed)
    collector.block_steps, collector.block_episodes = 0, 0
    collector.updates_owed = block.owed
    if updates_due(schedule, session.step, collector.updates_this_epoch):
        first = 0
        for size in call_sizes(schedule, block.updates):
            learn(session, size, first)
            first += size


def draw(session: OffPolicySession, updates: int) -> np.ndarray:
    """Batches for that many updates, [updates, batch, width]."""
    collector, config = session.collector, session.run.config
    schedule, replay = collector.schedule, collector.replay
    indices = replay.draw(collector.generator, updates, schedule.batch_size)
    if schedule.target_steps == 1:
        return replay.rows[indices]
    discounts = Discounts(config.discount, config.cost_discount)
    return replay.look_ahead(indices, schedule.target_steps, discounts)


def draw_recent(session: OffPolicySession, updates: int) -> dict[str, np.ndarray]:
    """The same from the last steps only, where the learner requires them. No targets are made of
    these, so they look no further ahead than one step.
    """
    steps, collector = session.learner.requires.get("recent"), session.collector
    if not steps:
        return {}
    batch, replay = collector.schedule.batch_size, collector.replay
    return {"recent": replay.rows[replay.draw_recent(collector.generator, updates, batch, steps)]}


def take_ended(session: OffPolicySession, updates: int) -> dict[str, np.ndarray]:
    """The training episodes that ended since the last update, where the learner requires them; the
    first of these updates is told.
    """
    if "episodes" not in session.learner.requires:
        return {}
    run, collector = session.run, session.collector
    episodes, cost = np.zeros(updates, np.int32), np.zeros((updates, 1), np.float32)
    mean = collector.ended_cost / max(collector.ended_episodes, 1)
    episodes[0] = collector.ended_episodes
    cost[0] = run.constraint.in_critic_unit(mean, run.config.cost_discount, run.horizon)
    collector.ended_episodes, collector.ended_cost = 0, 0.0
    return {"episodes": episodes, "episode_cost": cost}


def learn(session: OffPolicySession, updates: int, first: int) -> None:
    """Some updates of a block, those from its `first` on, in one call."""
    data = {"rows": draw(session, updates), "first": np.int32(first)}
    data |= draw_recent(session, updates) | take_ended(session, updates)
    # The random key of a step's first call is folded from the step, of later ones from the count.
    moment = session.step if first == 0 else -1 - session.updates
    session.state, metrics = session.learner.update(session.state, data, moment)
    values = np.asarray(metrics)
    check_metrics(session, values)
    session.window.add(values, updates)
    session.updates += updates
    session.collector.updates_this_epoch += updates


def finish_episode(session: OffPolicySession) -> None:
    collector, accounting = session.collector, session.accounting
    episode = collector.episode
    began = session.step - len(episode.rewards)
    cost = accounting.constraint.measure(episode.costs, accounting.discount)
    found = {
        "return": sum(episode.rewards),
        "cost": cost,
        "length": len(episode.rewards),
    }
    line = {"step": session.step, "phase": "warmup" if began < 0 else "training", **found}
    session.episodes.write(line)
    if isinstance(session.run.schedule, SemiBatchSchedule):
        collector.deployed.append([found["return"], found["cost"], found["length"]])
    session.reporter.episode_ended(line)
    if began >= 0 and "episodes" in session.learner.requires:
        collector.ended_episodes += 1
        collector.ended_cost += cost
    collector.episode = Episode(collector.environment, session.run.seed, episode.index + 1)
    check_finite(session, observation=collector.episode.observation)
