"""`prudent bidding report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from prudent.cli.options import read
from prudent_bidding.plan import Plan, results_file
from prudent_bidding.tables import write_report


@dataclass(frozen=True)
class ReportOptions:
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders of `prudent bidding run`, whose tables and page are made anew."""


def report(arguments: list[str]) -> None:
    options = read(ReportOptions, "prudent bidding report", arguments)
    for folder in options.runs:
        plan = Plan.read(folder)
        if not results_file(folder, 1).exists():
            raise ValueError(f"{folder}: no deployment of this bidding run is finished yet")
        write_report(folder, plan)
        print(f"page: {folder / 'index.html'}")
