"""Folders that an installed package reports by itself.

An entry point in the group `prudent.reports` is named after a file, and its object is a function of
a folder that has that file. It writes the report into the folder and returns the path of its page.
"""

from collections.abc import Iterable
from pathlib import Path

from prudent.settings.registration import offers_in

GROUP = "prudent.reports"


def report_of_packages(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Report the folders of other packages; returns the other paths."""
    others = []
    for path in paths:
        offers = [offers[0] for name, offers in offers_in(GROUP).items() if (path / name).is_file()]
        if offers:
            print(f"page: {offers[0].entry_point.load()(path)}")
        else:
            others.append(path)
    return tuple(others)
