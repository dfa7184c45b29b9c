"""One algorithm's part in a semi-batch run: its only update of a week, from logged rows.

The learner, its checkpoints and the exported policy are those of every other run; what differs is
where batches come from (`HistoricalDataset`) and that observations are brought to the scale of the
incumbent's week, which stays. CUP learns from its own newest week in one pass through its update,
with as many samples as the others; the log's first week is not its own, so it begins as a clone of
the policy that wrote it.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from prudent.algorithms import find_algorithm
from prudent.algorithms.entry import Entry
from prudent.algorithms.resolve import settings, with_values
from prudent.files import checksum, only_writer, to_json, write_atomically
from prudent.pieces.fast import adam
from prudent.pieces.networks import Trained, descend, start
from prudent.pieces.on_policy import make_parts
from prudent.pieces.types import (
    Algorithm,
    Batch,
    CostEstimate,
    Metrics,
    ObservationScale,
    PolicyNetwork,
    Rollout,
    Spec,
)
from prudent.policies.export import export_policy
from prudent.policies.exported import EXPLORATIONS
from prudent.policies.policy import Policy, Recorded
from prudent.runs.checkpoint import (
    Checkpoint,
    Found,
    fill,
    load_newest,
    named_leaves,
    save_checkpoint,
)
from prudent.settings.checks import fitting
from prudent.settings.run import Run
from prudent.settings.schedules import OnPolicySchedule
from prudent.tasks.custom import unknown_task
from prudent.training.learner import Learner, compiled
from prudent.training.off_policy import CALLS
from prudent_bidding.dataset import Drawn, HistoricalDataset, Learning, Scale, as_batch
from prudent_bidding.forms import FORMS
from prudent_bidding.multipliers import measured, renewed
from prudent_bidding.plan import (
    CLONING,
    LearnerSettings,
    Plan,
    arm_folder,
    calibration_file,
    policy_file,
    record_file,
)
from prudent_bidding.schema import K_HIGH, K_LOW, OBSERVATION_SIZE

HORIZON = 1536  # the most records of a day
CLONING_UPDATES, CLONING_BATCH, CLONING_RATE = 2_000, 256, 1e-3
CHECKPOINT_SECONDS = 30.0
CALIBRATION_DAYS = 4_096


class Built(NamedTuple):
    entry: Entry
    run: Run
    spec: Spec
    algorithm: Algorithm  # for observations as they are logged


def build(plan: LearnerSettings, name: str, scale: Scale) -> Built:
    entry = find_algorithm(plan.algorithm_of(name))
    task = unknown_task(f"bidding-{plan.preset}")
    chosen = settings(entry, task)
    chosen = with_values(chosen, fitting(plan.values(name), entry.config))
    bound = plan.bound()
    run = Run(
        algorithm=name,
        task=task.name,
        preset=plan.preset,
        seed=plan.seed,
        config=chosen.config,
        schedule=chosen.schedule,
        budget=bound,
        discounted=False,
        horizon=HORIZON,
    )
    half, centre = (K_HIGH - K_LOW) / 2, (K_HIGH + K_LOW) / 2
    spec = Spec(OBSERVATION_SIZE, 1, bound, (half,), (centre,))
    # Critics see actions on a scale too, [-1, 1]: beside scaled observations k itself, always near
    # 1, acts like a second bias, and targets at actions that are not the log's run off.
    algorithm = entry.build(chosen.config, spec._replace(action_scale=(1.0,), action_centre=(0.0,)))
    return Built(entry, run, spec, scaled(algorithm, scale))


def check_explores(plan: Plan, name: str) -> None:
    nothing = np.zeros(OBSERVATION_SIZE, np.float32)
    algorithm = build(plan, name, Scale(nothing, nothing + 1, 1.0)).algorithm
    if algorithm.network(algorithm.init(jax.random.key(0))).explores not in EXPLORATIONS:
        raise ValueError(
            f"{name} does not say how its policy explores ({', '.join(EXPLORATIONS)}; docs/"
            "extending.md), so that it cannot be sampled; choose --deployed greedy"
        )


def scaled(algorithm: Algorithm, scale: Scale) -> Algorithm:
    """The algorithm for raw observations, which it sees on a scale that never moves."""
    mean, deviation = jnp.asarray(scale.mean), jnp.asarray(scale.deviation)

    def seen(observation: jax.Array) -> jax.Array:
        shift = jnp.broadcast_to(mean, observation.shape)
        spread = jnp.broadcast_to(deviation, observation.shape)
        return jnp.clip((observation - shift) / spread, -scale.largest, scale.largest)

    def update(state: Any, data: Any, key: jax.Array) -> tuple[Any, Metrics]:
        data = data._replace(
            observation=seen(data.observation), next_observation=seen(data.next_observation)
        )
        return algorithm.update(state, data, key)

    def network(state: Any) -> PolicyNetwork:
        found = ObservationScale(mean, deviation, scale.largest)
        return algorithm.network(state)._replace(scaling=found)

    estimate = algorithm.cost_estimate

    def cost_estimate(state: Any, observation: jax.Array, action: jax.Array) -> CostEstimate:
        assert estimate is not None
        return estimate(state, seen(observation), action)

    return algorithm._replace(
        act=lambda state, o, key: algorithm.act(state, seen(o), key),
        act_greedily=lambda state, o: algorithm.act_greedily(state, seen(o)),
        update=update,
        network=network,
        cost_estimate=cost_estimate if estimate else None,
    )


def history_of(plan: Plan, folder: Path, name: str, week: int) -> HistoricalDataset:
    """What the algorithm may learn from before it is deployed in that week."""
    weeks = list(range(week))
    arms: dict[int, list[int]] = {}
    own = [plan.arms.index(name)] if name in plan.arms else []
    if is_on_policy(name):
        weeks = [0 if name == CLONING else week - 1]
    if plan.history == "own" or is_on_policy(name):
        arms = {each: own for each in weeks if each > 0}
    return HistoricalDataset(
        folder / "data", weeks, arms=arms, cache=folder / "cache", learning=plan.learning()
    )


def is_on_policy(name: str) -> bool:
    return name == CLONING or find_algorithm(name).schedule is OnPolicySchedule


def scale_of(folder: Path) -> Scale:
    """That of the incumbent's week, the same in every process."""
    return HistoricalDataset(folder / "data", [0], cache=folder / "cache").scale()


def owners(plan: LearnerSettings, drawn: Drawn) -> np.ndarray:
    return drawn.category if plan.multiplier_scope == "group" else drawn.slot


def minibatches(plan: LearnerSettings, algorithm: Algorithm, drawn: Drawn, first: int) -> Batch:
    known = {
        "owner": owners(plan, drawn),
        "reward_budget": np.full(drawn.reward.shape, plan.budget_units, np.float32),
        "accrued": drawn.accrued,
    }
    index = np.arange(first, first + len(drawn.reward), dtype=np.int32)
    extras = {name: known[name] for name in algorithm.requires}
    batches: Batch = as_batch(drawn)
    return batches._replace(index=index, extras=extras)


class Progress(NamedTuple):
    """Where the learner stands."""

    state: Any
    week: int  # of the update in progress, or the last finished
    done: int  # updates made in it
    updates: int  # of all weeks
    generator: np.random.Generator
    sums: np.ndarray  # of the metrics in this week
    seconds: float


def mark_of(plan: LearnerSettings, name: str) -> str:
    return f"{plan.identity()}-{name}"


def newest_checkpoint(home: Path, plan: LearnerSettings, name: str) -> Found | None:
    return load_newest(home, mark_of(plan, name), print, with_replay=False)


def check_ends(
    home: Path, plan: LearnerSettings, name: str, week: int, found: Found | None
) -> None:
    """Refuse what is not the end of that week's update: going on from it, or judging it, would be
    of another learner.
    """
    facts = found.facts if found else {}
    if facts.get("week") != week or facts["done"] != (1 if is_on_policy(name) else plan.updates):
        at = f"is of week {facts['week']}, update {facts['done']}" if facts else "is lost"
        raise ValueError(
            f"{home}: the end of week {week}'s update is needed, and the newest "
            f"whole checkpoint {at}; restore the checkpoints, or begin anew"
        )


def restore(home: Path, plan: LearnerSettings, name: str, week: int, learner: Learner) -> Progress:
    """Where the update of that week was left; else the end of the one before."""
    found = newest_checkpoint(home, plan, name)
    begins = week == 1 and found is None
    if not begins and (found is None or found.facts["week"] != week):
        check_ends(home, plan, name, week - 1, found)
    state = learner.init()
    generator, none = np.random.default_rng(), np.zeros(len(learner.metric_names))
    if found is None:
        return Progress(state, 0, 0, 0, generator, none, 0.0)
    facts = found.facts
    generator.bit_generator.state = facts["generator"]
    return Progress(
        jax.tree.map(jnp.asarray, fill(state, found.arrays, "state/")),
        facts["week"],
        facts["done"],
        facts["updates"],
        generator,
        np.array(facts["sums"]),
        facts["seconds"],
    )


def save(home: Path, plan: LearnerSettings, name: str, progress: Progress) -> None:
    leaves = {n: np.asarray(leaf) for n, leaf in named_leaves(progress.state).items()}
    wrong = [n for n, leaf in leaves.items() if not np.isfinite(leaf).all()]
    if wrong:
        raise RuntimeError(
            f"{name}, week {progress.week}: {wrong[0]} is not finite after {progress.updates} "
            "updates; the last good checkpoint is kept"
        )
    facts = {
        "week": progress.week,
        "done": progress.done,
        "updates": progress.updates,
        "generator": progress.generator.bit_generator.state,
        "sums": progress.sums.tolist(),
        "seconds": progress.seconds,
    }
    checkpoint = Checkpoint({f"state/{n}": leaf for n, leaf in leaves.items()}, facts)
    # A number of its own for each moment: a week's end and the next one's start differ.
    number = progress.week + progress.updates
    save_checkpoint(home, number, checkpoint, None, mark_of(plan, name))


def learn_week(folder: Path, plan: Plan, name: str, week: int) -> None:
    """The week's update, from where it was left; ends with the policy's file and a record."""
    home = arm_folder(folder, name)
    home.mkdir(parents=True, exist_ok=True)
    with only_writer(home):
        if record_file(folder, name, week).exists():
            return
        if week > 1 and name != CLONING:
            calibrate(folder, plan, name, week - 1)  # while its critics are still there
        history = history_of(plan, folder, name, week)
        built = build(plan, name, scale_of(folder))
        if name == CLONING:
            progress, metrics = Learned(clone(plan, built, history), {})
        elif is_on_policy(name):
            progress, metrics = learn_from_days(folder, plan, built, name, week, history)
        else:
            progress, metrics = learn_from_rows(folder, plan, built, name, week, history)
        record = {
            "arm": name,
            "week": week,
            **written_policy(built, progress, metrics, policy_file(folder, name, week)),
            "rows": len(history),
        }
        write_atomically(record_file(folder, name, week), to_json(record, indent=1).encode())


def written_policy(
    built: Built, progress: Progress, metrics: dict[str, float], path: Path
) -> dict[str, Any]:
    """Exports what was learned; returns what a record says of it."""
    policy = Policy(built.algorithm, progress.state, recorded(built), progress.updates)
    export_policy(policy, built.run, path)
    return {
        "updates": progress.updates,
        "training": {n: float(v) for n, v in metrics.items() if np.isfinite(v)},
        "policy_sha256": checksum(path.read_bytes()),
        "train_seconds": progress.seconds,
    }


def recorded(built: Built) -> Recorded:
    spaces = {
        "observation_shape": [OBSERVATION_SIZE],
        "action_shape": [1],
        "action_dtype": "float32",
        "action_low": [K_LOW],
        "action_high": [K_HIGH],
    }
    return Recorded(built.spec, spaces)


class Learned(NamedTuple):
    progress: Progress
    metrics: dict[str, float]


def fresh_week(plan: LearnerSettings, name: str, week: int, progress: Progress) -> Progress:
    """Where the update of a week begins, unless it was begun."""
    if progress.week == week:
        return progress
    seed = np.random.SeedSequence((plan.seed, week, *name.encode()))
    generator = np.random.default_rng(seed)
    sums = np.zeros_like(progress.sums)
    return progress._replace(week=week, done=0, generator=generator, sums=sums, seconds=0.0)


def learn_from_rows(
    folder: Path, plan: Plan, built: Built, name: str, week: int, history: HistoricalDataset
) -> Learned:
    """Off-policy: so many updates at so many rows."""
    home, learner = arm_folder(folder, name), learner_for(plan, built, history)
    progress = restore(home, plan, name, week, learner)
    if progress.week < week and plan.multiplier_scope == "advertiser":
        state = answered(plan, folder, name, week, progress.state, built.run.config)
        progress = progress._replace(state=state)
    progress = fresh_week(plan, name, week, progress)
    return make_updates(home, plan, built, learner, history, progress)


def drawn_for(
    plan: LearnerSettings,
    built: Built,
    history: HistoricalDataset,
    updates: int,
    progress: Progress | None = None,
) -> Batch:
    """What so many updates take; without a learner's progress, an example of it."""
    generator = progress.generator if progress else np.random.default_rng(0)
    drawn = history.draw(updates, plan.batch_size, generator, plan.strategy)
    return minibatches(plan, built.algorithm, drawn, progress.done if progress else 0)


def learner_for(plan: LearnerSettings, built: Built, history: HistoricalDataset) -> Learner:
    example = jax.tree.map(shape_of, drawn_for(plan, built, history, 1))
    return compiled(built.algorithm, plan.seed, lambda data: data, example)


def make_updates(
    home: Path,
    plan: LearnerSettings,
    built: Built,
    learner: Learner,
    history: HistoricalDataset,
    progress: Progress,
    tell: Callable[[int], None] = lambda done: None,
) -> Learned:
    """The updates that are left, with checkpoints; `tell` is told how many are done."""
    name = built.run.algorithm
    began = saved = perf_counter()
    before = progress.seconds
    while left := plan.updates - progress.done:
        size = next(size for size in CALLS if size <= left)
        data = drawn_for(plan, built, history, size, progress)
        state, metrics = learner.update(progress.state, data, progress.updates)
        progress = progress._replace(
            state=state,
            done=progress.done + size,
            updates=progress.updates + size,
            sums=progress.sums + size * np.asarray(metrics, float),
            seconds=before + perf_counter() - began,
        )
        tell(progress.done)
        if not np.isfinite(progress.sums).all():
            raise RuntimeError(
                f"{name}, week {progress.week}: a number of the learner is not finite after "
                f"{progress.updates} updates; the last good checkpoint is kept"
            )
        if perf_counter() - saved > CHECKPOINT_SECONDS or progress.done == plan.updates:
            saved = perf_counter()
            save(home, plan, name, progress)
    means = progress.sums / max(1, progress.done)
    return Learned(progress, dict(zip(learner.metric_names, means.tolist(), strict=True)))


def answered(plan: Plan, folder: Path, name: str, week: int, state: Any, config: Any) -> Any:
    """The state with every advertiser's multiplier moved by what its last week showed: its days
    under this algorithm's policy, in the first week those of the incumbent. Who came in that week
    begins where all began.
    """
    history = history_of(replace(plan, history="own"), folder, name, week)
    changed = jnp.asarray(history.newcomers(plan.owners()))
    begun = renewed(state.dual.multiplier, changed, config.initial_multiplier)
    cost = history.mean_day_cost(plan.owners())
    moved = measured(begun, jnp.asarray(cost - plan.bound()), plan.advertiser_rate)
    return state._replace(dual=state.dual._replace(multiplier=moved))


def shape_of(array: Any) -> jax.ShapeDtypeStruct:
    array = np.asarray(array)
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def learn_from_days(
    folder: Path, plan: Plan, built: Built, name: str, week: int, history: HistoricalDataset
) -> Learned:
    """On-policy: whole days of the newest week, as many rows as the others' samples come to."""
    config: Any = built.run.config
    # Each row is read in every pass of the improvement and of the projection.
    rows = max(64, plan.updates * plan.batch_size // (2 * config.passes))
    seed = np.random.SeedSequence((plan.seed, week, *name.encode()))
    rollout = days_as_rollout(plan, history, rows, np.random.default_rng(seed), week)
    learner = compiled(
        built.algorithm, plan.seed, lambda data: data, jax.tree.map(shape_of, rollout)
    )
    home = arm_folder(folder, name)
    progress = restore(home, plan, name, week, learner)
    if progress.week < week:
        progress = fresh_week(plan, name, week, progress)
        began = perf_counter()
        state = progress.state
        if week == 1:  # the log is the incumbent's: begin as it behaved
            state = cloned(plan, built, history, state)
        state, metrics = learner.update(state, rollout, progress.updates)
        progress = progress._replace(
            state=state,
            done=1,
            updates=progress.updates + 1,
            sums=np.asarray(metrics, float),
            seconds=perf_counter() - began,
        )
        save(home, plan, name, progress)
    names = zip(learner.metric_names, progress.sums.tolist(), strict=True)
    return Learned(progress, dict(names))


def days_as_rollout(
    plan: Plan, history: HistoricalDataset, rows: int, generator: np.random.Generator, week: int
) -> Rollout:
    """Logged days behind each other, [rows, 1, ...]; the last may be cut."""
    (logged,), (chosen,) = history.weeks, history.chosen
    order = generator.permutation(chosen)
    lengths = logged.segments.length[order]
    order = order[: int(np.searchsorted(np.cumsum(lengths), rows)) + 1]
    parts = [
        start + np.arange(length)
        for start, length in zip(
            logged.segments.start[order], logged.segments.length[order], strict=True
        )
    ]
    index = np.concatenate(parts)
    found = history.read(logged, np.resize(index, rows))  # repeated where there is too little
    ends = 1.0 - found.continues
    ends[-1] = 1.0
    whole = history.read(logged, index)
    day = np.repeat(np.arange(len(order)), logged.segments.length[order])
    costs = np.bincount(day, whole.cost)

    def column(values: np.ndarray) -> Any:
        return values[:, None].astype(np.float32)

    return Rollout(
        observation=column(found.observation),
        action=column(found.action),
        reward=column(found.reward),
        cost=column(found.cost),
        reward_continues=column(found.continues),
        cost_continues=column(found.continues),
        ends=column(ends),
        next_observation=column(found.next_observation),
        violation=np.float32(costs.mean() - plan.bound()),  # type: ignore[arg-type]
        remaining=np.float32(1.0 - (week - 1) / plan.weeks),  # type: ignore[arg-type]
    )


def clone(plan: Plan, built: Built, history: HistoricalDataset) -> Progress:
    """Behaviour cloning: the policy under which the log's actions are most likely."""
    began = perf_counter()
    state = built.algorithm.init(jax.random.key(plan.seed))
    state = cloned(plan, built, history, state)
    nothing = np.zeros(0)
    seconds = perf_counter() - began
    return Progress(
        state, 1, CLONING_UPDATES, CLONING_UPDATES, np.random.default_rng(), nothing, seconds
    )


def cloned(plan: Plan, built: Built, history: HistoricalDataset, state: Any) -> Any:
    """The state with a policy fitted to the log by maximum likelihood."""
    policy = make_parts(built.run.config, built.spec).policy  # type: ignore[arg-type]
    optimiser = adam(CLONING_RATE)
    scale = history.scale()

    def step(trained: Trained, rows: tuple[jax.Array, jax.Array]) -> tuple[Trained, None]:
        observation, action = rows

        def loss(params: Any) -> tuple[jax.Array, None]:
            return -jnp.mean(policy.log_density(params, observation, action)), None

        return descend(loss, trained, optimiser)

    @jax.jit
    def fit(trained: Trained, observations: jax.Array, actions: jax.Array) -> Trained:
        return jax.lax.scan(step, trained, (observations, actions))[0]

    generator = np.random.default_rng(np.random.SeedSequence((plan.seed, 0xC10E)))
    trained = start(state.policy.params, optimiser)
    updates = min(CLONING_UPDATES, plan.updates)
    for first in range(0, updates, CALLS[0]):
        size = min(CALLS[0], updates - first)
        drawn = history.draw(size, CLONING_BATCH, generator, "uniform")
        seen = np.clip(
            (drawn.observation - scale.mean) / scale.deviation, -scale.largest, scale.largest
        )
        trained = fit(trained, seen, drawn.action)
    return state._replace(policy=state.policy._replace(params=trained.params))


def calibrate(folder: Path, plan: Plan, name: str, week: int) -> None:
    """How the cost critics' estimates at the start of days compare with what these days cost.

    With the critics that chose the deployed policy, on the days that it was deployed on.
    """
    path = calibration_file(folder, name, week)
    if path.exists():
        return
    found: dict[str, Any] = {}
    built = build(plan, name, scale_of(folder))
    estimate = built.algorithm.cost_estimate
    if estimate is not None:
        learning = Learning(plan.budget_units, FORMS[plan.form].step_cost)
        own = {week: [plan.arms.index(name)]}
        history = HistoricalDataset(
            folder / "data", [week], arms=own, cache=folder / "cache", learning=learning
        )
        found = estimates_and_costs(built, restored_state(folder, plan, built, name, week), history)
    write_atomically(path, to_json(found, indent=1).encode())


def restored_state(folder: Path, plan: Plan, built: Built, name: str, week: int) -> Any:
    template = jax.eval_shape(built.algorithm.init, jax.random.key(0))
    home = arm_folder(folder, name)
    checkpoint = newest_checkpoint(home, plan, name)
    check_ends(home, plan, name, week, checkpoint)
    assert checkpoint is not None
    return jax.tree.map(jnp.asarray, fill(template, checkpoint.arrays, "state/"))


def estimates_and_costs(
    built: Built, state: Any, history: HistoricalDataset, at_policy: bool = False
) -> dict[str, Any]:
    """Of one week's days: what they cost, and what the cost critics say as they begin, of the
    logged action or, with `at_policy`, of one that the policy draws.
    """
    (logged,), (chosen,) = history.weeks, history.chosen
    chosen = np.random.default_rng(0).permutation(chosen)[:CALIBRATION_DAYS]
    starts, lengths = logged.segments.start[chosen], logged.segments.length[chosen]
    index = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
    rows = history.read(logged, index)
    discount = built.run.config.cost_discount
    time = np.arange(len(index)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    day = np.repeat(np.arange(len(chosen)), lengths)
    realised = np.bincount(day, rows.cost * discount**time)
    first = history.read(logged, starts)
    seen, action = jnp.asarray(first.observation), jnp.asarray(first.action)
    if at_policy:
        action = jax.jit(built.algorithm.act)(state, seen, jax.random.key(0))
    assert built.algorithm.cost_estimate is not None
    estimate = jax.jit(built.algorithm.cost_estimate)(state, seen, action)
    mean, spread, bound = (np.asarray(part, float) for part in estimate)
    return {
        "days": len(chosen),
        "realised": float(realised.mean()),
        "estimate": float(mean.mean()),
        "conservative": float(bound.mean()),
        "spread": float(spread.mean()),
        "correlation": correlation(bound, realised),
    }


def correlation(one: np.ndarray, other: np.ndarray) -> float | None:
    if len(one) < 2 or not one.std() or not other.std():
        return None
    return float(np.corrcoef(one, other)[0, 1])


def main(arguments: list[str]) -> None:
    """`FOLDER ARM WEEK PARENT [--calibrate]`, as the protocol calls it in its own process."""
    folder, name, week = Path(arguments[0]), arguments[1], int(arguments[2])
    plan = Plan.read(folder)
    work: Callable[..., None] = calibrate if "--calibrate" in arguments else learn_week
    work(folder, plan, name, week)
