"""On-policy training from end to end."""

import resource
from time import perf_counter

import gymnasium
import numpy as np

from prudent.algorithms import find_algorithm
from prudent.algorithms.resolve import make_run, settings, with_values
from prudent.bench.hopper import ACTION, TASK, prepared_run
from prudent.settings.run import Run
from prudent.settings.schedules import OnPolicySchedule
from prudent.training.epoch_collector import open_on_policy, save
from prudent.training.evaluation import evaluate_and_record
from prudent.training.on_policy import take_epoch

BARE_STEPS = 5_000  # before and after each epoch


def run_for(algorithm: str, environments: int) -> tuple[Run, OnPolicySchedule]:
    """The stop on divergence is off: in a long run it seldom ends the passes early, but in the
    first epochs it does.
    """
    entry = find_algorithm(algorithm)
    paper = settings(entry, TASK, "paper" if "paper" in entry.presets(TASK) else None)
    chosen = with_values(paper, {"max_divergence": 1e9, "environments": environments})
    assert isinstance(chosen.schedule, OnPolicySchedule)
    return make_run(algorithm, TASK, "bench", 0, chosen), chosen.schedule


def bare_steps_per_second(env: gymnasium.Env, generator: np.random.Generator) -> float:
    actions = generator.uniform(-1.0, 1.0, (BARE_STEPS, ACTION)).astype(np.float32)
    env.reset()
    began = perf_counter()
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return BARE_STEPS / (perf_counter() - began)


def measure_epochs(algorithm: str, environments: int, epochs: int) -> dict[str, float]:
    """All of it, against plain Gymnasium's Hopper under random actions.

    Each epoch stands between two pieces of the bare environment, so that noise meets both. To what
    it collects, learns and saves comes its share of the evaluations.
    """
    run, schedule = run_for(algorithm, environments)
    generator = np.random.default_rng(0)
    bare = gymnasium.make("Hopper-v5", max_episode_steps=TASK.horizon, disable_env_checker=True)
    rounds = []
    with prepared_run(run) as prepared:
        session = open_on_policy(prepared)
        take_epoch(session)
        evaluate_and_record(session)
        for _ in range(epochs):
            before = bare_steps_per_second(bare, generator)
            began = perf_counter()
            take_epoch(session)
            save(session)
            learned = perf_counter()
            after = bare_steps_per_second(bare, generator)
            passes = session.window.means()["passes"]
            evaluating = perf_counter()
            evaluate_and_record(session)
            share = schedule.epoch_steps / schedule.evaluate_every
            seconds = learned - began + share * (perf_counter() - evaluating)
            speed = schedule.epoch_steps / seconds
            rounds.append((speed, (before + after) / 2, speed * 2 / (before + after), passes))
    bare.close()
    speed, alone, ratio, passes = np.median(np.array(rounds), axis=0).tolist()
    return {
        "environments": environments,
        "steps_per_second": speed,
        "bare_steps_per_second": alone,
        "bare_ratio": ratio,
        "passes": passes,
        "minutes_for_five_million": 5e6 / speed / 60,
        "resident_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
