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
from gymnasium.vector import VectorEnv

from prudent.configs import OnPolicySchedule, Run
from prudent.files import only_writer
from prudent.pieces.types import Rollout, Spec
from prudent.tasks.adapter import AdaptedEnv, open_environment
from prudent.tasks.task import Task
from prudent.tasks.vector import open_vector
from prudent.training.checkpoint import Checkpoint, save_checkpoint, save_snapshot
from prudent.training.evaluate import Accounting, episode_seed
from prudent.training.learner import Learner, build_for, compiled, make_spec
from prudent.training.monitor import (
    Window,
    Work,
    all_finite,
    beginning,
    check_finite,
    check_metrics,
    common_facts,
    evaluate_and_record,
    find_checkpoint,
    restore_state,
    state_arrays,
    stop_on_signal,
)
from prudent.training.normaliser import RunningScale, with_scale
from prudent.training.record import Lines
from prudent.training.reporter import Reporter


class Scales(NamedTuple):
    """Running statistics of what the environments gave."""

    observation: RunningScale
    reward: RunningScale
    cost: RunningScale


class Ending(NamedTuple):
    """Episodes that end with the same step of an epoch."""

    time: int
    places: np.ndarray  # [K], their environments
    first: np.ndarray  # [K], when they began
    seen: np.ndarray  # [K, obs], what they came to


@dataclass
class OnPolicySession:
    """One run in one process: all that changes while it trains."""

    run: Run
    schedule: OnPolicySchedule  # the run's
    task: Task
    folder: Path
    learner: Learner
    accounting: Accounting
    spec: Spec
    environments: VectorEnv[Any, Any, Any]
    reporter: Reporter
    state: Any
    scales: Scales
    window: Window
    progress: Lines
    episodes: Lines
    parts_of_run: dict[str, str]  # checksums of parts of run.json, as `record.run_checksums` has it
    step: int = 0
    updates: int = 0  # one per epoch
    episodes_begun: int = 0
    recent_costs: list[float] = field(default_factory=list)  # of finished episodes
    history: list[dict[str, float]] = field(default_factory=list)  # of the last evaluations
    last_line: dict[str, Any] = field(default_factory=dict)  # the newest of progress.jsonl
    evaluation_environments: list[AdaptedEnv] = field(default_factory=list)
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
    environment = open_environment(task)
    spec = make_spec(environment, run.critic_budget())
    length = epoch_length(schedule, 0)
    learner = compiled(
        build_for(run, spec),
        run.seed,
        lambda data: data,
        shapes(empty_rollout(schedule, spec, length)),
    )
    found = find_checkpoint(run, folder, reporter)
    facts = found.facts if found else {}
    session = OnPolicySession(
        **beginning(run, task, folder, reporter, learner, facts),
        schedule=schedule,
        spec=spec,
        environments=open_vector(task, schedule.environments, schedule.asynchronous),
        evaluation_environments=[environment],
        scales=Scales(RunningScale(spec.observation_size), RunningScale(1), RunningScale(1)),
        step=facts.get("step", 0),
        episodes_begun=facts.get("episodes_begun", 0),
        recent_costs=facts.get("recent_costs", []),
    )
    if found:
        restore_state(session, found)
        for name, scale in session.scales._asdict().items():
            scale.from_array(found.arrays[f"scale/{name}"])
    return session


def close_on_policy(session: OnPolicySession) -> None:
    session.progress.close()
    session.episodes.close()
    session.environments.close()
    for environment in session.evaluation_environments:
        environment.close()


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
    mark, parts = session.run.mark(), session.parts_of_run
    save_checkpoint(session.folder, session.step, checkpoint, None, mark, parts)
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


def on_host(params: Any) -> Callable[[np.ndarray], np.ndarray]:
    """The policy's network in NumPy, observations [N, obs] -> [N, act], its last bias left out.

    The policy rests while it collects, and a dispatch costs more than this small network.
    """
    layers = [(np.asarray(p["weight"]), np.asarray(p["bias"])[None]) for p in params["mean"]]
    *hidden, (last, _) = layers

    def apply(x: np.ndarray) -> np.ndarray:
        for weight, bias in hidden:
            x = x.dot(weight)
            x += bias
            np.tanh(x, out=x)
        return x.dot(last)

    return apply


def around_bias(session: OnPolicySession, shape: tuple[int, ...]) -> np.ndarray:
    """What the network's last layer adds in the epoch that begins now: its bias, and the noise by
    which actions differ from their mean.
    """
    params = session.state.learner.policy.params
    seed = np.random.SeedSequence((session.run.seed, 0xAC7, session.step))
    noise = np.random.default_rng(seed).standard_normal(shape, np.float32)
    noise *= np.exp(np.asarray(params["log_std"]))
    noise += np.asarray(params["mean"][-1]["bias"])
    return noise


def collect(session: OnPolicySession) -> Rollout:
    """One epoch in all environments. Observations are stored as the policy sees them."""
    run, schedule = session.run, session.schedule
    began, length = session.step, epoch_length(schedule, session.step)
    rollout: Any = empty_rollout(schedule, session.spec, length)
    rewards, costs = (np.empty((length, schedule.environments)) for _ in range(2))
    apply = on_host(session.state.learner.policy.params)
    actions = around_bias(session, rollout.action.shape)  # to which the network adds the rest
    see = session.scales.observation.see

    endings: list[Ending] = []
    first = np.zeros(schedule.environments, int)  # when the episodes in progress began
    due = run.horizon - 1  # when the oldest of them must end
    # What is seen before every step, and after the last; where an episode ends, before the next.
    seen = np.empty((length + 1, *rollout.observation.shape[1:]), np.float32)
    seen[0] = see(begin_episodes(session, first == 0))
    for time in range(length):
        action = actions[time]
        action += apply(seen[time])
        observation, reward, terminated, truncated, infos = session.environments.step(action)
        session.step += schedule.environments
        rewards[time], costs[time] = reward, infos["cost"]
        rollout.reward_continues[time] = infos["reward_continues"]
        rollout.cost_continues[time] = infos["cost_continues"]
        if not all_finite(observation):
            break  # before the policy acts on it
        after = seen[time + 1]
        after[:] = see(observation)
        over = terminated | truncated
        if time == due or np.count_nonzero(over):
            over |= time - first >= run.horizon - 1
            rollout.ends[time, over] = 1.0
            if schedule.timeout_is_terminal:
                rollout.reward_continues[time, over & ~terminated] = 0.0
                rollout.cost_continues[time, over & ~terminated] = 0.0
            endings.append(Ending(time, np.flatnonzero(over), first[over], after[over]))
            first[over] = time + 1
            due = first.min() + run.horizon - 1
            after[over] = see(begin_episodes(session, over))
    taken = time + 1
    episode_costs = record_episodes(session, endings, rewards[:taken], costs[:taken])
    check_finite(session, observation=observation)
    rollout.ends[-1] = 1.0
    rollout.next_observation[:] = seen[1:]
    for ending in endings:
        rollout.next_observation[ending.time, ending.places] = ending.seen
    rollout.reward[:] = to_scale(rewards, session.scales.reward, schedule.normalise_reward)
    rollout.cost[:] = to_scale(costs, session.scales.cost, schedule.normalise_cost)
    return rollout._replace(
        observation=seen[:-1],
        action=actions,
        violation=np.float32(violation(session, episode_costs)),
        remaining=np.float32(1.0 - began / schedule.steps),
    )


def to_scale(signal: np.ndarray, scale: RunningScale, wanted: bool) -> np.ndarray:
    """[T, N] in the order in which the steps were taken."""
    if not wanted:
        return signal
    return scale.see_all(signal[..., None])[..., 0]


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


def begin_episodes(session: OnPolicySession, where: np.ndarray) -> np.ndarray:
    """The run's next episodes in these environments; their observations, [places, obs]."""
    seeds: Any = [None] * len(where)  # one for each, which Gymnasium does not say in its types
    for place in np.flatnonzero(where):
        seeds[place] = episode_seed(session.run.seed, session.episodes_begun)
        session.episodes_begun += 1
    everywhere, _ = session.environments.reset(seed=seeds, options={"reset_mask": where})
    observation: np.ndarray = everywhere[where]
    check_finite(session, observation=observation)
    return observation


def record_episodes(
    session: OnPolicySession, endings: list[Ending], rewards: np.ndarray, costs: np.ndarray
) -> list[float]:
    """Write down the epoch's finished episodes; returns their costs.

    All at its end: among the steps, each would cost as much as the policy does. A reward or cost
    that is not finite stops the run here, after the episodes before it.
    """
    accounting, together = session.accounting, rewards.shape[1]
    began = session.step - rewards.size
    sound = (np.isfinite(rewards) & np.isfinite(costs)).all(axis=1)
    good = len(sound) if sound.all() else int(sound.argmin())
    found = []
    for ending in endings:
        end = ending.time + 1
        if end > good:
            break
        for place, first in zip(ending.places.tolist(), ending.first.tolist(), strict=True):
            episode = slice(first, end), place
            cost = accounting.constraint.measure(costs[episode].tolist(), accounting.discount)
            found.append(cost)
            session.episodes.write(
                {
                    "step": began + end * together,
                    "phase": "training",
                    "return": sum(rewards[episode].tolist()),
                    "cost": cost,
                    "length": end - first,
                }
            )
    if good < len(sound):
        session.step = began + (good + 1) * together
        check_finite(session, reward=rewards[good], cost=costs[good])
    return found
