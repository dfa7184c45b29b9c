"""`prudent sweep`."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from prudent.cli.grids import GridOptions, chosen, run_grid
from prudent.cli.options import Limits
from prudent.experiments.axes import with_axes
from prudent.experiments.grid import Grid, Problem, grid_in
from prudent.settings.checks import option


@dataclass(frozen=True)
class SweepOptions(GridOptions):
    """Any setting is an option too: with several values it is an axis of the grid, with one it is
    set. Items of a list are joined by commas (--hidden 64,64 256,256).
    """

    file: Path | None = None
    """A Python file with a grid of your own: GRID = Grid(...)."""
    env: tuple[str, ...] = ()
    """Environments of your own, beside or instead of --tasks: Gymnasium ids or module:callable."""
    limits: Limits = field(default_factory=Limits)


def sweep(options: SweepOptions, others: list[str]) -> None:
    name, grid = named_grid(options, settings_given(others))
    if not run_grid(name, grid, options.out, options.running).complete:
        sys.exit(1)


def named_grid(options: SweepOptions, given: dict[str, list[str]]) -> tuple[str, Grid]:
    """The grid of the file, or of the options."""
    limits = vars(options.limits)
    if options.file is not None:
        set_here = {"env": options.env, **limits}
        ours = [name for name, value in set_here.items() if value not in (None, False, ())]
        if given or ours:
            named = ", ".join(map(option, (*ours, *given)))
            raise ValueError(f"{named}: settings stand in {options.file}")
        return options.file.stem, chosen(grid_in(options.file), options)
    problems = [Problem(name, **limits) for name in (*options.tasks, *options.env)]
    if not problems or not options.algorithms:
        raise ValueError(
            "a sweep needs --tasks and --algorithms (or --env and --algorithms), or a --file with "
            "a grid"
        )
    variants = with_axes(options.algorithms, given, print)
    preset = options.running.preset or "paper"
    return "sweep", Grid(problems, variants, options.seeds or (0,), preset=preset)


def settings_given(words: Sequence[str]) -> dict[str, list[str]]:
    """The words that are no option of a sweep's own: settings and their values."""
    found: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            values = found.setdefault(name.replace("-", "_"), [])
            values += [value] if value else []
        elif not found:
            raise ValueError(f"{word!r} belongs to no option")
        else:
            found[next(reversed(found))].append(word)
    for name, values in found.items():
        if not values:
            raise ValueError(f"{option(name)} has no value")
    return found
