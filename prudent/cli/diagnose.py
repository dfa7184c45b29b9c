"""`prudent diagnose`: passes over several runs, and what a person sees of them."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from prudent import backend
from prudent.cli.failures import last_words
from prudent.cli.options import SameEnvironment, note
from prudent.report.diagnostics import DIAGNOSTICS
from prudent.settings.checks import Count, CountOrZero


@dataclass(frozen=True)
class DiagnoseOptions:
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders of runs, whose snapshots are measured unless they were already."""
    episodes: Count = 100
    """Per snapshot, with the policy as it explored."""
    seed: CountOrZero | None = None
    """Start elsewhere than training's evaluations did."""
    env: SameEnvironment = None


def diagnose(options: DiagnoseOptions) -> None:
    if not options.runs:
        raise ValueError("prudent diagnose needs the folder of at least one run")
    try:
        complete = diagnose_all(options.runs, options.episodes, options.seed, options.env)
    except KeyboardInterrupt:
        sys.exit("\nStopped; what was measured is kept. The same command goes on with the rest.")
    if not complete:
        sys.exit(1)


def diagnose_all(folders: Sequence[Path], episodes: int, seed: int | None, env: str | None) -> bool:
    """Whether everything could be measured. What cannot is told, and the rest done all the same."""
    backend.prepare()
    # A call of the policy is waited for at once: handing it to another thread only costs time.
    os.environ.setdefault("JAX_CPU_ENABLE_ASYNC_DISPATCH", "false")
    from prudent.diagnostics.run import Plan, Watcher
    from prudent.diagnostics.run import diagnose as measure_snapshots

    plan = Plan(episodes) if seed is None else Plan(episodes, seed)
    console = Console(soft_wrap=True, highlight=False)
    complaints: list[str] = []

    def complain(text: str) -> None:
        complaints.append(text)
        note(text)

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("episodes"),
        TimeRemainingColumn(),
    )
    bars = Progress(*columns, console=console, disable=not console.is_terminal)

    def watcher_of(folder: Path) -> Watcher:
        bar = bars.add_task(str(folder), total=None)
        return Watcher(
            begins=lambda snapshots: bars.update(bar, total=snapshots * plan.episodes),
            episode_ended=lambda: bars.advance(bar),
            measured=lambda line: console.print(run_summary(folder, line), markup=False),
            complain=complain,
        )

    with bars:
        for folder in folders:
            try:
                lines = measure_snapshots(folder, plan, env, watcher_of(folder))
            except Exception as error:
                if len(folders) == 1:
                    raise
                words = last_words(error).removeprefix("prudent: ")
                complain(words if words.startswith(str(folder)) else f"{folder}: {words}")
                continue
            console.print(f"{folder}: {len(lines)} snapshots in {DIAGNOSTICS}", markup=False)
    return not complaints


def run_summary(folder: Path, line: dict[str, Any]) -> str:
    def with_interval(title: str, name: str, sign: str = "") -> str:
        bounds = line[f"{name}_interval"]
        spread = f" [{bounds[0]:{sign}.4g}, {bounds[1]:{sign}.4g}]" if bounds else ""
        return f"{title} {line[name]:{sign}.4g}{spread}"

    parts = [f"{folder} step {line['step']}", with_interval("oracle", "oracle")]
    if "gap" in line:
        parts += [with_interval("gap", "gap", "+"), f"spread {line['spread']:.3g}"]
    if "dual_gap" in line:
        parts.append(f"dual gap {line['dual_gap']:+.4g}")
    if "coverage" in line:
        parts.append(f"coverage {line['coverage']:.0%}")
    parts.append(f"{line['steps_per_second']:.0f} steps/s")
    return "  ".join(parts)
