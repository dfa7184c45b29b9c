"""`prudent seeds`."""

from dataclasses import dataclass

from prudent.cli.options import Folders
from prudent.settings.checks import Count


@dataclass(frozen=True)
class SeedsOptions:
    paths: Folders
    until: Count | None = None
    """Only what runs did in their first so many steps."""


def seeds(options: SeedsOptions) -> None:
    from prudent.report.folders import collect
    from prudent.report.records import shortened
    from prudent.report.seeds import seed_tables
    from prudent.report.stored import printable

    found = collect(options.paths)
    if not found:
        below = ", ".join(map(str, options.paths)) or "nothing"
        raise ValueError(f"no run below {below}")
    if options.until is not None:
        found = [shortened(record, options.until) for record in found]
    print("\n".join(map(printable, seed_tables(found).split("\n"))))
