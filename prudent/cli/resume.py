"""`prudent resume`, and what a run that was stopped leaves to go on with."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

from prudent.agent import resume as go_on
from prudent.cli.options import RunFolder, SameEnvironment, without
from prudent.settings.checks import Count


@dataclass(frozen=True)
class ResumeOptions:
    run: RunFolder
    steps: Count | None = None
    """Go on to this many steps, more than the run was given."""
    env: SameEnvironment = None
    warmup: Path | None = None
    """The same log again, where an older version stopped before its first checkpoint."""
    log: tuple[Literal["tensorboard", "wandb"], ...] = ()
    quiet: bool = False


def resume(options: ResumeOptions) -> None:
    try:
        go_on(options.run, **without(options, "run"))
    except KeyboardInterrupt:
        stopped(options.run)


def stopped(folder: Path) -> NoReturn:
    """Says what there is to go on with."""
    if not (folder / "run.json").exists():
        words = "Stopped before the run began; nothing was written."
    elif not any((folder / "checkpoints").glob("step-*.json")):
        words = f"Stopped before the first checkpoint. Begin again with: prudent resume {folder}"
    else:
        words = f"Stopped; everything is saved. Go on with: prudent resume {folder}"
    print(f"\n{words}")
    sys.exit(130)
