"""`prudent bidding run` and `prudent bidding import`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from prudent.backend import usable_cores
from prudent.cli.options import read
from prudent.settings.checks import Count, NotNegative, Positive, PositiveShare, Seed, Share
from prudent_bidding.dataset import GMVLabel
from prudent_bidding.engines import EngineName
from prudent_bidding.forms import FormName
from prudent_bidding.plan import Plan, make_plan
from prudent_bidding.protocol import run_protocol


@dataclass(frozen=True)
class RunOptions:
    preset: str = "small"
    """World and sizes: smoke (about two minutes), small, stationary, hard, paper-data, paper."""
    algorithms: tuple[str, ...] | None = None
    """Those of the paper's table and SAC-Lag, unless named."""
    references: tuple[str, ...] | None = None
    """Policies in worlds of their own: constant:K, feedback:AIM, dual:RATE, informed:AIM,
    behaviour-cloning."""
    weeks: Count | None = None
    """Deployments after the incumbent's week."""
    world_seed: Seed = 0
    seed: Seed = 0
    """Of the learners."""
    updates: Count | None = None
    """A week, of each off-policy algorithm."""
    batch_size: Count | None = None
    hidden: tuple[Count, ...] | None = None
    discount: Share | None = None
    multiplier_learning_rate: Positive | None = None
    target_rate: PositiveShare | None = None
    initial_temperature: Positive | None = None
    history: Literal["shared", "own"] = "shared"
    """Learn from all arms' weeks, or from one's own (and the incumbent's first)."""
    strategy: str = "uniform"
    """Rows that are drawn: uniform, recent(HALF_LIFE), advertiser_balanced, stratified."""
    assignment: Literal["switchback", "weekly"] = "switchback"
    deployed: Literal["sampled", "greedy"] = "sampled"
    """Stochastic policies, which the next update can learn from, or their modes."""
    form: FormName = "deficit"
    """Of the constraint; `ratio` is for cal and ucb."""
    gmv: GMVLabel = "calibrated"
    """In the costs learned from: what orders brought, or what was predicted for the wins, times
    what the advertiser's orders from then to the week's end made of it. Metrics are always of the
    first."""
    constraint_at: Literal["batch", "accumulated"] = "batch"
    """What the multiplier holds against the bound: the cost still to come from a record on, or with
    that of the day so far, which goes well with several multipliers (cal and ucb)."""
    multiplier_scope: Literal["global", "group", "advertiser"] = "global"
    """One multiplier, one for each category, or one for each advertiser, which then answers to its
    measured deficit once a week (cal and ucb)."""
    advertiser_rate: Positive | None = None
    """Of an advertiser's multiplier, per tenth of a day's budget that was missing."""
    conservatism: NotNegative | None = None
    convexity: NotNegative | None = None
    out: Path | None = None
    """The run's folder (default: runs/bidding/PRESET-HASH/world-N). What is finished is kept."""
    resume: Path | None = None
    """Go on with the run in this folder; its plan is read from there."""
    processes: Count | None = None
    """Learners and simulations at a time (default: one per core)."""
    engine: EngineName = "local"
    quiet: bool = False


# Not of the plan: where and how it is carried out.
ELSEWHERE = ("preset", "out", "resume", "processes", "engine", "quiet")


def run(arguments: list[str]) -> None:
    options = read(RunOptions, "prudent bidding run", arguments)
    if options.resume is not None:
        others = [word for word in arguments if word.startswith("--")]
        allowed = ("--resume", "--processes", "--engine", "--quiet", "--no-quiet")
        for word in others:
            if word.partition("=")[0] not in allowed:
                raise ValueError(f"--resume takes the plan of its folder; leave {word} out")
        folder, plan = options.resume, Plan.read(options.resume)
    else:
        given = {name: v for name, v in vars(options).items() if name not in ELSEWHERE}
        plan = make_plan(options.preset, given)
        setting = f"{plan.preset}-{plan.identity()}"
        world = f"world-{plan.world_seed}"
        folder = options.out or Path("runs") / "bidding" / setting / world
    say = (lambda text: None) if options.quiet else (lambda text: print(text, flush=True))
    processes = options.processes or len(usable_cores())
    run_protocol(folder, plan, processes=processes, engine=options.engine, say=say)
    if not options.quiet:
        print((folder / "tables.md").read_text())
        print(f"page: {folder / 'index.html'}")


@dataclass(frozen=True)
class ImportOptions:
    log: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Parquet or CSV files (a folder: all of them in it)."""
    out: Path
    """A new folder for the data set."""
    format: Literal["prudent", "auctionnet"] = "prudent"
    """Whose columns: ours (docs/semi-batch.md) or AuctionNet's."""


def import_log(arguments: list[str]) -> None:
    from prudent_bidding.importing import import_logs

    options = read(ImportOptions, "prudent bidding import", arguments)
    for line in import_logs(options.log, options.out, options.format):
        print(line)
