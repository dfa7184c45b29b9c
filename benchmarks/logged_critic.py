"""What a cost critic makes of a fixed bid, learned from a logged week it was not used in.

    python benchmarks/logged_critic.py DATA --k 0.7 1.0 1.2 --gmv calibrated

Fitted Q-evaluation of "always k" with the networks and the batches of `prudent bidding run`; with
`--sees k` critics see k itself instead of the action in [-1, 1]. Printed are the estimates at the
start of days after each quarter of the updates. What days really cost with that k, `prudent bidding
simulate --policy constant:K` tells (the mean deficit of its ledgers, in tenths of a budget).
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from prudent.pieces.critics import Critic, CriticState, q_ensemble
from prudent.pieces.fast import adam
from prudent.pieces.networks import STYLES
from prudent.pieces.types import Spec
from prudent_bidding.dataset import HistoricalDataset, Learning
from prudent_bidding.schema import K_HIGH, K_LOW, OBSERVATION_SIZE

DISCOUNT, BATCH, AT_ONCE, QUARTERS, DAYS = 0.999, 64, 250, 4, 4_000
TARGET_RATE = 0.025  # 0.05 every second update


def evaluated(history: HistoricalDataset, k: float, sees: str, updates: int) -> list[float]:
    """At the starts of days, after each quarter."""
    spec = Spec(OBSERVATION_SIZE, 1, 0.0, (1.0,), (0.0,))
    critic: Critic = q_ensemble(
        spec,
        (256, 256),
        STYLES["silu-normal"],
        size=1,
        optimiser=adam(3e-4),
        target_rate=TARGET_RATE,
    )
    half, centre = (K_HIGH - K_LOW) / 2, (K_HIGH + K_LOW) / 2
    scale = history.scale()

    def seen(action):
        return half * action + centre if sees == "k" else action

    def scaled(observation):
        near = (observation - scale.mean) / scale.deviation
        return jnp.clip(near, -scale.largest, scale.largest)

    always = seen((k - centre) / half)

    def step(state: CriticState, rows):
        observation, action, cost, continues, following = rows
        there = jnp.full((BATCH, 1), always)
        ahead = critic.target_values(state, scaled(following), there)
        target = cost + DISCOUNT * continues * ahead
        state, _ = critic.fit(state, target, scaled(observation), seen(action))
        return critic.track(state), None

    learn = jax.jit(lambda state, rows: jax.lax.scan(step, state, rows)[0])
    (week,), (days,) = history.weeks, history.chosen
    first = history.read(week, week.segments.start[days[:DAYS]])
    state, generator, found = critic.init(jax.random.key(0)), np.random.default_rng(0), []
    for block in range(updates // AT_ONCE):
        drawn = history.draw(AT_ONCE, BATCH, generator)
        rows = (drawn.observation, drawn.action, drawn.cost, drawn.continues)
        state = learn(state, (*rows, drawn.next_observation))
        if (block + 1) % (updates // AT_ONCE // QUARTERS) == 0:
            there = jnp.full((len(first.cost), 1), always)
            found.append(float(critic.values(state, scaled(first.observation), there).mean()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--week", type=int, default=0)
    parser.add_argument("--k", type=float, nargs="+", default=[1.2])
    parser.add_argument("--gmv", choices=["realised", "calibrated"], default="calibrated")
    parser.add_argument("--sees", choices=["k", "scaled"], default="scaled")
    parser.add_argument("--updates", type=int, default=20_000)
    options = parser.parse_args()
    learning = Learning(gmv=options.gmv)
    history = HistoricalDataset(options.data, [options.week], learning=learning)
    for k in options.k:
        found = evaluated(history, k, options.sees, options.updates)
        print(f"always k = {k:g}: {', '.join(f'{q:.2f}' for q in found)}", flush=True)


if __name__ == "__main__":
    main()
