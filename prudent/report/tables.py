"""Final numbers with intervals, as a Markdown table."""

from collections.abc import Mapping, Sequence

import numpy as np

from prudent.report.records import GREEDY, Record, curve, kinds
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


def share_over_budget(record: Record) -> float:
    costs = np.array([e["cost"] for e in record.episodes if e["phase"] == "training"])
    return float(np.mean(costs > record.run["budget"]))


def training_hours(record: Record) -> float:
    """Wall-clock time of training, evaluations not counted."""
    return float(sum(line["window_seconds"] for line in record.progress)) / 3600


def final_table(groups: Mapping[str, Sequence[Record]]) -> str:
    rows = [
        "| algorithm | seeds | steps | return | cost | episodes within budget | length "
        "| training episodes over budget | hours a run |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for label, records in groups.items():
        over = np.mean([share_over_budget(record) for record in records])
        hours = np.mean([training_hours(record) for record in records])
        for kind in kinds(records):
            cells = [
                label if kind == GREEDY else f"{label}, sampled",
                str(len(records)),
                f"{int(curve(records, 'return', kind).steps[-1]):,}",
                with_interval(final(records, "return", kind)),
                with_interval(final(records, "cost", kind)),
                f"{final(records, 'within_budget', kind).mean():.0%}",
                f"{final(records, 'length', kind).mean():.0f}",
                f"{over:.1%}",
                f"{hours:.2f}",
            ]
            rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)
