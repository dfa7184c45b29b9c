"""The on-policy training loop: collect an epoch, learn from it in one call, forget it.

Every epoch starts its episodes anew and its noise from (seed, epoch), so that a checkpoint at the
end of an epoch holds all that the next one needs, and a resumed run equals an uninterrupted one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from prudent.configs import OnPolicySchedule, Run
from prudent.files import only_writer
from prudent.tasks.door import Door, Outcome, open_door
from prudent.tasks.task import Task
from prudent.training.checkpoint import (
    Checkpoint,
    fill,
    load_newest,
    save_checkpoint,
    save_snapshot,
)
from prudent.training.evaluate import Accounting, accounting_of
from prudent.training.learner import Learner, build_for, compiled, make_spec
from prudent.training.monitor import (
    Window,
    Work,
    check_finite,
    check_metrics,
    check_records,
    common_facts,
    evaluate_and_record,
    state_arrays,
    stop_on_signal,
)
from prudent.training.normaliser import RunningScale, with_scale
from prudent.training.record import Lines
from prudent.training.reporter import Reporter
from prudent.training.session import Episode
from prudent.types import Rollout, Spec


class Scales(NamedTuple):
    """Running statistics of what the environments gave."""

    observation: RunningScale
    reward: RunningScale
    cost: RunningScale


@dataclass
class OnPolicySession:
    """One run in one process: all that changes while it trains."""

    run: Run
    schedule: OnPolicySchedule  # the run's
    task: Task
    folder: Path
    learner: Learner
    accounting: Accounting
    doors: list[Door]
    reporter: Reporter
    state: Any
    scales: Scales
    window: Window
    progress: Lines
    episodes: Lines
    step: int = 0
    updates: int = 0  # one per epoch
    episodes_begun: int = 0
    recent_costs: list[float] = field(default_factory=list)  # of finished episodes
    history: list[dict[str, float]] = field(default_factory=list)  # of the last evaluations
    last_line: dict[str, Any] = field(default_factory=dict)  # the newest of progress.jsonl
    evaluation_doors: list[Door] = field(default_factory=list)
    window_started: float = field(default_factory=perf_counter)
    last_checkpoint: int | None = None
    stop_requested: bool = False

    @property
    def work_in_window(self) -> Work:
        return Work("steps", self.step - self.last_line.get("step", 0))


def check_schedule(run: Run, schedule: OnPolicySchedule) -> None:
    together = schedule.environments
    for name in ("steps", "epoch_steps"):
        if getattr(schedule, name) % together:
            raise ValueError(
                f"{name} is {getattr(schedule, name)}, no multiple of {together} environments"
            )
    if schedule.epoch_steps < together * run.horizon:
        raise ValueError(
            f"an epoch of {schedule.epoch_steps} steps in {together} environments ends before an "
            f"episode of {run.horizon} does, so its cost would never be known; choose epoch_steps "
            f"of {together * run.horizon} or more, or fewer environments"
        )


def train(run: Run, task: Task, folder: Path, reporter: Reporter) -> dict[str, Any]:
    """Train until the schedule ends, going on from the folder's newest checkpoint if it has one.

    Returns the last line of `progress.jsonl`.
    """
    assert isinstance(run.schedule, OnPolicySchedule)
    check_schedule(run, run.schedule)
    with only_writer(folder):
        session = open_on_policy(run, run.schedule, task, folder, reporter)
        try:
            with stop_on_signal(session), reporter.following(session.step, run.schedule.steps):
                return run_to_end(session)
        finally:
            close_on_policy(session)


def open_on_policy(
    run: Run, schedule: OnPolicySchedule, task: Task, folder: Path, reporter: Reporter
) -> OnPolicySession:
    """A session at the beginning, or where the folder's newest checkpoint left off."""
    doors = [open_door(task) for _ in range(schedule.environments)]
    spec = make_spec(doors[0], run.critic_budget())
    length = epoch_length(schedule, 0)
    learner = compiled(
        build_for(run, spec),
        run.seed,
        lambda data: data,
        shapes(empty_rollout(schedule, spec, length)),
    )
    found = load_newest(folder, run.mark(), reporter.say)
    if found is None:
        check_records(folder)
    facts = found.facts if found else {}
    session = OnPolicySession(
        run=run,
        schedule=schedule,
        task=task,
        folder=folder,
        learner=learner,
        accounting=accounting_of(run),
        doors=doors,
        reporter=reporter,
        state=learner.init(),
        scales=Scales(RunningScale(spec.observation_size), RunningScale(1), RunningScale(1)),
        window=Window(learner.metric_names, facts.get("window_sums"), facts.get("window_count", 0)),
        progress=Lines(folder / "progress.jsonl", facts.get("progress_bytes", 0)),
        episodes=Lines(folder / "episodes.jsonl", facts.get("episodes_bytes", 0)),
        last_checkpoint=facts.get("step"),
        **{name: facts[name] for name in REMEMBERED if name in facts},
    )
    if found:
        session.state = jax.tree.map(jnp.asarray, fill(session.state, found.arrays, "state/"))
        for name, scale in session.scales._asdict().items():
            scale.from_array(found.arrays[f"scale/{name}"])
    return session


def close_on_policy(session: OnPolicySession) -> None:
    session.progress.close()
    session.episodes.close()
    for door in (*session.doors, *session.evaluation_doors):
        door.close()


# Facts of a checkpoint that are fields of the session under the same name.
REMEMBERED = ("step", "updates", "history", "last_line", "episodes_begun", "recent_costs")


def save(session: OnPolicySession) -> None:
    """Checkpoint everything that changes; only between two epochs."""
    arrays = state_arrays(session)
    for name, scale in session.scales._asdict().items():
        arrays[f"scale/{name}"] = scale.to_array()
    facts = {
        **common_facts(session),
        "episodes_begun": session.episodes_begun,
        "recent_costs": session.recent_costs,
    }
    checkpoint = Checkpoint(arrays, facts)
    save_checkpoint(session.folder, session.step, checkpoint, None, session.run.mark())
    session.last_checkpoint = session.step


def run_to_end(session: OnPolicySession) -> dict[str, Any]:
    schedule = session.schedule
    if session.step == schedule.steps:
        session.reporter.say(f"{session.folder}: all {schedule.steps} steps are done already")
    if session.step == 0 and not session.last_line:
        evaluate_and_record(session)
        save(session)
    while session.step < schedule.steps:
        before = session.step
        take_epoch(session)
        step, ends = session.step, session.step == schedule.steps

        def passed(every: int, before: int = before, step: int = step, ends: bool = ends) -> bool:
            return ends or step // every > before // every

        if passed(schedule.evaluate_every):
            evaluate_and_record(session)
        if passed(schedule.snapshot_every):
            save_snapshot(session.folder, step, session.state)
        if passed(schedule.checkpoint_every) or session.stop_requested:
            save(session)
        session.reporter.advance(step)
        if session.stop_requested and not ends:
            raise KeyboardInterrupt
    return session.last_line


def epoch_length(schedule: OnPolicySchedule, step: int) -> int:
    """Steps of each environment in the epoch that begins at `step`."""
    return min(schedule.epoch_steps, schedule.steps - step) // schedule.environments


def take_epoch(session: OnPolicySession) -> None:
    """Collect, then learn from all of it in one call."""
    began = session.step
    rollout = collect(session)
    session.state = with_scale(session.state, session.scales.observation.scaling())
    session.state, metrics = session.learner.update(session.state, rollout, began)
    values = np.asarray(metrics)
    check_metrics(session, values)
    session.window.add(values)
    session.updates += 1


def empty_rollout(schedule: OnPolicySchedule, spec: Spec, length: int) -> Rollout:
    together = length, schedule.environments

    def numbers(*size: int) -> Any:  # what JAX takes for an array of its own
        return np.zeros((*together, *size), np.float32)

    return Rollout(
        observation=numbers(spec.observation_size),
        action=numbers(spec.action_size),
        reward=numbers(),
        cost=numbers(),
        reward_continues=numbers(),
        cost_continues=numbers(),
        ends=numbers(),
        next_observation=numbers(spec.observation_size),
        violation=jnp.zeros(()),
        remaining=jnp.zeros(()),
    )


def shapes(rollout: Rollout) -> Any:
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), rollout)


def on_host(params: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The Gaussian policy of `prudent.policies` in NumPy: observations and noise to actions.

    The policy rests while it collects, and a dispatch costs more than this small network.
    """
    *hidden, last = [(np.asarray(p["weight"]), np.asarray(p["bias"])) for p in params["mean"]]
    deviation = np.exp(np.asarray(params["log_std"]))

    def act(observation: np.ndarray, noise: np.ndarray) -> np.ndarray:
        x = observation
        for weight, bias in hidden:
            x = np.tanh(x @ weight + bias)
        return x @ last[0] + last[1] + deviation * noise

    return act


def collect(session: OnPolicySession) -> Rollout:
    """One epoch in all environments. Observations are stored as the policy sees them."""
    run, schedule, doors = session.run, session.schedule, session.doors
    began, length = session.step, epoch_length(schedule, session.step)
    act = on_host(session.state.learner.policy.params)
    spec = make_spec(doors[0], run.critic_budget())
    rollout: Any = empty_rollout(schedule, spec, length)
    seed = np.random.SeedSequence((run.seed, 0xAC7, began))
    noise = np.random.default_rng(seed).standard_normal(rollout.action.shape, np.float32)

    finished: list[float] = []
    running = [next_episode(session, door) for door in doors]
    see = session.scales.observation.see
    seen = see(np.stack([episode.observation for episode in running])).astype(np.float32)
    for time in range(length):
        actions = act(seen, noise[time])
        rollout.observation[time], rollout.action[time] = seen, actions
        over = []
        for place, (door, episode) in enumerate(zip(doors, running, strict=True)):
            outcome = episode.step(door, actions[place])
            session.step += 1
            check_outcome(session, outcome)
            ended = outcome.terminated or outcome.truncated
            if len(episode.rewards) >= run.horizon or ended:
                over.append(place)
                if schedule.timeout_is_terminal:
                    outcome = outcome._replace(reward_continues=0.0, cost_continues=0.0)
            where = time, place
            rollout.reward[where], rollout.cost[where] = outcome.reward, outcome.cost
            rollout.reward_continues[where] = outcome.reward_continues
            rollout.cost_continues[where] = outcome.cost_continues
        seen = see(np.stack([episode.observation for episode in running])).astype(np.float32)
        rollout.next_observation[time] = seen
        if over:
            rollout.ends[time, over] = 1.0
            for place in over:
                finished.append(finish_episode(session, running[place]))
                running[place] = next_episode(session, doors[place])
            fresh = np.stack([running[place].observation for place in over])
            seen[over] = see(fresh)
    rollout.ends[-1] = 1.0
    if schedule.normalise_reward:
        to_scale(rollout.reward, session.scales.reward)
    if schedule.normalise_cost:
        to_scale(rollout.cost, session.scales.cost)
    return rollout._replace(
        violation=np.float32(violation(session, finished)),
        remaining=np.float32(1.0 - began / schedule.steps),
    )


def to_scale(signal: np.ndarray, scale: RunningScale) -> None:
    """In place, in the order in which the steps were taken."""
    for row in signal:  # [N]
        row[:] = scale.see(row[:, None].astype(float))[:, 0]


def violation(session: OnPolicySession, finished: list[float]) -> float:
    """Mean cost of finished episodes minus the budget. While none has finished, 0: with nothing
    known, a multiplier stays where it is.
    """
    kept = session.schedule.cost_window
    session.recent_costs += finished
    if kept is None and finished:
        kept = len(finished)
    if kept is not None:
        del session.recent_costs[:-kept]
    if not session.recent_costs:
        return 0.0
    return float(np.mean(session.recent_costs)) - session.run.budget


def check_outcome(session: OnPolicySession, outcome: Outcome) -> None:
    # One sum is not finite if any number is not; only then is it worth finding out which.
    if not np.isfinite(outcome.observation.sum() + outcome.reward + outcome.cost):
        check_finite(
            session,
            observation=outcome.observation,
            reward=outcome.reward,
            cost=outcome.cost,
        )


def next_episode(session: OnPolicySession, door: Door) -> Episode:
    episode = Episode(door, session.run.seed, session.episodes_begun)
    session.episodes_begun += 1
    check_finite(session, observation=episode.observation)
    return episode


def finish_episode(session: OnPolicySession, episode: Episode) -> float:
    accounting = session.accounting
    cost = accounting.constraint.measure(episode.costs, accounting.discount)
    session.episodes.write(
        {
            "step": session.step,
            "phase": "training",
            "return": sum(episode.rewards),
            "cost": cost,
            "length": len(episode.rewards),
        }
    )
    return cost
