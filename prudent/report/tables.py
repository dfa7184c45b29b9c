"""Final numbers with intervals, as a Markdown table."""

from collections.abc import Mapping, Sequence

import numpy as np

from prudent.report.records import GREEDY, Record, curve, kinds, training_costs
from prudent.statistics import mean_interval

LAST = 10  # evaluations that make up "final"


def with_interval(values: np.ndarray) -> str:
    """Mean over seeds and Student's 95 % interval of it."""
    interval = mean_interval(values)
    if interval is None:
        return f"{np.mean(values):.1f} (one seed)"
    return f"{np.mean(values):.1f} [{interval[0]:.1f}, {interval[1]:.1f}]"


def final(records: Sequence[Record], name: str, kind: str) -> np.ndarray:
    """Per seed, the mean over the last evaluations."""
    return np.asarray(curve(records, name, kind).values[:, -LAST:].mean(axis=1))


def share_over_budget(record: Record) -> float | None:
    """Of the training episodes; nothing before the first of them has ended."""
    costs = training_costs(record)
    return float(np.mean(costs > record.run["budget"])) if len(costs) else None


def training_hours(record: Record) -> float:
    """Wall-clock time of training, evaluations not counted."""
    return float(sum(line["window_seconds"] for line in record.progress)) / 3600


def evaluation_cells(records: Sequence[Record], kind: str) -> list[str]:
    steps = curve(records, "return", kind).steps
    if not len(steps):
        return ["no evaluation yet", *["-"] * 4]
    return [
        f"{int(steps[-1]):,}",
        with_interval(final(records, "return", kind)),
        with_interval(final(records, "cost", kind)),
        f"{final(records, 'within_budget', kind).mean():.0%}",
        f"{final(records, 'length', kind).mean():.0f}",
    ]


def final_table(groups: Mapping[str, Sequence[Record]]) -> str:
    rows = [
        "| algorithm | seeds | steps | return | cost | episodes within budget | length "
        "| training episodes over budget | hours a run |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for label, records in groups.items():
        shares = [s for record in records if (s := share_over_budget(record)) is not None]
        hours = np.mean([training_hours(record) for record in records])
        for kind in kinds(records) or [GREEDY]:
            cells = [
                label if kind == GREEDY else f"{label}, sampled",
                str(len(records)),
                *evaluation_cells(records, kind),
                f"{np.mean(shares):.1%}" if shares else "no episode yet",
                f"{hours:.2f}",
            ]
            rows.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(rows)
