"""Episodes of one policy, with everything that a cost critic would have seen of them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from prudent.tasks.adapter import AdaptedEnv
from prudent.training.evaluate import Act


class Visited(NamedTuple):
    """The steps of one episode."""

    observations: np.ndarray  # [T, obs]
    actions: np.ndarray  # [T, act], in [-1, 1]
    costs: np.ndarray  # [T]
    continues: np.ndarray  # [T], 0 where the cost critic must not look past the step
    cut: bool  # by a time limit: what would have followed was not seen


class _Episode:
    """One in progress."""

    def __init__(self, index: int, observation: np.ndarray) -> None:
        self.index, self.observation = index, observation
        self.steps: list[tuple[np.ndarray, np.ndarray, float, float]] = []

    def finished(self, terminated: bool) -> Visited:
        observations, actions, costs, continues = zip(*self.steps, strict=True)
        return Visited(
            np.array(observations, np.float32),
            np.array(actions, np.float32),
            np.array(costs, float),
            np.array(continues, float),
            cut=not terminated,
        )


def play(
    act: Act,
    environments: Sequence[AdaptedEnv],
    seeds: Sequence[int],
    horizon: int,
    ended: Callable[[], object] = lambda: None,
) -> list[Visited]:
    """One whole episode per seed, in that order; one call of `act` steps all environments.

    An environment whose episode is over takes the next seed at once, so that short episodes do not
    wait for long ones. `ended` is called after each.
    """
    found: dict[int, Visited] = {}
    waiting = iter(enumerate(seeds))
    running: dict[int, _Episode] = {}  # by the environment's place

    def begin(place: int) -> None:
        index, seed = next(waiting, (None, 0))
        if index is None:
            running.pop(place, None)
        else:
            running[place] = _Episode(index, environments[place].reset(seed))
            observations[place] = running[place].observation

    observations = np.zeros((len(environments), environments[0].observation_size))
    for place in range(len(environments)):
        begin(place)
    time = 0
    while running:
        actions = act(observations, time)
        executed = environments[0].to_environment(actions)
        time += 1
        for place, episode in tuple(running.items()):
            outcome = environments[place].take(executed[place])
            episode.steps.append(
                (episode.observation, actions[place], outcome.cost, outcome.cost_continues)
            )
            episode.observation = observations[place] = outcome.observation
            if outcome.terminated or outcome.truncated or len(episode.steps) >= horizon:
                found[episode.index] = episode.finished(outcome.terminated)
                ended()
                begin(place)
    return [found[index] for index in range(len(seeds))]
