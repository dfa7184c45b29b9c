"""What an on-policy run collects with: environments that are stepped together for an epoch."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import VectorEnv

from prudent.pieces.normaliser import RunningScale
from prudent.pieces.types import Algorithm, PolicyNetwork, Rollout, Spec
from prudent.policies.exported import ACTIVATIONS
from prudent.settings.schedules import OnPolicySchedule
from prudent.tasks.episodes import episode_seed
from prudent.tasks.task import check_step_cost
from prudent.tasks.vector import InTurn, open_vector
from prudent.training.learner import Learner, compiled
from prudent.training.session import (
    Prepared,
    Session,
    all_finite,
    check_finite,
    find_checkpoint,
    open_session,
    save_session,
)


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
class EpochCollector:
    schedule: OnPolicySchedule  # the run's
    spec: Spec
    environments: VectorEnv[Any, Any, Any]
    scales: Scales
    episodes_begun: int = 0
    recent_costs: list[float] = field(default_factory=list)  # of finished episodes
    work_unit: str = field(default="steps", init=False)


OnPolicySession = Session[EpochCollector]


def open_on_policy(prepared: Prepared) -> OnPolicySession:
    """A session at the beginning, or where the folder's newest checkpoint left off."""
    parts, schedule = prepared.parts, prepared.folder.run.schedule
    task, spec = parts.task, parts.spec
    assert isinstance(schedule, OnPolicySchedule)
    if task.shared:  # then the one environment stands still between two epochs
        parts.environment.close()
    environments = open_vector(task, schedule.environments, schedule.asynchronous)
    prepared.closing.callback(environments.close)
    found = find_checkpoint(prepared)
    facts = found.facts if found else {}
    collector = EpochCollector(
        schedule=schedule,
        spec=spec,
        environments=environments,
        scales=Scales(RunningScale(spec.observation_size), RunningScale(1), RunningScale(1)),
        episodes_begun=facts.get("episodes_begun", 0),
        recent_costs=facts.get("recent_costs", []),
    )
    session = open_session(prepared, collector, found)
    shared = environments.environments[0] if isinstance(environments, InTurn) else None
    spare = shared if task.shared and shared else parts.environment
    session.evaluation_environments.append(spare)
    arrays = found.arrays if found else parts.initial
    for name, scale in collector.scales._asdict().items():
        if f"scale/{name}" in arrays:
            scale.from_array(arrays[f"scale/{name}"])
    return session


def save(session: OnPolicySession) -> None:
    """Checkpoint everything that changes; only between two epochs."""
    collector = session.collector
    scales = collector.scales._asdict().items()
    arrays = {f"scale/{name}": scale.to_array() for name, scale in scales}
    facts = {"episodes_begun": collector.episodes_begun, "recent_costs": collector.recent_costs}
    save_session(session, session.step, arrays, facts)


def epoch_length(schedule: OnPolicySchedule, step: int) -> int:
    """Steps of each environment in the epoch that begins at `step`."""
    return min(schedule.epoch_steps, schedule.steps - step) // schedule.environments


def compile_for_epochs(
    algorithm: Algorithm, spec: Spec, schedule: OnPolicySchedule, seed: int
) -> Learner:
    rollout = shapes(empty_rollout(schedule, spec, epoch_length(schedule, 0)))
    return compiled(algorithm, seed, lambda data: data, rollout)


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


def on_host(network: PolicyNetwork) -> Callable[[np.ndarray], np.ndarray]:
    """The policy's network in NumPy, observations [N, obs] -> [N, act], its last bias left out.

    The policy rests while it collects, and a dispatch costs more than this small network.
    """
    layers = [(np.asarray(p["weight"]), np.asarray(p["bias"])[None]) for p in network.layers]
    *hidden, (last, _) = layers
    activate = ACTIVATIONS[network.activation]

    def apply(x: np.ndarray) -> np.ndarray:
        for weight, bias in hidden:
            x = x.dot(weight)
            x += bias
            x = activate(x, out=x)
        return x.dot(last)

    return apply


def around_bias(
    session: OnPolicySession, network: PolicyNetwork, shape: tuple[int, ...]
) -> np.ndarray:
    """What the network's last layer adds in the epoch that begins now: its bias, and the noise by
    which actions differ from their mean.
    """
    seed = np.random.SeedSequence((session.run.seed, 0xAC7, session.step))
    noise = np.random.default_rng(seed).standard_normal(shape, np.float32)
    noise *= np.exp(np.asarray(network.log_std))
    noise += np.asarray(network.layers[-1]["bias"])
    return noise


def collect(session: OnPolicySession) -> Rollout:
    """One epoch in all environments. Observations are stored as the policy sees them."""
    run, collector = session.run, session.collector
    schedule = collector.schedule
    began, length = session.step, epoch_length(schedule, session.step)
    rollout: Any = empty_rollout(schedule, collector.spec, length)
    rewards, costs = (np.empty((length, schedule.environments)) for _ in range(2))
    network = session.learner.network(session.state)
    apply = on_host(network)
    actions = around_bias(session, network, rollout.action.shape)  # and the network the rest
    see = collector.scales.observation.see

    endings: list[Ending] = []
    first = np.zeros(schedule.environments, int)  # when the episodes in progress began
    due = run.horizon - 1  # when the oldest of them must end
    # What is seen before every step, and after the last; where an episode ends, before the next.
    seen = np.empty((length + 1, *rollout.observation.shape[1:]), np.float32)
    seen[0] = see(begin_episodes(session, first == 0))
    for time in range(length):
        action = actions[time]
        action += apply(seen[time])
        observation, reward, terminated, truncated, infos = collector.environments.step(action)
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
    for cost in (costs[:taken].min(), costs[:taken].max()):
        check_step_cost(run.task, float(cost), run.step_bounds())
    rollout.ends[-1] = 1.0
    rollout.next_observation[:] = seen[1:]
    for ending in endings:
        rollout.next_observation[ending.time, ending.places] = ending.seen
    rollout.reward[:] = to_scale(rewards, collector.scales.reward, schedule.normalise_reward)
    rollout.cost[:] = to_scale(costs, collector.scales.cost, schedule.normalise_cost)
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
    kept, recent = session.collector.schedule.cost_window, session.collector.recent_costs
    recent += finished
    if kept is None and finished:
        kept = len(finished)
    if kept is not None:
        del recent[:-kept]
    if not recent:
        return 0.0
    return float(np.mean(recent)) - session.run.budget


def begin_episodes(session: OnPolicySession, where: np.ndarray) -> np.ndarray:
    """The run's next episodes in these environments; their observations, [places, obs]."""
    collector = session.collector
    seeds: Any = [None] * len(where)  # one for each, which Gymnasium does not say in its types
    for place in np.flatnonzero(where):
        seeds[place] = episode_seed(session.run.seed, collector.episodes_begun)
        collector.episodes_begun += 1
    everywhere, _ = collector.environments.reset(seed=seeds, options={"reset_mask": where})
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
            line = {
                "step": began + end * together,
                "phase": "training",
                "return": sum(rewards[episode].tolist()),
                "cost": cost,
                "length": end - first,
            }
            session.episodes.write(line)
            session.reporter.episode_ended(line)
    if good < len(sound):
        session.step = began + (good + 1) * together
        check_finite(session, reward=rewards[good], cost=costs[good])
    return found
