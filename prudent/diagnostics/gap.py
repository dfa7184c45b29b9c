"""Estimated against realised cost.

    realised cost      G_t = q_t + γ m_t G_{t+1},  and G_T = W where a time limit cut the episode
    unseen share       u_t = γ m_t u_{t+1},        and u_T = 1 there
    what comes after   W = (mean cost per step in the second halves of cut episodes) / (1 - γ)
    oracle             mean of G_0
    gap (A)            mean of Q(s_0, a_0) - G_0:  the same starts, the same actions
    gap (B)            (mean of Q over training's batches) - oracle:  what drives the multiplier
    coverage           how often Q(s_t, a_t) >= G_t

γ is the cost discount, m the cost critic's mask, Q the conservative estimate. A critic looks past a
time limit, so the cost of an episode that was cut after 400 steps lacks u_0 = γ^400 = 1.8 % of
what the critic means; W, at the rate the policy costs once it is under way, puts it back. Where the
run's critics take the time limit for an end, nothing is missing.

All episodes share W, so its error does not show in how their G_0 scatter. Intervals are of G_0 plus
what each episode's own rate contributes to W (the delta method), which has the same mean.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from prudent.diagnostics.episodes import Visited
from prudent.statistics import mean_interval

# Coverage counts the states after which at most this share of the value went unseen.
LARGEST_UNSEEN = 0.1


class Realised(NamedTuple):
    """Per state visited in one episode."""

    costs: np.ndarray  # [T], G
    unseen: np.ndarray  # [T], u


class Oracle(NamedTuple):
    episodes: list[Realised]
    after: float  # W
    starts: np.ndarray  # [episodes], G_0 with each one's share in the error of W; same mean


class Estimates(NamedTuple):
    """As in `pieces.types.CostEstimate`, of all states of all episodes in order."""

    mean: np.ndarray
    spread: np.ndarray
    conservative: np.ndarray


Estimate = Callable[[np.ndarray, np.ndarray], Estimates]  # observations, actions


def cost_after_cut(episodes: Sequence[Visited], discount: float) -> float:
    """W. Without discounting there is no such number, and 0 is all that can be said."""
    halves = [episode.costs[len(episode.costs) // 2 :] for episode in episodes if episode.cut]
    if not halves or discount == 1.0:
        return 0.0
    return float(np.mean(np.concatenate(halves)) / (1.0 - discount))


def realised(episode: Visited, discount: float, after: float) -> Realised:
    costs, unseen = np.empty(len(episode.costs)), np.empty(len(episode.costs))
    cost, share = (after, 1.0) if episode.cut else (0.0, 0.0)
    for time in reversed(range(len(costs))):
        factor = discount * episode.continues[time]
        cost, share = episode.costs[time] + factor * cost, factor * share
        costs[time], unseen[time] = cost, share
    return Realised(costs, unseen)


def oracle_of(episodes: Sequence[Visited], discount: float, cut_is_end: bool) -> Oracle:
    """`cut_is_end`: the critics were taught that nothing follows a time limit."""
    if cut_is_end:
        episodes = [episode._replace(cut=False) for episode in episodes]
    after = cost_after_cut(episodes, discount)
    costs_ahead = [realised(episode, discount, after) for episode in episodes]
    return Oracle(costs_ahead, after, starts_of(costs_ahead, share_in_rate(episodes), discount))


def share_in_rate(episodes: Sequence[Visited]) -> np.ndarray:
    """How far each episode moves the mean cost per step of the second halves, times how many."""
    halves = [e.costs[len(e.costs) // 2 :] if e.cut else np.empty(0) for e in episodes]
    sums, counts = np.array([h.sum() for h in halves]), np.array([h.size for h in halves])
    if not counts.any():
        return np.zeros(len(episodes))
    shares: np.ndarray = len(episodes) * (sums - counts * sums.sum() / counts.sum()) / counts.sum()
    return shares


def starts_of(episodes: Sequence[Realised], shares: np.ndarray, discount: float) -> np.ndarray:
    starts = np.array([episode.costs[0] for episode in episodes])
    if discount == 1.0:
        return starts
    unseen = np.mean([episode.unseen[0] for episode in episodes])
    added: np.ndarray = starts + unseen * shares / (1.0 - discount)
    return added


def with_interval(name: str, values: np.ndarray) -> dict[str, Any]:
    """Of independent episodes."""
    return {name: float(np.mean(values)), f"{name}_interval": mean_interval(values)}


def describe_oracle(oracle: Oracle) -> dict[str, Any]:
    return {
        **with_interval("oracle", oracle.starts),
        "unseen": float(np.mean([episode.unseen[0] for episode in oracle.episodes])),
        "cost_after_cut": oracle.after,
    }


def describe_gap(episodes: Sequence[Visited], oracle: Oracle, estimate: Estimate) -> dict[str, Any]:
    """Gap (A), spread and coverage."""
    estimates = estimate(
        np.concatenate([episode.observations for episode in episodes]),
        np.concatenate([episode.actions for episode in episodes]),
    )
    costs = np.concatenate([episode.costs for episode in oracle.episodes])
    unseen = np.concatenate([episode.unseen for episode in oracle.episodes])
    starts = np.cumsum([0, *(len(episode.costs) for episode in episodes[:-1])])
    line = {
        "estimate": float(np.mean(estimates.conservative[starts])),
        **with_interval("gap", estimates.conservative[starts] - oracle.starts),
        **with_interval("mean_gap", estimates.mean[starts] - oracle.starts),
        "start_spread": float(np.mean(estimates.spread[starts])),
        "spread": float(np.mean(estimates.spread)),
    }
    seen = unseen <= LARGEST_UNSEEN
    if seen.any():
        above = estimates.conservative[seen] - costs[seen]
        line["coverage"] = float(np.mean(above >= 0.0))
        line["visited_gap"] = float(np.mean(above))
        line["coverage_states"] = int(seen.sum())
    return line


def describe_dual(oracle: dict[str, Any], dual_estimate: float) -> dict[str, Any]:
    """Gap (B), whose interval knows of the oracle's episodes only."""
    bounds = oracle["oracle_interval"]
    return {
        "dual_estimate": dual_estimate,
        "dual_gap": dual_estimate - oracle["oracle"],
        "dual_gap_interval": bounds and [dual_estimate - bounds[1], dual_estimate - bounds[0]],
    }
