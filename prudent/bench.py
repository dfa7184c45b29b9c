"""How fast an update is, against what this core could do at best.

The roofline is measured in the same run on the same core: the best BLAS time of every matrix
product that one update needs, plus the bytes the optimisers and the target copies must move over
the measured copy bandwidth. Nothing else (activations, losses, random numbers, dispatch) is granted
any time, so a ratio of 1 cannot be reached by plain means.
"""

import itertools
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter, time
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np
import tyro

from prudent import backend
from prudent.algorithms import ALGORITHMS
from prudent.configs import (
    CALConfig,
    CVPOConfig,
    OffPolicySchedule,
    OnPolicyConfig,
    OnPolicySchedule,
    SACPIDConfig,
    WCSACConfig,
)
from prudent.experiments.presets import BASELINES, settings
from prudent.files import to_json

OBSERVATION, ACTION, BUDGET = 11, 3, 82.748  # Hopper's sizes
UPDATES = 10  # per call, as many as follow an environment step in CAL's presets
PIECE_SECONDS = 0.02  # about ten updates at batch 12, or one at batch 256
ROUNDS = 40
BARE_STEPS = 5_000  # before and after each epoch of an on-policy learner
CHUNK, CHUNKS = 400, 25  # environment steps between two turns, and turns


@dataclass(frozen=True)
class BenchOptions:
    algorithm: str = "cal"
    """Whose update to measure."""
    env: str | None = None
    """Measure this task's environment against its bare physics instead."""
    batch_sizes: tuple[int, ...] = (12, 256)
    """Of an off-policy learner."""
    environments: tuple[int, ...] = (1, 8)
    """Of an on-policy learner, which is measured with all it does against a bare environment."""
    epochs: int = 10
    """Of an on-policy learner, after a first one that compiles."""
    core: int | None = None
    """The core to stay on (default: the last one this process may use)."""
    json: bool = False
    part: Literal["all", "first-update"] = "all"
    """`first-update` is what the start-up measurement runs in a process of its own."""
    started: float = 0.0
    """With it, when that process was started (seconds since the epoch)."""


class Product(NamedTuple):
    """A matrix product [rows, inner] x [inner, columns] that one update needs `times` times."""

    use: str
    rows: int
    inner: int
    columns: int
    times: int


def network_products(
    name: str, sizes: tuple[int, ...], batch: int, calls: "Calls"
) -> list[Product]:
    """Products of one network in one update, layer by layer."""
    products = []
    layers = list(itertools.pairwise(sizes))
    for index, (inputs, outputs) in enumerate(layers):
        first = index == 0
        into_layer = calls.input_gradients if first else calls.input_gradients + calls.fits
        where = f"{name} {inputs}x{outputs}"
        products += [
            Product(f"{where} forward", batch, inputs, outputs, calls.forwards),
            Product(f"{where} weight gradient", inputs, batch, outputs, calls.fits),
            Product(f"{where} input gradient", batch, outputs, inputs, into_layer),
        ]
    return [product for product in products if product.times]


class Calls(NamedTuple):
    """How often one update passes through a network."""

    forwards: int
    fits: int  # backward passes that reach the weights
    input_gradients: int  # backward passes that go through to the input


def cal_products(config: CALConfig, batch: int) -> list[Product]:
    """What the equations need; nothing is counted twice where two passes could share a batch."""
    hidden, members = config.hidden, config.cost_critics
    policy = (OBSERVATION, *hidden, 2 * ACTION)
    critic = (OBSERVATION + ACTION, *hidden, 1)
    # Critics: target at s', fit at (s, a), then the policy's action with its gradient; the cost
    # critics once more at (s, a) for the violation.
    violation = 1 if config.dual_action == "buffer" else 0
    return [
        *network_products("policy", policy, batch, Calls(2, 1, 0)),
        *network_products("reward critics", critic, batch, Calls(2 * 3, 2, 2)),
        *network_products(
            "cost critics", critic, batch, Calls(members * (3 + violation), members, members)
        ),
    ]


def parameter_count(sizes: tuple[int, ...]) -> int:
    return sum(i * o + o for i, o in itertools.pairwise(sizes))


def moved_bytes(config: Any, critics: int, target_period: int = 1) -> dict[str, int]:
    """Optimiser: gradient, parameter, two moments read; parameter, two moments written. Target:
    both copies read, one written, every `target_period` updates.
    """
    critic = parameter_count((OBSERVATION + ACTION, *config.hidden, 1)) * critics
    policy = parameter_count((OBSERVATION, *config.hidden, 2 * ACTION))
    return {
        "optimiser": 4 * 7 * (critic + policy),
        "targets": 4 * 3 * critic // target_period,
    }


def cal_bytes(config: CALConfig) -> dict[str, int]:
    return moved_bytes(config, 2 + config.cost_critics, config.target_period)


def sac_pid_products(config: SACPIDConfig, batch: int) -> list[Product]:
    """As CAL with one cost critic, whose violation is measured on the policy's actions."""
    policy = (OBSERVATION, *config.hidden, 2 * ACTION)
    critic = (OBSERVATION + ACTION, *config.hidden, 1)
    return [
        *network_products("policy", policy, batch, Calls(2, 1, 0)),
        *network_products("critics", critic, batch, Calls(3 * 3, 3, 3)),
    ]


def wcsac_products(config: WCSACConfig, batch: int) -> list[Product]:
    """As CAL with a mean and a variance of the cost; the violation needs both at (s, a) again,
    and the variance's target the mean there before its step.
    """
    policy = (OBSERVATION, *config.hidden, 2 * ACTION)
    critic = (OBSERVATION + ACTION, *config.hidden, 1)
    return [
        *network_products("policy", policy, batch, Calls(2, 1, 0)),
        *network_products("reward critics", critic, batch, Calls(2 * 3, 2, 2)),
        *network_products("cost critics", critic, batch, Calls(2 * 4, 2, 2)),
    ]


def cvpo_policy(config: CVPOConfig) -> tuple[int, ...]:
    """Its layers: a mean, and the entries of a factor or of its diagonal."""
    entries = ACTION * (ACTION + 1) // 2 if config.covariance == "full" else ACTION
    return (OBSERVATION, *config.hidden, ACTION + entries)


def cvpo_products(config: CVPOConfig, batch: int) -> list[Product]:
    """Critics: target at s', fit at (s, a), and the values of every weighed action. Policy: the
    next actions, the old policy, and its own steps.
    """
    critic, critics = (OBSERVATION + ACTION, *config.hidden, 1), config.reward_critics + 1
    steps = config.policy_iterations
    weighed = config.samples * batch
    return [
        *network_products("policy", cvpo_policy(config), batch, Calls(2 + steps, steps, 0)),
        *network_products("critics", critic, batch, Calls(2 * critics, critics, 0)),
        *network_products("weighing critics", critic, weighed, Calls(critics, 0, 0)),
    ]


def cvpo_bytes(config: CVPOConfig) -> dict[str, int]:
    """The policy moves several times, and the old one once, unless it is a copy."""
    critics = parameter_count((OBSERVATION + ACTION, *config.hidden, 1)) * (
        config.reward_critics + 1
    )
    policy = parameter_count(cvpo_policy(config))
    drifting = policy if config.old_policy == "drift" else 0
    return {
        "optimiser": 4 * 7 * (critics + config.policy_iterations * policy),
        "targets": 4 * 3 * (critics + drifting),
    }


class Work(NamedTuple):
    """What one update cannot do without."""

    products: Callable[[Any, int], list[Product]]  # config, batch
    bytes: Callable[[Any], dict[str, int]]  # config


PRODUCTS = {
    "cal": Work(cal_products, cal_bytes),
    "sac_pid": Work(sac_pid_products, lambda config: moved_bytes(config, 3)),
    "wcsac": Work(wcsac_products, lambda config: moved_bytes(config, 4)),
    "cvpo": Work(cvpo_products, cvpo_bytes),
}


def best_seconds(action: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        began = perf_counter()
        action()
        best = min(best, perf_counter() - began)
    return best


def product_in_best_order(product: Product) -> Callable[[], object]:
    """The product on the operand layout that BLAS is fastest with."""
    generator = np.random.default_rng(0)
    a = generator.normal(size=(product.rows, product.inner)).astype(np.float32)
    b = generator.normal(size=(product.inner, product.columns)).astype(np.float32)
    out = np.empty((product.rows, product.columns), np.float32)
    orders = [
        partial(np.matmul, left, right, out=out)
        for left in (a, np.asfortranarray(a))
        for right in (b, np.asfortranarray(b))
    ]
    if product.inner == 1:  # an outer product, which BLAS does badly
        orders.append(partial(np.multiply, a, b, out=out))
    return min(orders, key=lambda order: best_seconds(order, 50))


class Piece:
    """An action repeated for about as long as every other piece takes, and its best time so far.

    A busy neighbour then meets the update and its roofline alike; a short piece would find the
    quiet moments that a long one cannot.
    """

    def __init__(self, action: Callable[[], object]) -> None:
        self.action = action
        self.repeats = max(1, round(PIECE_SECONDS / best_seconds(action, 3)))
        self.seconds = float("inf")

    def measure(self) -> None:
        began = perf_counter()
        for _ in range(self.repeats):
            self.action()
        self.seconds = min(self.seconds, (perf_counter() - began) / self.repeats)


def a_copy(total_bytes: int) -> Callable[[], object]:
    """Between two arrays that together are this large."""
    source = np.ones(total_bytes // 8, np.float32)
    return partial(np.copyto, np.empty_like(source), source)


def bench_preset(algorithm: str) -> str:
    """The one with the sizes that CAL has."""
    return "default" if algorithm in BASELINES else "head"


def measure_update(algorithm: str, batch: int) -> dict[str, Any]:
    """Updates per second and the roofline, measured in turns so that noise meets both."""
    import jax

    from prudent.algorithms import build
    from prudent.pieces.types import Spec
    from prudent.training.learner import compile_learner
    from prudent.training.replay import Replay

    config, schedule = settings(algorithm, bench_preset(algorithm), "hopper-velocity")
    assert isinstance(schedule, OffPolicySchedule)
    per_call = max(2, UPDATES * 12 // batch)
    schedule = replace(schedule, batch_size=batch, updates_per_step=per_call)
    spec = Spec(OBSERVATION, ACTION, BUDGET, (1.0,) * ACTION, (0.0,) * ACTION)
    learner = compile_learner(build(algorithm, config, spec), spec, schedule, seed=0)
    replay = Replay(10_000, OBSERVATION, ACTION)
    generator = np.random.default_rng(0)
    replay.rows[:] = generator.uniform(-1, 1, replay.rows.shape)
    replay.added = replay.capacity
    rows = replay.rows[replay.draw(generator, per_call, batch)]
    state = learner.init()

    def update() -> None:
        nonlocal state
        state, _ = learner.update(state, rows, 0, 0)
        jax.block_until_ready(state)

    update()
    work = PRODUCTS[ALGORITHMS[algorithm].module]
    products, moved = work.products(config, batch), work.bytes(config)
    # All that the optimisers touch: gradients, parameters, two moments.
    copied = moved["optimiser"] * 4 // 7
    updating, copying = Piece(update), Piece(a_copy(copied))
    multiplying = [Piece(product_in_best_order(product)) for product in products]
    for _ in range(ROUNDS):
        for piece in (updating, copying, *multiplying):
            piece.measure()
    seconds, bandwidth = updating.seconds / per_call, copied / copying.seconds
    best = [piece.seconds for piece in multiplying]
    product_time = sum(b * p.times for b, p in zip(best, products, strict=True))
    byte_time = sum(moved.values()) / bandwidth
    return {
        "batch_size": batch,
        "updates_per_call": per_call,
        "updates_per_second": 1.0 / seconds,
        "roofline_ratio": (product_time + byte_time) / seconds,
        "roofline_updates_per_second": 1.0 / (product_time + byte_time),
        "products_seconds": product_time,
        "bytes_seconds": byte_time,
        "bytes": moved,
        "copy_bytes_per_second": bandwidth,
        "products": [
            {**p._asdict(), "best_seconds": b} for p, b in zip(products, best, strict=True)
        ],
    }


def measure_step(algorithm: str) -> dict[str, float]:
    """What one environment step costs besides its updates: act, step, store, draw batches."""
    from prudent.api import make_run
    from prudent.tasks import TASKS
    from prudent.training.off_policy import draw, learn, take_step
    from prudent.training.reporter import Reporter
    from prudent.training.session import Warmup, open_session

    task = TASKS["hopper-velocity"]
    config, schedule = settings(algorithm, bench_preset(algorithm), task.name)
    run = make_run(algorithm, task, "bench", 0, config, schedule)
    with tempfile.TemporaryDirectory() as folder:
        session = open_session(run, task, Path(folder), Reporter(quiet=True), Warmup())
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
            environment = session.environment
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


def measure_environment(name: str) -> dict[str, float]:
    """A task's environment against a loop of nothing but its physics, in alternating pieces."""
    from prudent.tasks.custom import find_task
    from prudent.tasks.navigation.speed import bare_physics_steps_per_second

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
    """On-policy training, all of it, against plain Gymnasium's Hopper under random actions.

    Each epoch stands between two pieces of the bare environment, so that noise meets both. To what
    it collects, learns and saves comes its share of the evaluations. The stop on divergence is
    off: in a long run it seldom ends the passes early, but in the first epochs it does.
    """
    from prudent.api import make_run
    from prudent.tasks import TASKS
    from prudent.training.monitor import evaluate_and_record
    from prudent.training.on_policy import close_on_policy, open_on_policy, save, take_epoch
    from prudent.training.reporter import Reporter

    task = TASKS["hopper-velocity"]
    config, schedule = settings(algorithm, "paper", task.name)
    assert isinstance(config, OnPolicyConfig)
    assert isinstance(schedule, OnPolicySchedule)
    config = replace(config, max_divergence=math.inf)
    schedule = replace(schedule, environments=environments)
    run = make_run(algorithm, task, "bench", 0, config, schedule)
    generator = np.random.default_rng(0)
    bare = gymnasium.make("Hopper-v5", max_episode_steps=task.horizon, disable_env_checker=True)
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        session = open_on_policy(run, schedule, task, Path(folder), Reporter(quiet=True))
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
        close_on_policy(session)
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


def report_epochs(options: BenchOptions) -> None:
    results = []
    for environments in options.environments:
        found = measure_epochs(options.algorithm, environments, options.epochs)
        results.append(found)
        if not options.json:
            print(
                f"environments: {environments}; {found['steps_per_second']:.0f} steps/s, "
                f"{found['bare_ratio']:.2f} of the bare environment's "
                f"({found['bare_steps_per_second']:.0f}), {found['passes']:.0f} passes an epoch; "
                f"five million in {found['minutes_for_five_million']:.0f} minutes, "
                f"{found['resident_memory_bytes'] / 2**20:.0f} MiB",
                flush=True,
            )
    if options.json:
        print(to_json({"algorithm": options.algorithm, "epochs": results}, indent=2))


def first_update(started: float) -> None:
    """Run in a process of its own: everything from the start of Python to the first update."""
    backend.prepare()
    from prudent.api import make_run
    from prudent.tasks import TASKS
    from prudent.training.off_policy import learn, take_step
    from prudent.training.reporter import Reporter
    from prudent.training.session import Warmup, open_session

    task = TASKS["hopper-velocity"]
    config, schedule = settings("cal", "head", task.name)
    run = make_run("cal", task, "head", 0, config, schedule)
    with tempfile.TemporaryDirectory() as folder:
        session = open_session(run, task, Path(folder), Reporter(quiet=True), Warmup())
        began_warmup = time()
        for _ in range(session.schedule.batch_size):
            take_step(session)
        warmup_seconds = time() - began_warmup
        learn(session, UPDATES, 0)
        elapsed = time() - started
        # The whole replay, touched, so that the operating system must give it to us.
        session.replay.rows[:] = 1.0
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    facts = {"seconds": elapsed, "first_steps_seconds": warmup_seconds, "memory": memory}
    print(to_json(facts))


def measure_start() -> dict[str, float]:
    """Seconds from starting Python to the first update, with an empty and with a filled cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": cache}

        def child() -> dict[str, float]:
            command = [sys.executable, "-m", "prudent", "bench", "--part", "first-update"]
            finished = subprocess.run(
                [*command, "--started", repr(time())],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            facts: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
            return facts

        cold, warm = child(), min((child() for _ in range(3)), key=lambda facts: facts["seconds"])
    return {
        "cold_start_seconds": cold["seconds"],
        "warm_start_seconds": warm["seconds"],
        "resident_memory_bytes": warm["memory"],
    }


def main(arguments: list[str]) -> None:
    options = tyro.cli(BenchOptions, prog="prudent bench", args=arguments)
    if options.algorithm not in ALGORITHMS:
        raise ValueError(f"no algorithm {options.algorithm!r}; there is: {', '.join(ALGORITHMS)}")
    backend.prepare()
    core = max(os.sched_getaffinity(0)) if options.core is None else options.core
    os.sched_setaffinity(0, {core})
    if options.part == "first-update":
        first_update(options.started)
        return
    if ALGORITHMS[options.algorithm].schedule is OnPolicySchedule:
        report_epochs(options)
        return
    if options.env is not None:
        found = measure_environment(options.env)
        if options.json:
            print(to_json({"task": options.env, **found}, indent=2))
            return
        print(
            f"{options.env}: {found['environment_steps_per_second']:.0f} steps/s, "
            f"{found['physics_ratio']:.2f} of its physics alone "
            f"({found['bare_physics_steps_per_second']:.0f}); "
            f"reset {1000 * found['reset_seconds']:.2f} ms"
        )
        return
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        updates = [measure_update(options.algorithm, batch) for batch in options.batch_sizes]
    results: dict[str, Any] = {"algorithm": options.algorithm, "updates": updates}
    results |= measure_step(options.algorithm) | measure_start()
    first = {name: updates[0][name] for name in ("updates_per_second", "roofline_ratio")}
    if options.json:
        print(to_json({**first, **results}, indent=2))
        return
    for found in updates:
        print(
            f"batch {found['batch_size']}: {found['updates_per_second']:.0f} updates/s, "
            f"{found['roofline_ratio']:.2f} of the roofline"
        )
    print(
        f"environment {results['environment_steps_per_second']:.0f} steps/s; one step outside its "
        f"updates adds {results['outside_share']:.1%} to ten updates\n"
        f"first update after {results['warm_start_seconds']:.1f} s "
        f"({results['cold_start_seconds']:.1f} s with nothing compiled yet); "
        f"{results['resident_memory_bytes'] / 2**20:.0f} MiB with a full replay"
    )
