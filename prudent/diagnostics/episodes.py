"""Episodes of one policy, with everything that a cost critic would have seen of them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from prudent.tasks.adapter import AdaptedEnv
from prudent.tasks.episodes import Act


class Visited(NamedTuple):
    """The steps of one episode."""

    observations: np.ndarray  # [T, obs]
    actions: np.ndarray  # [T, act], in [-1, 1]
    costs: np.ndarray  # [T]
    continues: np.ndarray  # [T], 0 where the cost critic must not look past the step
    cut: bool  # by a time limit: what would have followed was not seen


class _Episode:
    """One in progress, which an environment began at that time."""

    def __init__(self, index: int, began: int) -> None:
        self.index, self.began = index, began
        self.costs: list[float] = []
        self.continues: list[float] = []


class _Over(NamedTuple):
    episode: _Episode
    place: int  # of its environment
    terminated: bool


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
    over: list[_Over] = []
    waiting = iter(enumerate(seeds))
    running: dict[int, _Episode] = {}  # by the environment's place
    seen: list[np.ndarray] = []  # by time, [N, obs]; of an environment that is done, anything
    done: list[np.ndarray] = []  # by time, [N, act]

    def begin(place: int) -> None:
        index, seed = next(waiting, (None, 0))
        if index is None:
            running.pop(place, None)
        else:
            running[place] = _Episode(index, len(seen))
            observations[place] = environments[place].reset(seed)

    takes = [environment.take for environment in environments]
    observations = np.zeros((len(environments), environments[0].observation_size))
    for place in range(len(environments)):
        begin(place)
    while running:
        now = observations.astype(np.float32)
        actions = act(now, len(seen))
        seen.append(now)
        done.append(actions)
        executed = list(environments[0].to_environment(actions))
        for place, episode in tuple(running.items()):
            # Taken apart at once: looking parts up by name takes longer on quick environments.
            seen_next, _, cost, terminated, truncated, _, continues, _ = takes[place](
                executed[place]
            )
            observations[place] = seen_next
            episode.costs.append(cost)
            episode.continues.append(continues)
            if terminated or truncated or len(seen) >= episode.began + horizon:
                over.append(_Over(episode, place, terminated))
                ended()
                begin(place)
    by_seed = sorted(over, key=lambda one: one.episode.index)
    return visited(by_seed, np.array(seen), np.array(done, np.float32))


def visited(over: Sequence[_Over], seen: np.ndarray, done: np.ndarray) -> list[Visited]:
    """`seen` and `done` are of all times and environments: [time, N, ...]."""
    found = []
    for episode, place, terminated in over:
        times = slice(episode.began, episode.began + len(episode.costs))
        costs, continues = np.array(episode.costs), np.array(episode.continues)
        one = Visited(seen[times, place], done[times, place], costs, continues, not terminated)
        found.append(one)
    return found
