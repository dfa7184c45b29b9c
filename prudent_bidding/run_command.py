"""`prudent bidding run` and `prudent bidding report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from prudent.backend import usable_cores
from prudent.cli.options import parse, read
from prudent.settings.checks import Count, checked, option
from prudent_bidding import tables
from prudent_bidding.engines import EngineName
from prudent_bidding.plan import Plan, make_plan, usual_plan
from prudent_bidding.protocol import run_protocol


@dataclass(frozen=True)
class Preset:
    preset: str = Plan.preset


@dataclass(frozen=True)
class RunOptions:
    plan: tyro.conf.OmitArgPrefixes[Plan]
    out: Path | None = None
    """The run's folder (default: runs/bidding/PRESET-HASH/world-N). What is finished is kept."""
    resume: Path | None = None
    """Go on with the run in this folder; its plan is read from there."""
    processes: Count | None = None
    """Learners and simulations at a time (default: one per core)."""
    engine: EngineName = "local"
    quiet: bool = False


def main(arguments: list[str]) -> None:
    """Two passes: the preset decides the defaults of the plan."""
    command = "prudent bidding run"
    first, _ = parse(Preset, command, arguments, return_unknown_args=True, add_help=False)
    preset: str = first.preset
    usual = RunOptions(usual_plan(preset))
    options = checked(parse(RunOptions, command, arguments, default=usual))
    words = {word.partition("=")[0].replace("-", "_") for word in arguments}
    given = [name for name in vars(usual.plan) if f"__{name}" in words]
    if options.resume is not None:
        refused = given or ["out"] * (options.out is not None)
        if refused:
            raise ValueError(
                f"--resume takes the plan of its folder; leave {option(refused[0])} out"
            )
        folder, plan = options.resume, Plan.read(options.resume)
    else:
        values = {name: getattr(options.plan, name) for name in given if name != "preset"}
        plan = make_plan(preset, values)
        setting = f"{plan.preset}-{plan.identity()}"
        default = Path("runs") / "bidding" / setting / f"world-{plan.world_seed}"
        folder = options.out or default

    def say(text: str) -> None:
        if not options.quiet:
            print(text, flush=True)

    processes = options.processes or len(usable_cores())
    run_protocol(folder, plan, processes=processes, engine=options.engine, say=say)
    say((folder / "tables.md").read_text())
    say(f"page: {folder / 'index.html'}")


@dataclass(frozen=True)
class ReportOptions:
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders of `prudent bidding run`, each of which gets its tables and page anew."""


def report(arguments: list[str]) -> None:
    options = read(ReportOptions, "prudent bidding report", arguments)
    if not options.runs:
        raise ValueError("name the folders of one run or more")
    for folder in options.runs:
        print(f"page: {tables.report(folder)}")
