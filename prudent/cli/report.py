"""`prudent report`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prudent.cli.options import Folders
from prudent.settings.checks import Positive

PICTURES = (".png", ".svg", ".pdf")
NO_FOLDERS = (".jpg", ".jpeg", ".gif", ".webp", ".eps", ".html", ".htm", ".md")


@dataclass(frozen=True)
class ReportOptions:
    runs: Folders
    """Seeds of the same settings are taken together."""
    out: Path = Path("report")
    """A folder for the page and the figures; or one picture of one task (.png, .svg, .pdf)."""
    log_steps: bool = False
    """Steps on a logarithmic axis, for runs of very different length."""
    follow: bool = False
    """Go on, and write anew when records have changed, until Ctrl-C."""
    every: Positive = 10.0
    """With --follow: seconds between looks."""


def report(options: ReportOptions) -> None:
    ending = options.out.suffix.lower()
    if ending in NO_FOLDERS:
        raise ValueError(f"--out is a folder, or a picture (.png, .svg, .pdf), not {options.out}")
    if ending in PICTURES:
        if options.follow:
            raise ValueError(f"--follow writes a folder; {options.out} is one picture")
        one_picture(options)
    elif options.follow:
        from prudent.cli.following import follow

        follow(options.runs, options.out, options.log_steps, options.every)
    else:
        whole_report(options.runs, options.out, options.log_steps)


def one_picture(options: ReportOptions) -> None:
    """Of one task. Every run must be sound here."""
    from prudent.report.figures import learning_figure
    from prudent.report.folders import runs_at
    from prudent.report.groups import by_label
    from prudent.report.records import read_record
    from prudent.report.tables import final_table

    groups = by_label([read_record(folder) for folder in runs_at(options.runs)])
    learning_figure(groups, options.out, options.log_steps)
    print(final_table(groups))
    print(f"\npicture: {options.out}")


def whole_report(paths: Sequence[Path], out: Path, log_steps: bool) -> None:
    from prudent.report.cautions import cautions
    from prudent.report.stored import note, printable
    from prudent.report.tables import final_table
    from prudent.report.writing import PAGE, read_all, title_of, write_report

    found = read_all(paths)
    for caution in cautions(found.tasks, found.remarks):
        note(f"{caution.task}: {caution.text}" if caution.task else caution.text)
    write_report(found, out, log_steps, title_of(paths))
    for task, groups in found.tasks.items():
        lines = [f"## {task}", "", *final_table(groups).split("\n"), ""]
        print("\n".join(map(printable, lines)))
    print(f"page: {out / PAGE}")
