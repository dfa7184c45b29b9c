"""Evaluation in environments of its own: it cannot touch training's."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.random import SeedSequence

from prudent.settings.run import Constraint, Run
from prudent.tasks.adapter import AdaptedEnv, UnsupportedEnvironment

# The same starts for every run and every evaluation, so that comparisons are paired.
EVALUATION_SEED = 20_240_118
SEEDS_AT_ONCE = 64

Act = Callable[[np.ndarray, int], np.ndarray]  # observations [N, obs], time -> actions [N, act]


class Episodes(NamedTuple):
    """One number per episode."""

    returns: np.ndarray  # undiscounted
    costs: np.ndarray  # counted as the budget is
    lengths: np.ndarray

    def summary(self, budget: float) -> dict[str, Any]:
        return {
            "return": float(np.mean(self.returns)),
            "cost": float(np.mean(self.costs)),
            "length": float(np.mean(self.lengths)),
            "within_budget": float(np.mean(self.costs <= budget)),
            "returns": self.returns.tolist(),
            "costs": self.costs.tolist(),
            "lengths": self.lengths.tolist(),
        }


def episode_seed(run_seed: int, index: int) -> int:
    """The reset seed of a run's episode: any episode can be started again by itself."""
    return _seeds(run_seed, index // SEEDS_AT_ONCE)[index % SEEDS_AT_ONCE]


@lru_cache(maxsize=8)
def _seeds(run_seed: int, block: int) -> tuple[int, ...]:
    """Drawn ahead, because one alone costs a short episode as much as a few of its steps."""
    indices = range(block * SEEDS_AT_ONCE, (block + 1) * SEEDS_AT_ONCE)
    return tuple(int(SeedSequence((run_seed, i)).generate_state(1)[0]) for i in indices)


def evaluation_seeds(episodes: int) -> list[int]:
    return [episode_seed(EVALUATION_SEED, index) for index in range(episodes)]


class Accounting(NamedTuple):
    """How an episode is cut and its cost counted."""

    constraint: Constraint
    discount: float
    horizon: int


def accounting_of(run: Run) -> Accounting:
    return Accounting(run.constraint, run.config.cost_discount, run.horizon)


def run_episodes(
    act: Act,
    environments: Sequence[AdaptedEnv],
    seeds: Sequence[int],
    accounting: Accounting,
    check_cost: Callable[[float], object] = float,
    began: int = 0,
) -> Episodes:
    """One episode per environment, in step with each other so that `act` is called once for all.

    `check_cost` sees the cost of every step, and may refuse it. The time that `act` is told counts
    from `began`.
    """
    first = [environment.reset(seed) for environment, seed in zip(environments, seeds, strict=True)]
    # Later ones are written over these, so whole numbers must not decide what they can hold.
    observations = np.stack(first).astype(float)
    rewards: list[list[float]] = [[] for _ in environments]
    costs: list[list[float]] = [[] for _ in environments]
    running = list(range(len(environments)))
    for time in range(accounting.horizon):
        actions = act(observations, began + time)
        for index in tuple(running):
            outcome = environments[index].step(actions[index])
            observations[index] = outcome.observation
            rewards[index].append(outcome.reward)
            costs[index].append(outcome.cost)
            check_cost(outcome.cost)
            if outcome.terminated or outcome.truncated:
                running.remove(index)
        if not running:
            break
    measure = accounting.constraint.measure
    return Episodes(
        returns=np.array([sum(r) for r in rewards]),
        costs=np.array([measure(c, accounting.discount) for c in costs]),
        lengths=np.array([len(r) for r in rewards]),
    )


def check_finite(name: str, episodes: Episodes, seeds: Sequence[int]) -> None:
    for gained, cost, seed in zip(episodes.returns, episodes.costs, seeds, strict=True):
        if not (isfinite(gained) and isfinite(cost)):
            raise UnsupportedEnvironment(
                f"{name}: the episode with reset seed {seed} has return {gained:g} and cost "
                f"{cost:g}; make the environment return finite numbers"
            )


def run_in_turns(
    act: Act, environments: Sequence[AdaptedEnv], seeds: Sequence[int], accounting: Accounting
) -> Episodes:
    """One episode per seed, in as many environments at once as there are.

    The time that `act` is told goes on from turn to turn, so that noise drawn from it differs.
    """
    turns = []
    for first in range(0, len(seeds), len(environments)):
        now = seeds[first : first + len(environments)]
        began = first * accounting.horizon
        together = environments[: len(now)]
        turns.append(run_episodes(act, together, now, accounting, began=began))
    return Episodes(*(np.concatenate(arrays) for arrays in zip(*turns, strict=True)))
