"""What a reader should know before comparing the runs of a report."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from prudent.report.groups import PROBLEM, settings_of
from prudent.report.records import Record, steps_done, steps_planned
from prudent.statistics import FEWEST_SEEDS

UNFINISHED, PROBLEMS, LAYOUTS = "unfinished runs", "different problems", "mixed layouts"
FORMATS, LENGTHS, SEEDS = "mixed record formats", "different lengths", "too few seeds"
FOLDERS = "folders"
LAYOUT_NAMES = ("random", "stock")  # after a dash at the end of a task's name; else it is fixed

Groups = Mapping[str, Sequence[Record]]


class Caution(NamedTuple):
    kind: str
    task: str  # "" if it is of no single task
    text: str


def cautions(tasks: Mapping[str, Groups], remarks: Sequence[str] = ()) -> list[Caution]:
    """Of all tasks, the gravest first; `remarks` come from reading and grouping."""
    unordered = [
        *(Caution(FOLDERS, "", remark) for remark in remarks),
        *layouts(list(tasks)),
        *(
            Caution(kind, task, text)
            for kind, check in CHECKS.items()
            for task, groups in tasks.items()
            for text in check(groups)
        ),
    ]
    order = [FOLDERS, PROBLEMS, LAYOUTS, FORMATS, UNFINISHED, LENGTHS, SEEDS]
    return sorted(unordered, key=lambda caution: order.index(caution.kind))


def problems(groups: Groups) -> Iterator[str]:
    """Runs under different budgets solve different problems."""
    for name in PROBLEM:
        values: dict[str, list[str]] = {}
        for label, records in groups.items():
            found = settings_of(records[0]).get(name, "not recorded")
            values.setdefault(found, []).append(label)
        if len(values) > 1:
            parts = (f"{value} ({listed(labels)})" for value, labels in values.items())
            yield f"the {name} is not the same everywhere: {'; '.join(parts)}"


def formats(groups: Groups) -> Iterator[str]:
    versions = sorted({record.format for records in groups.values() for record in records})
    if len(versions) > 1:
        told = " and ".join(map(str, versions))
        yield (
            f"records of formats {told}, which store different settings: "
            "runs are never pooled across formats"
        )


def unfinished(groups: Groups) -> Iterator[str]:
    for label, records in groups.items():
        parts = []
        for record in records:
            done, planned = steps_done(record), steps_planned(record)
            if planned is not None and done < planned:
                parts.append(f"seed {record.run['seed']} has {done:,} of {planned:,.0f} steps")
        if parts:
            cut = "; all its curves end where its shortest run does" if len(records) > 1 else ""
            yield f"{label}: {', '.join(parts)}{cut}"


def lengths(groups: Groups) -> Iterator[str]:
    """Final numbers after different numbers of steps are no fair comparison."""
    shortest = {label: min(map(steps_done, records)) for label, records in groups.items()}
    if len(set(shortest.values())) > 1:
        by_steps: dict[int, list[str]] = {}
        for label, steps in shortest.items():
            by_steps.setdefault(steps, []).append(label)
        parts = (f"{steps:,} ({listed(by_steps[steps])})" for steps in sorted(by_steps))
        yield f"final numbers are not of the same number of steps: {'; '.join(parts)}"


def seeds(groups: Groups) -> Iterator[str]:
    few: dict[int, list[str]] = {}
    for label, records in groups.items():
        if len(records) < FEWEST_SEEDS:
            few.setdefault(len(records), []).append(label)
    if few:
        parts = (f"{count} ({listed(labels)})" for count, labels in sorted(few.items()))
        yield (
            f"fewer than {FEWEST_SEEDS} seeds: {'; '.join(parts)}. Their curves have no band, and "
            "intervals of their means are wide or absent"
        )


def layouts(tasks: Sequence[str]) -> Iterator[Caution]:
    """A navigation task in several layouts is several tasks, although their names are alike."""
    by_base: dict[str, list[str]] = {}
    for task in tasks:
        base, _, layout = task.rpartition("-")
        known = layout in LAYOUT_NAMES
        by_base.setdefault(base if known else task, []).append(layout if known else "fixed")
    for base, names in by_base.items():
        if len(names) > 1:
            text = f"{base} is here with layouts {', '.join(names)}: different tasks, kept apart"
            yield Caution(LAYOUTS, "", text)


def listed(labels: Sequence[str], most: int = 4) -> str:
    more = f" and {len(labels) - most} more" if len(labels) > most else ""
    return ", ".join(labels[:most]) + more


CHECKS = {
    PROBLEMS: problems, FORMATS: formats, UNFINISHED: unfinished, LENGTHS: lengths, SEEDS: seeds,
}  # fmt: skip
