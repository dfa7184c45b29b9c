"""`prudent bidding fit`: what a bidding team runs once a week on its own log."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from prudent import backend
from prudent.cli.options import parse
from prudent.settings.checks import checked
from prudent_bidding.fit_plan import POLICY, RECORD, FitPlan, make_fit_plan, read_last
from prudent_bidding.progress_bar import bar


@dataclass(frozen=True)
class FitOptions:
    plan: tyro.conf.OmitArgPrefixes[FitPlan]
    data: Path
    """A data set's folder, by `prudent bidding import` or `simulate`."""
    out: Path
    """A folder for the policy. After a kill the same command goes on."""
    init_from: Path | None = None
    """The folder of the last fit: go on from its learner and its scale of observations."""
    quiet: bool = False


def main(arguments: list[str]) -> None:
    needed = FitOptions(FitPlan(algorithm=tyro.MISSING), tyro.MISSING, tyro.MISSING)
    options = parse(FitOptions, "prudent bidding fit", arguments, default=needed)
    last = read_last(options.init_from) if options.init_from else None
    plan = make_fit_plan(checked(options.plan), options.data, last)
    finished = (options.out / RECORD).exists()
    backend.prepare()
    from prudent_bidding.fit import fit

    with bar(f"{plan.algorithm}, updates", plan.updates, options.quiet or finished) as show:
        record = fit(options.out, options.data, plan, last, lambda done: show(done, ""))
    if not options.quiet:
        if finished:
            print(f"{options.out} is finished; nothing is left to do")
        print("\n".join(fit_summary(options.out, plan, record)))


def fit_summary(out: Path, plan: FitPlan, record: Mapping[str, Any]) -> list[str]:
    """What was learned, what it promises, and what that is worth."""
    weeks = f"week{'s' * (len(plan.weeks) > 1)} {', '.join(map(str, plan.weeks))}"
    earlier = record["updates"] - plan.updates
    before = f", after {earlier:,} in earlier fits" if earlier else ""
    return [
        f"{plan.algorithm}: {plan.updates:,} updates{before}, from {record['rows']:,} rows of "
        f"{weeks}",
        promised(plan, record),
        "note: this is a promise of critics that know nothing but this log, not evidence: what "
        "the policy does shows when it is deployed, to a few at first",
        f"policy: {out / POLICY}",
    ]


def promised(plan: FitPlan, record: Mapping[str, Any]) -> str:
    found = record["promise"]
    if not found:
        return f"{plan.algorithm} has no cost critics: nothing is promised of a day's cost"
    if plan.form == "ratio":
        # Of what the limit is on there is no estimate apart from the updates'.
        mean = record["training"]["cost_estimate"]
        return (
            f"the critics promise GMV / (target * pay) of {-mean:.3g}, the mean over all updates, "
            f"where at least {-plan.bound():g} is asked for"
        )
    kept = "kept" if found["conservative"] <= found["bound"] else "broken, by their own word"
    return (
        f"the critics promise that a day costs {found['conservative']:.3g} by their conservative "
        f"estimate ({found['estimate']:.3g} by their mean), where {found['bound']:g} is allowed: "
        f"{kept}; the same days cost {found['logged']:.3g} as logged ({plan.form}, discounted, in "
        f"units of which a day's budget has {plan.budget_units:g})"
    )
