"""The updates of one week from logged rows, with checkpoints: made in one go or after a kill, they
are the same.
"""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from prudent.pieces.types import Batch
from prudent.runs.checkpoint import (
    Checkpoint,
    Found,
    fill,
    load_newest,
    named_leaves,
    save_checkpoint,
)
from prudent.runs.manifest import RunIdentity
from prudent.training.learner import Learner, compiled
from prudent.training.off_policy import CALLS
from prudent_bidding.dataset import HistoricalDataset, as_batch
from prudent_bidding.learners import Built, export
from prudent_bidding.plan import LearnerSettings, is_on_policy

CHECKPOINT_SECONDS = 30.0


class Progress(NamedTuple):
    """Where the learner stands."""

    state: Any
    week: int  # of the update in progress, or the last finished
    done: int  # updates made in it
    updates: int  # of all weeks
    generator: np.random.Generator
    sums: np.ndarray  # of the metrics in this week
    seconds: float


class Place(NamedTuple):
    """A learner, and the folder that its checkpoints are in."""

    home: Path
    plan: LearnerSettings
    built: Built
    learner: Learner

    @property
    def name(self) -> str:
        return self.built.run.algorithm


def identity_of(plan: LearnerSettings, name: str) -> RunIdentity:
    """What the learner's checkpoints carry."""
    return RunIdentity(f"{plan.identity()}-{name}")


def newest_checkpoint(home: Path, plan: LearnerSettings, name: str) -> Found | None:
    return load_newest(home, identity_of(plan, name), print, with_replay=False)


def end_of_week(
    home: Path, plan: LearnerSettings, name: str, week: int, found: Found | None
) -> Found:
    """Refuse what is not the end of that week's update: going on from it, or judging it, would be
    of another learner.
    """
    facts = found.facts if found else {}
    updates = 1 if is_on_policy(name) else plan.updates
    if found is None or (facts["week"], facts["done"]) != (week, updates):
        at = f"is of week {facts['week']}, update {facts['done']}" if facts else "is lost"
        raise ValueError(
            f"{home}: the end of week {week}'s update is needed, and the newest "
            f"whole checkpoint {at}; restore the checkpoints, or begin anew"
        )
    return found


def state_in(found: Found, template: Any) -> Any:
    return jax.tree.map(jnp.asarray, fill(template, found.arrays, "state/"))


def restore(place: Place, week: int, found: Found | None) -> Progress:
    """Where the update of that week was left; else the end of the one before."""
    if (week > 1 or found) and (found is None or found.facts["week"] != week):
        found = end_of_week(place.home, place.plan, place.name, week - 1, found)
    state = place.learner.init()
    generator, none = np.random.default_rng(), np.zeros(len(place.learner.metric_names))
    if found is None:
        return Progress(state, 0, 0, 0, generator, none, 0.0)
    facts = dict(found.facts)
    generator.bit_generator.state = facts.pop("generator")
    sums = np.array(facts.pop("sums"))
    return Progress(state_in(found, state), generator=generator, sums=sums, **facts)


def fresh_week(plan: LearnerSettings, name: str, week: int, progress: Progress) -> Progress:
    """Where the update of a week begins, unless it was begun."""
    if progress.week == week:
        return progress
    generator, sums = generator_of(plan, name, week), np.zeros_like(progress.sums)
    return progress._replace(week=week, done=0, generator=generator, sums=sums, seconds=0.0)


def generator_of(plan: LearnerSettings, name: str, week: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence((plan.seed, week, *name.encode())))


def check_finite(place: Place, progress: Progress, what: str, numbers: Any) -> None:
    if not np.isfinite(numbers).all():
        raise RuntimeError(
            f"{place.name}, week {progress.week}: {what} is not finite after {progress.updates} "
            "updates; the last good checkpoint is kept"
        )


def save(place: Place, progress: Progress) -> None:
    leaves = {f"state/{n}": np.asarray(a) for n, a in named_leaves(progress.state).items()}
    for name, leaf in leaves.items():
        check_finite(place, progress, name, leaf)
    facts = progress._asdict()
    facts.pop("state")
    facts |= {"generator": progress.generator.bit_generator.state, "sums": progress.sums.tolist()}
    # A number of its own for each moment: a week's end and the next one's start differ.
    number, identity = progress.week + progress.updates, identity_of(place.plan, place.name)
    save_checkpoint(place.home, identity, number, Checkpoint(leaves, facts))


def shapes_of(tree: Any) -> Any:
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), np.asarray(a).dtype), tree)


def learner_for(plan: LearnerSettings, built: Built, example: Any) -> Learner:
    """`example`: what an update takes."""
    return compiled(built.algorithm, plan.seed, lambda data: data, shapes_of(example))


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
    known = {
        "owner": drawn.category if plan.multiplier_scope == "group" else drawn.slot,
        "reward_budget": np.full(drawn.reward.shape, plan.budget_units, np.float32),
        "accrued": drawn.accrued,
    }
    first = progress.done if progress else 0
    index = np.arange(first, first + updates, dtype=np.int32)
    extras = {name: known[name] for name in built.algorithm.requires}
    batches: Batch = as_batch(drawn)
    return batches._replace(index=index, extras=extras)


def make_updates(
    place: Place,
    history: HistoricalDataset,
    progress: Progress,
    tell: Callable[[int], None] = lambda done: None,
) -> Progress:
    """The updates that are left, with checkpoints; `tell` is told how many are done."""
    began = saved = perf_counter()
    before = progress.seconds
    while left := place.plan.updates - progress.done:
        size = next(size for size in CALLS if size <= left)
        data = drawn_for(place.plan, place.built, history, size, progress)
        state, metrics = place.learner.update(progress.state, data, progress.updates)
        progress = progress._replace(
            state=state,
            done=progress.done + size,
            updates=progress.updates + size,
            sums=progress.sums + size * np.asarray(metrics, float),
            seconds=before + perf_counter() - began,
        )
        tell(progress.done)
        check_finite(place, progress, "a number of the learner", progress.sums)
        if perf_counter() - saved > CHECKPOINT_SECONDS or progress.done == place.plan.updates:
            saved = perf_counter()
            save(place, progress)
    return progress


def written_policy(
    built: Built, progress: Progress, metric_names: tuple[str, ...], path: Path
) -> dict[str, Any]:
    """Exports what was learned; returns what a record says of it."""
    means = zip(metric_names, (progress.sums / max(1, progress.done)).tolist(), strict=True)
    return {
        "updates": progress.updates,
        "training": {name: mean for name, mean in means if np.isfinite(mean)},
        "policy_sha256": export(built, progress.state, progress.updates, path),
        "train_seconds": progress.seconds,
    }
