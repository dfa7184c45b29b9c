"""`prudent run-one`, which the engines of grids give: the run that a file describes."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from prudent.cli.options import note
from prudent.cli.resume import stopped
from prudent.experiments.engines import ELSEWHERE, read_job, run_job, stop_with_parent
from prudent.runs.lock import FolderInUse


@dataclass(frozen=True)
class RunOneOptions:
    job: Annotated[Path, tyro.conf.Positional]
    with_parent: bool = False
    """Stop where the process that began this one ends."""


def run_one(options: RunOneOptions) -> None:
    if options.with_parent:
        stop_with_parent()
    job = read_job(options.job)
    try:
        run_job(job.run, job.folder)
    except FolderInUse as error:
        note(str(error))
        sys.exit(ELSEWHERE)
    except KeyboardInterrupt:
        stopped(job.folder)
