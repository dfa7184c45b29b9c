"""One offline fit to logged weeks, simulated or imported: a learner in, a policy file out.

It is an arm's update of one week (`arms`) without the world around it: there is no deployment, so
what stands at the end is what the critics promise, and nothing that was measured.
"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from prudent.files import to_json, write_atomically, writing
from prudent.runs.lock import only_writer
from prudent_bidding.critics import compare_critics
from prudent_bidding.dataset import HistoricalDataset, Scale
from prudent_bidding.fit_plan import FIT_PLAN, POLICY, RECORD, FitPlan, LastFit
from prudent_bidding.learners import Built, build
from prudent_bidding.records import read_json, write_plan
from prudent_bidding.updates import (
    Place,
    drawn_for,
    fresh_week,
    learner_for,
    make_updates,
    newest_checkpoint,
    restore,
    written_policy,
)

FORMAT = 1  # of the record
Tell = Callable[[int], None]  # takes the updates that are done


def fit(out: Path, data: Path, plan: FitPlan, last: LastFit | None, tell: Tell) -> dict[str, Any]:
    """From wherever the folder is; returns the record."""
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    with only_writer(out):
        advice = f"choose another folder with --out, and --init-from {out} to go on from it"
        write_plan(out / FIT_PLAN, plan, advice)
        if (out / RECORD).exists():
            return dict(read_json(out / RECORD))
        history = HistoricalDataset(data, plan.weeks, learning=plan.learning())
        scale = history.scale() if last is None else scale_in(last.folder / POLICY)
        built = build(plan, plan.algorithm, scale)
        learner = learner_for(plan, built, drawn_for(plan, built, history, 1))
        place = Place(out, plan, built, learner)
        # Where this fit was left; else where the last one ended; else the very beginning.
        source, found = place, newest_checkpoint(out, plan, plan.algorithm)
        if found is None and last is not None:
            source = place._replace(home=last.folder, plan=last.plan)
            found = newest_checkpoint(last.folder, last.plan, plan.algorithm)
        progress = restore(source, plan.number, found)
        progress = fresh_week(plan, plan.algorithm, plan.number, progress)
        tell(progress.done)
        progress = make_updates(place, history, progress, tell)
        record = {
            "format": FORMAT,
            "data": str(data),
            "plan": asdict(plan),
            "rows": len(history),
            **written_policy(built, progress, learner.metric_names, out / POLICY),
            "promise": promise(plan, built, progress.state, data),
        }
        write_atomically(out / RECORD, (to_json(record, indent=1) + "\n").encode())
        return record


def scale_in(policy: Path) -> Scale:
    """On which a policy sees observations: what learns on must see them so."""
    arrays = load_file(policy)
    mean, deviation, largest = (
        arrays[f"observation/{name}"] for name in ("mean", "deviation", "largest")
    )
    return Scale(mean, deviation, float(largest))


def promise(plan: FitPlan, built: Built, state: Any, data: Path) -> dict[str, Any]:
    """What cost critics say of days of the newest week under the new policy, against the bound,
    and what these days cost as they were logged. Empty where there are no cost critics.
    """
    if built.algorithm.cost_estimate is None:
        return {}
    newest = HistoricalDataset(data, plan.weeks[-1:], learning=plan.as_measured())
    found = compare_critics(built, state, newest, at_policy=True)
    kept = {name: found[name] for name in ("days", "conservative", "estimate", "spread")}
    return {**kept, "bound": plan.bound(), "logged": found["realised"]}
