"""A small environment in which little is alike, and learners of a few lines, for testing loops.

Episodes differ by their seed in where they start, how long they last and how they end; costs differ
by step. What happens in it is written down, so that a test can say what should have.
"""

from dataclasses import dataclass, field
from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces import Box
from numpy.random import SeedSequence

from prudent.pieces.normaliser import ScaledState, Scaling
from prudent.pieces.types import PolicyNetwork
from prudent.settings.run import Constraint
from prudent.tasks.task import Task
from prudent.training.learner import Learner

HORIZON = 5


def seed_of(run_seed: int, index: int) -> int:
    """An episode's reset seed, as the manual has it."""
    return int(SeedSequence((run_seed, index)).generate_state(1)[0])


class Course:
    """What an episode of a seed will be."""

    def __init__(self, seed: int) -> None:
        generator = np.random.default_rng(seed)
        self.start = generator.uniform(-1.0, 1.0)
        self.length = int(generator.integers(2, 9))  # beyond the horizon, which then cuts it
        self.terminates = bool(generator.integers(2))
        self.steps = min(self.length, HORIZON)
        self.terminated = self.terminates and self.length <= HORIZON

    def cost(self, time: int) -> float:
        return time + abs(self.start)


@dataclass
class Life:
    """All that happened in one environment."""

    seeds: list[int] = field(default_factory=list)
    actions: list[list[float]] = field(default_factory=list)  # by episode, in its units


class Varied(gymnasium.Env):
    """Sees (start, time); action in [-1, 3]; rewarded by the action, charged by the time."""

    lives: list[Life] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.observation_space = Box(-10.0, 10.0, (2,), np.float64)
        self.action_space = Box(-1.0, 3.0, (1,), np.float64)
        self.life = Life()
        Varied.lives.append(self.life)

    def reset(self, *, seed: int | None = None, options: Any = None):
        super().reset(seed=seed)
        self.life.seeds.append(seed)
        self.life.actions.append([])
        self.course, self.time = Course(seed), 0
        return np.array([self.course.start, 0.0]), {}

    def step(self, action):
        assert self.time < self.course.length, "the episode is over"
        self.time += 1
        self.life.actions[-1].append(float(action[0]))
        over = self.time == self.course.length
        seen = np.array([self.course.start, float(self.time)])
        cost = {"cost": self.course.cost(self.time)}
        return seen, float(action[0]), over and self.course.terminates, over, cost


def varied(deterministic_reset: bool = False, discounted: bool = False) -> Task:
    def make(render_mode=None):
        return Varied()

    constraint = Constraint(4.0, discounted)
    return Task("varied", make, HORIZON, constraint, "", deterministic_reset=deterministic_reset)


@dataclass
class Calls:
    """What was asked of a learner."""

    acted: list[int] = field(default_factory=list)  # the time of each action
    sampled: list[int] = field(default_factory=list)
    updates: list[tuple[int, int, int]] = field(default_factory=list)  # size, first, moment
    rows: list[np.ndarray] = field(default_factory=list)
    poison_at: int | None = None  # the update after which the state is not finite
    metrics: Any = None  # number of calls -> metrics, where they should differ


NONE: Any = None  # these learners were compiled from no algorithm
GREEDY, SAMPLED = 0.25, -0.5  # unit actions, so 1.5 and 0


def off_policy_learner(calls: Calls) -> Learner:
    """Acts by a constant; its state counts what it has learned."""

    def act(state: Any, observation: np.ndarray, time: int) -> np.ndarray:
        calls.acted.append(int(time))
        return np.full(1, np.sin(0.7 * time + float(observation[0])), np.float32)

    def greedily(state: Any, observations: np.ndarray) -> np.ndarray:
        return np.full((len(observations), 1), GREEDY, np.float32)

    def sample(state: Any, observations: np.ndarray, time: int) -> np.ndarray:
        calls.sampled.append(int(time))
        return np.full((len(observations), 1), SAMPLED + 0.125 * time, np.float32)

    def update(state: Any, data: Any, moment: int) -> tuple[Any, np.ndarray]:
        packed = np.asarray(data["rows"])
        calls.updates.append((len(packed), int(data["first"]), int(moment)))
        calls.rows.append(packed)
        new = {"sum": state["sum"] + packed.sum(dtype=np.float64).astype(np.float32)}
        if calls.poison_at == len(calls.updates):
            new = {"sum": np.float32(np.nan)}
        if calls.metrics:
            return new, calls.metrics(len(calls.updates))
        return new, np.array([packed.mean(), 2.0], np.float32)

    return Learner(
        algorithm=NONE,
        init=lambda: {"sum": np.zeros((), np.float32)},
        act=act,
        act_greedily=greedily,
        sample=sample,
        update=update,
        network=lambda state: None,
        metric_names=("multiplier", "violation"),
    )


BIAS, LOG_STD = 0.2, float(np.log(0.3))


def on_policy_learner(calls: Calls) -> Learner:
    def update(agent: Any, rollout: Any, moment: int) -> tuple[Any, np.ndarray]:
        calls.updates.append((rollout.reward.size, 0, int(moment)))
        calls.rows.append(rollout)
        learner = {"sum": agent.learner["sum"] + np.float32(rollout.reward.sum())}
        if calls.poison_at == len(calls.updates):
            learner = {"sum": np.float32(np.nan)}
        return agent._replace(learner=learner), np.array([1.0, 2.0], np.float32)

    def network(agent: Any) -> PolicyNetwork:
        layers = [
            {"weight": np.zeros((2, 3), np.float32), "bias": np.zeros(3, np.float32)},
            {"weight": np.zeros((3, 1), np.float32), "bias": np.full(1, BIAS, np.float32)},
        ]
        return PolicyNetwork(layers, "tanh", "clip", np.full(1, LOG_STD, np.float32))

    return Learner(
        algorithm=NONE,
        init=lambda: ScaledState({"sum": jnp.zeros(())}, Scaling(jnp.zeros(2), jnp.ones(2))),
        act=lambda *_: np.zeros(1),
        act_greedily=lambda agent, seen: np.full((len(seen), 1), GREEDY, np.float32),
        sample=lambda agent, seen, time: np.full((len(seen), 1), SAMPLED, np.float32),
        update=update,
        network=network,
        metric_names=("multiplier", "violation"),
    )
