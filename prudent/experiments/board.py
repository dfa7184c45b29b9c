"""What a person sees while a grid runs: a live table on a terminal, plain lines elsewhere."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from prudent.experiments.engines import Show, Stage, Standing

ROWS = 30  # of the table; what runs and what failed comes first
LINES_SECONDS = 60.0  # between two plain lines on what runs
ORDER: tuple[Stage, ...] = ("running", "failed", "elsewhere", "stopped", "waiting", "finished")
COLOURS = {"running": "cyan", "failed": "red", "finished": "green"}
COLUMNS = ("task", "run", "seed", "", "done", "return", "cost / budget", "left")


def duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def cells(standing: Standing) -> list[str]:
    run, line = standing.job.run, standing.line
    evaluation = line["evaluation"] if line and "evaluation" in line else None
    return [
        run.task,
        standing.job.name,
        str(run.seed),
        standing.stage,
        f"{standing.step / run.schedule.steps:.0%}" if line else "",
        f"{evaluation['return']:.4g}" if evaluation else "",
        f"{evaluation['cost']:.4g} / {run.budget:g}" if evaluation else "",
        duration(standing.seconds_left()),
    ]


def counted(standings: Sequence[Standing]) -> str:
    counts = Counter(standing.stage for standing in standings)
    parts = [f"{counts[stage]} {stage}" for stage in ORDER if counts[stage]]
    return f"{len(standings)} runs: {', '.join(parts)}"


def table(standings: Sequence[Standing]) -> Group:
    ordered = sorted(standings, key=lambda standing: ORDER.index(standing.stage))
    drawn = Table(box=None, pad_edge=False)
    for title in COLUMNS:
        drawn.add_column(title, justify="left" if title in ("task", "run", "") else "right")
    for standing in ordered[:ROWS]:
        # Texts, so that nothing in a name is taken for markup.
        drawn.add_row(*map(Text, cells(standing)), style=COLOURS.get(standing.stage))
    more = f", of which {len(ordered) - ROWS} are not shown" if len(ordered) > ROWS else ""
    return Group(drawn, Text(counted(standings) + more))


def as_line(standing: Standing) -> str:
    task, name, seed, stage, done, reward, cost, left = cells(standing)
    parts = [f"{stage}: {name} on {task}, seed {seed}"]
    if done and stage != "finished":
        parts.append(done)
    if reward:
        parts += [f"return {reward}", f"cost {cost}"]
    if left:
        parts.append(f"{left} left")
    if standing.error:
        parts.append(standing.error)
    return ", ".join(parts)


class Plain:
    """A line for everything that changes, and now and then one for each that runs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stages: dict[str, Stage] = {}
        self._told = time.monotonic()

    def show(self, standings: Sequence[Standing]) -> None:
        remind = time.monotonic() - self._told >= LINES_SECONDS
        for standing in standings:
            key, stage = standing.job.key, standing.stage
            changed = self._stages.get(key, "waiting") != stage
            if changed or (remind and stage == "running"):
                self._console.print(as_line(standing), markup=False)
            self._stages[key] = stage
        if remind:
            self._told = time.monotonic()
            self._console.print(counted(standings), markup=False)


@contextmanager
def board(console: Console) -> Iterator[Show]:
    if not console.is_terminal:
        yield Plain(console).show
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda standings: live.update(table(standings), refresh=True)
