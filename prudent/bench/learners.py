"""Off-policy learners: updates per second, and what a step costs besides its updates."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from prudent.algorithms import ALGORITHMS
from prudent.bench.hopper import ACTION, BUDGET, OBSERVATION, hopper_config, hopper_session
from prudent.bench.timing import best_in_turns, best_seconds
from prudent.pieces.types import Spec, row_width
from prudent.training.learner import compile_for_rows
from prudent.training.off_policy import draw, learn, take_step

UPDATES = 10  # per call, as many as follow an environment step in CAL's presets


class Subject(NamedTuple):
    """A compiled learner and the minibatches to feed it."""

    init: Callable[[], Any]
    update: Callable[[Any, np.ndarray, int], Any]  # state, rows, index of the first -> state
    rows: np.ndarray  # [updates, batch, width]


def subject_for(algorithm: str, config: Any, batch: int) -> Subject:
    spec = Spec(OBSERVATION, ACTION, BUDGET, (1.0,) * ACTION, (0.0,) * ACTION)
    learner = compile_for_rows(ALGORITHMS[algorithm].build(config, spec), spec, batch, seed=0)
    shape = max(2, UPDATES * 12 // batch), batch, row_width(OBSERVATION, ACTION)
    rows = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)

    def update(state: Any, rows: np.ndarray, first: int) -> Any:
        return learner.update(state, {"rows": rows, "first": np.int32(first)}, 0)[0]

    return Subject(learner.init, update, rows)


def updating(subject: Subject) -> Callable[[], None]:
    """A call that makes as many updates as the subject has minibatches."""
    state = subject.init()

    def call() -> None:
        nonlocal state
        state = subject.update(state, subject.rows, 0)
        jax.block_until_ready(state)

    call()  # compiles
    return call


def measure_update(algorithm: str, batch: int) -> dict[str, Any]:
    subject = subject_for(algorithm, hopper_config(algorithm), batch)
    (seconds,) = best_in_turns([updating(subject)])
    updates = len(subject.rows)
    return {
        "batch_size": batch,
        "updates_per_call": updates,
        "updates_per_second": updates / seconds,
    }


def measure_step(algorithm: str) -> dict[str, float]:
    """What one environment step costs besides its updates: act, step, store, draw batches."""
    with hopper_session(algorithm) as session:
        for _ in range(500):
            take_step(session)

        def steps() -> None:
            for _ in range(200):
                take_step(session)

        def draw_ten() -> None:
            draw(session, UPDATES)

        def learn_ten() -> None:
            learn(session, UPDATES, 0)

        def bare() -> None:
            environment = session.collector.environment
            environment.reset(0)
            action = np.zeros(ACTION)
            for _ in range(100):
                if environment.step(action).terminated:
                    environment.reset(0)

        learn_ten()
        outside = best_seconds(steps, 5) / 200 + best_seconds(draw_ten, 20)
        learning = best_seconds(learn_ten, 20) - best_seconds(draw_ten, 20)
        environment = best_seconds(bare, 10) / 100
    return {
        "environment_steps_per_second": 1.0 / environment,
        "outside_update_seconds": outside,
        "ten_updates_seconds": learning,
        "outside_share": outside / learning,
    }
