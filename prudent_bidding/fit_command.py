"""`prudent bidding fit`: what a bidding team runs once a week on its own log."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from prudent import backend
from prudent.cli.options import read
from prudent.settings.checks import Count, CountOrZero, Positive, Seed, Share
from prudent_bidding.dataset import GMVLabel
from prudent_bidding.fit_plan import POLICY, RECORD, FitPlan, make_fit_plan, read_last
from prudent_bidding.forms import FormName
from prudent_bidding.plan import LearnerSettings

USUAL = LearnerSettings


@dataclass(frozen=True)
class FitOptions:
    algorithm: Annotated[str, tyro.conf.Positional]
    """An off-policy one: cal, sac-lag, ..."""
    data: Path
    """A data set's folder, by `prudent bidding import` or `simulate`."""
    out: Path
    """A folder for the policy. After a kill the same command goes on."""
    weeks: tuple[CountOrZero, ...] = ()
    """To learn from (default: all that the data set has)."""
    init_from: Path | None = None
    """The folder of the last fit: go on from its learner and its scale of observations."""
    updates: Count = USUAL.updates
    batch_size: Count = USUAL.batch_size
    hidden: tuple[Count, ...] = USUAL.hidden
    discount: Share = USUAL.discount
    multiplier_learning_rate: Positive = USUAL.multiplier_learning_rate
    form: FormName = USUAL.form
    """Of the constraint; `ratio` is for cal and ucb."""
    gmv: GMVLabel = USUAL.gmv
    """In the costs learned from: what orders brought, or what was predicted for the wins, times
    what the advertiser's orders from then to the week's end made of it. The second holds for
    simulated first-price markets only."""
    strategy: str = USUAL.strategy
    """Rows that are drawn: uniform, recent(HALF_LIFE), advertiser_balanced, stratified."""
    seed: Seed = USUAL.seed
    quiet: bool = False


# Not of the plan: where its data and files are, and what is shown.
ELSEWHERE = ("algorithm", "data", "out", "weeks", "init_from", "quiet")


def fit(arguments: list[str]) -> None:
    options = read(FitOptions, "prudent bidding fit", arguments)
    given = {name: value for name, value in vars(options).items() if name not in ELSEWHERE}
    last = read_last(options.init_from) if options.init_from else None
    plan = make_fit_plan(options.algorithm, options.data, options.weeks, given, last)
    finished = (options.out / RECORD).exists()
    backend.prepare()
    from prudent_bidding.fit import fit as learn

    with showing(plan, options.quiet or finished) as tell:
        record = learn(options.out, options.data, plan, last, tell)
    if not options.quiet:
        if finished:
            print(f"{options.out} is finished; nothing is left to do")
        print("\n".join(described(options.out, plan, record)))


@contextmanager
def showing(plan: FitPlan, silent: bool) -> Iterator[Callable[[int], None]]:
    """A bar of updates, on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Left

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Left())
    disabled = silent or not console.is_terminal
    with Progress(*columns, console=console, disable=disabled) as progress:
        task = progress.add_task(f"{plan.algorithm}, updates", total=plan.updates)
        yield lambda done: progress.update(task, completed=done)


def described(out: Path, plan: FitPlan, record: Mapping[str, Any]) -> list[str]:
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
