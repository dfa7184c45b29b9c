"""One offline fit to logged weeks, simulated or imported: a learner in, a policy file out.

It is an arm's update of one week (`arms`) without the world around it: there is no deployment, so
what stands at the end is what the critics promise, and nothing that was measured.
"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from prudent.files import only_writer, to_json, write_atomically, writing
from prudent.training.learner import Learner
from prudent_bidding import arms
from prudent_bidding.dataset import HistoricalDataset, Learning, Scale
from prudent_bidding.fit_plan import FIT_PLAN, POLICY, RECORD, FitPlan, LastFit
from prudent_bidding.forms import FORMS
from prudent_bidding.plan import read_json, write_plan

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
        built = arms.build(plan, plan.algorithm, scale)
        learner = arms.learner_for(plan, built, history)
        progress = begin(out, plan, last, learner)
        tell(progress.done)
        learned = arms.make_updates(out, plan, built, learner, history, progress, tell)
        record = {
            "format": FORMAT,
            "data": str(data),
            "plan": asdict(plan),
            "rows": len(history),
            **arms.written_policy(built, *learned, out / POLICY),
            "promise": promise(plan, built, learned.progress.state, data),
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


def begin(out: Path, plan: FitPlan, last: LastFit | None, learner: Learner) -> arms.Progress:
    """Where this fit was left; else where the last one ended; else the very beginning."""
    name = plan.algorithm
    home, of_home = out, plan
    if last is not None and arms.newest_checkpoint(out, plan, name) is None:
        home, of_home = last.folder, last.plan
    found = arms.restore(home, of_home, name, plan.number, learner)
    return arms.fresh_week(plan, name, plan.number, found)


def promise(plan: FitPlan, built: arms.Built, state: Any, data: Path) -> dict[str, Any]:
    """What cost critics say of days of the newest week under the new policy, against the bound,
    and what these days cost as they were logged. Empty where there are no cost critics.
    """
    if built.algorithm.cost_estimate is None:
        return {}
    learning = Learning(plan.budget_units, FORMS[plan.form].step_cost)  # orders as they came
    newest = HistoricalDataset(data, plan.weeks[-1:], learning=learning)
    found = arms.estimates_and_costs(built, state, newest, at_policy=True)
    return {
        "days": found["days"],
        "bound": plan.bound(),
        "conservative": found["conservative"],
        "estimate": found["estimate"],
        "spread": found["spread"],
        "logged": found["realised"],
    }
