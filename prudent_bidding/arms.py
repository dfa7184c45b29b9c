"""One algorithm's part in a semi-batch run: its only update of a week, from logged rows.

The learner, its checkpoints and the exported policy are those of every other run; what differs is
where batches come from (`HistoricalDataset`). CUP learns from its own newest week in one pass
through its update, with as many samples as the others; the log's first week is not its own, so it
begins as a clone of the policy that wrote it.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from prudent.files import to_json, write_atomically
from prudent.pieces.fast import adam
from prudent.pieces.networks import Trained, descend, start
from prudent.pieces.on_policy import make_parts
from prudent.pieces.types import Rollout
from prudent.runs.lock import only_writer
from prudent.training.off_policy import CALLS
from prudent_bidding.critics import compare_critics
from prudent_bidding.dataset import HistoricalDataset, Scale
from prudent_bidding.learners import Built, build
from prudent_bidding.multipliers import measured, renewed
from prudent_bidding.plan import (
    CLONING,
    Plan,
    arm_folder,
    calibration_file,
    is_on_policy,
    policy_file,
    record_file,
)
from prudent_bidding.updates import (
    Place,
    Progress,
    drawn_for,
    end_of_week,
    fresh_week,
    generator_of,
    learner_for,
    make_updates,
    newest_checkpoint,
    restore,
    save,
    state_in,
    written_policy,
)

CLONING_UPDATES, CLONING_BATCH, CLONING_RATE = 2_000, 256, 1e-3


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


def scale_of(folder: Path) -> Scale:
    """That of the incumbent's week, the same in every process."""
    return HistoricalDataset(folder / "data", [0], cache=folder / "cache").scale()


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
        metric_names: tuple[str, ...] = ()
        if name == CLONING:
            progress = clone(plan, built, history)
        else:
            learn = learn_from_days if is_on_policy(name) else learn_from_rows
            progress, metric_names = learn(folder, plan, built, week, history)
        record = {
            "arm": name,
            "week": week,
            **written_policy(built, progress, metric_names, policy_file(folder, name, week)),
            "rows": len(history),
        }
        write_atomically(record_file(folder, name, week), to_json(record, indent=1).encode())


def learn_from_rows(
    folder: Path, plan: Plan, built: Built, week: int, history: HistoricalDataset
) -> tuple[Progress, tuple[str, ...]]:
    """Off-policy: so many updates at so many rows."""
    name = built.run.algorithm
    learner = learner_for(plan, built, drawn_for(plan, built, history, 1))
    place = Place(arm_folder(folder, name), plan, built, learner)
    progress = restore(place, week, newest_checkpoint(place.home, plan, name))
    if progress.week < week and plan.multiplier_scope == "advertiser":
        state = answered(plan, folder, name, week, progress.state, built.run.config)
        progress = progress._replace(state=state)
    progress = make_updates(place, history, fresh_week(plan, name, week, progress))
    return progress, learner.metric_names


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


def learn_from_days(
    folder: Path, plan: Plan, built: Built, week: int, history: HistoricalDataset
) -> tuple[Progress, tuple[str, ...]]:
    """On-policy: whole days of the newest week, as many rows as the others' samples come to."""
    config: Any = built.run.config
    name = built.run.algorithm
    # Each row is read in every pass of the improvement and of the projection.
    rows = max(64, plan.updates * plan.batch_size // (2 * config.passes))
    rollout = days_as_rollout(plan, history, rows, generator_of(plan, name, week), week)
    learner = learner_for(plan, built, rollout)
    place = Place(arm_folder(folder, name), plan, built, learner)
    progress = restore(place, week, newest_checkpoint(place.home, plan, name))
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
        save(place, progress)
    return progress, learner.metric_names


def days_as_rollout(
    plan: Plan, history: HistoricalDataset, rows: int, generator: np.random.Generator, week: int
) -> Rollout:
    """Logged days behind each other, [rows, 1, ...]; the last may be cut."""
    (logged,), (chosen,) = history.weeks, history.chosen
    order = generator.permutation(chosen)
    lengths = logged.segments.length[order]
    order = order[: int(np.searchsorted(np.cumsum(lengths), rows)) + 1]
    index = logged.segments.rows_of(order)
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
    began, updates = perf_counter(), CLONING_UPDATES
    state = cloned(plan, built, history, built.algorithm.init(jax.random.key(plan.seed)))
    generator, seconds = np.random.default_rng(), perf_counter() - began
    return Progress(state, 1, updates, updates, generator, np.zeros(0), seconds)


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
    """How the critics that chose the deployed policy stand against the days it was deployed on."""
    path = calibration_file(folder, name, week)
    if path.exists():
        return
    found: dict[str, Any] = {}
    built = build(plan, name, scale_of(folder))
    if built.algorithm.cost_estimate is not None:
        home, own = arm_folder(folder, name), {week: [plan.arms.index(name)]}
        history = HistoricalDataset(
            folder / "data", [week], arms=own, cache=folder / "cache", learning=plan.as_measured()
        )
        checkpoint = newest_checkpoint(home, plan, name)
        checkpoint = end_of_week(home, plan, name, week, checkpoint)
        template = jax.eval_shape(built.algorithm.init, jax.random.key(0))
        found = compare_critics(built, state_in(checkpoint, template), history)
    write_atomically(path, to_json(found, indent=1).encode())


def main(arguments: list[str]) -> None:
    """`FOLDER ARM WEEK PARENT [--calibrate]`, as the protocol calls it in its own process."""
    folder, name, week = Path(arguments[0]), arguments[1], int(arguments[2])
    plan = Plan.read(folder)
    work: Callable[..., None] = calibrate if "--calibrate" in arguments else learn_week
    work(folder, plan, name, week)
