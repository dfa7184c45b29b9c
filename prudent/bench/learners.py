"""Off-policy learners: one update against its roofline, and a step's cost besides its updates."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from prudent.algorithms import ALGORITHMS
from prudent.bench.hopper import ACTION, BUDGET, OBSERVATION, hopper_config, hopper_session
from prudent.bench.products import Product, traced_products
from prudent.bench.roofline import against_roofline
from prudent.bench.timing import best_seconds
from prudent.bench.traffic import moved_bytes
from prudent.pieces.types import Spec, row_width
from prudent.training.learner import compile_for_rows
from prudent.training.off_policy import draw, learn, take_step

UPDATES = 10  # per call, as many as follow an environment step in CAL's presets
WATCHED = 12  # updates, among which one in 2, 3, 4 or 6 is counted exactly


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


def needed_products(subject: Subject) -> list[Product]:
    """Of one update."""
    state = jax.eval_shape(subject.init)
    return traced_products(lambda state, rows: subject.update(state, rows, 0), state, one(subject))


def needed_bytes(subject: Subject) -> dict[str, int]:
    """Of one update, on average over those watched."""
    state, history = subject.init(), []
    for index in range(WATCHED + 1):
        # Copies, since an update is free to reuse what it is given.
        history.append(jax.tree.map(np.array, state))
        state = subject.update(state, one(subject), index)
    return moved_bytes(history)


def one(subject: Subject) -> np.ndarray:
    return subject.rows[:1]


def measure_update(algorithm: str, batch: int) -> dict[str, Any]:
    """Updates per second and the roofline."""
    subject = subject_for(algorithm, hopper_config(algorithm), batch)
    products, moved = needed_products(subject), needed_bytes(subject)
    state = subject.init()

    def call() -> None:
        nonlocal state
        state = subject.update(state, subject.rows, 0)
        jax.block_until_ready(state)

    call()
    updates = len(subject.rows)
    found = against_roofline(call, updates, products, moved)
    return {"batch_size": batch, "updates_per_call": updates, **found}


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
        updating = best_seconds(learn_ten, 20) - best_seconds(draw_ten, 20)
        environment = best_seconds(bare, 10) / 100
    return {
        "environment_steps_per_second": 1.0 / environment,
        "outside_update_seconds": outside,
        "ten_updates_seconds": updating,
        "outside_share": outside / updating,
    }
