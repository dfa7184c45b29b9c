"""Environments against their physics."""

from time import perf_counter

import numpy as np

from prudent.bench.timing import best_seconds
from prudent.tasks.finding import find_task
from prudent.tasks.navigation.speed import bare_physics_steps_per_second

CHUNK, CHUNKS = 400, 25  # environment steps between two turns, and turns


def measure_environment(name: str) -> dict[str, float]:
    """A task's environment against a loop of nothing but its physics, in alternating pieces."""
    env = find_task(name, budget=0.0).make()
    if not hasattr(env.unwrapped, "model"):
        raise ValueError(f"{name} has no MuJoCo model to compare with")
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(CHUNK)]

    def play() -> float:
        env.reset(seed=0)
        seconds = 0.0
        for action in actions:
            began = perf_counter()
            _, _, terminated, truncated, _ = env.step(action)
            seconds += perf_counter() - began
            if terminated or truncated:
                env.reset(seed=0)
        return CHUNK / seconds

    def reset() -> None:
        env.reset(seed=0)

    pairs = [(play(), bare_physics_steps_per_second(env, CHUNK)) for _ in range(CHUNKS)]
    full, bare = np.array(pairs).T
    results = {
        "environment_steps_per_second": float(full.max()),
        "bare_physics_steps_per_second": float(bare.max()),
        "physics_ratio": float(np.median(full / bare)),
        "reset_seconds": best_seconds(reset, 50),
    }
    env.close()
    return results
