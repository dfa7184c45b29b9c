"""What each run did by itself: the numbers that a sentence about single seeds is held against.

A mean over seeds does not tell a policy that stays from one that swings between two gaits, nor in
which quarter of training the budget was broken.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from prudent.report.groups import by_task
from prudent.report.records import (
    GREEDY,
    Record,
    curve,
    diagnostics_curve,
    kinds,
    training_costs_by_quarter,
    training_curve,
)
from prudent.report.stored import Say, is_number, note
from prudent.report.tables import LAST, final, markdown, share_over_budget, whole_return

Cells = dict[str, str]  # heading -> text; a heading that a run has nothing for is a dash there
Rows = Callable[[Record], Sequence[Cells]]


def seed_tables(records: Sequence[Record], say: Say = note) -> str:
    """Task by task: tests, training, what the learner kept of itself, estimate against oracle."""
    parts = []
    for task, groups in by_task(records, say).items():
        parts.append(f"## {task}\n")
        found = (table(groups, rows) for rows in (tests, training, learning, estimates))
        parts += [each + "\n" for each in found if each]
    return "\n".join(parts)


def table(groups: Mapping[str, Sequence[Record]], rows: Rows) -> str:
    """A row or more for each run; nothing where no run has any."""
    every = [
        {"run": label, "seed": str(record.run["seed"]), **cells}
        for label, records in groups.items()
        for record in records
        for cells in rows(record)
    ]
    headings = list(dict.fromkeys(heading for cells in every for heading in cells))
    return markdown(headings, [[c.get(h, "-") for h in headings] for c in every]) if every else ""


def tests(record: Record) -> list[Cells]:
    return [tests_of(record, kind) for kind in kinds([record])]


def tests_of(record: Record, kind: str) -> Cells:
    costs, returns = (curve([record], name, kind).values[0] for name in ("cost", "return"))
    within = returns[costs <= record.run["budget"]]
    changes = np.abs(np.diff(costs))
    return {
        "actions": "greedy" if kind == GREEDY else "sampled",
        f"return, last {LAST}": number(final([record], "return", kind)[0]),
        f"cost, last {LAST}": number(final([record], "cost", kind)[0]),
        "evaluations over budget": f"{np.sum(costs > record.run['budget'])} of {len(costs)}",
        "best return within budget": number(within.max()) if within.size else "none",
        "mean height of the return": number(whole_return([record], kind)[0]),
        "cost": span(costs),
        "change of cost between evaluations": number(changes.mean()) if changes.size else "-",
    }


def training(record: Record) -> list[Cells]:
    """Mean cost of a quarter's episodes, the middle half of them, and how many are over budget."""
    share = share_over_budget(record)
    if share is None:
        return []
    cells = {"training episodes over budget": f"{share:.1%}"}
    quarters = training_costs_by_quarter([record])
    for place, costs in zip(("1st", "2nd", "3rd", "4th"), quarters, strict=True):
        if costs:
            over = np.mean(np.array(costs) > record.run["budget"])
            middle = span(np.percentile(costs, (25, 75)))
            cells[f"{place} quarter"] = (
                f"{number(float(np.mean(costs)))} ({middle}), {over:.0%} over"
            )
    return [cells]


LEARNED = {
    "multiplier": "multiplier",
    "cost_weight": "weight of cost",
    "cost_estimate": "estimate in training",
    "ensemble_spread": "spread of the critics",
    "divergence": "divergence of an update",
}


def learning(record: Record) -> list[Cells]:
    """Least and largest of the means between two evaluations, and the mean of the last of them."""
    cells = {}
    for name, heading in LEARNED.items():
        values = training_curve([record], name).values[0]
        if values.size and values.any():  # a single critic has no spread
            cells[heading] = f"{span(values)}, last {number(values[-LAST:].mean())}"
    return [cells] if cells else []


def estimates(record: Record) -> list[Cells]:
    """Of the snapshots that `prudent diagnose` has measured."""
    gap, oracle, estimate, dual, dual_gap = (
        diagnostics_curve([record], name).values[0]
        for name in ("gap", "oracle", "estimate", "dual_estimate", "dual_gap")
    )
    if not oracle.size:
        return []
    cells = {"snapshots": str(len(oracle)), "oracle": span(oracle)}
    if gap.size:
        cells |= {
            "estimate": span(estimate),
            "gap (A)": number(gap.mean()),
            "its size": number(np.abs(gap).mean()),
            "too low": f"{np.sum(gap < 0.0)} of {len(gap)}",
            "gap (A) where the cost is over budget": where_over(record),
        }
    if dual_gap.size:
        cells |= {
            "estimate in training, then": span(dual),
            "gap (B)": number(dual_gap.mean()),
            "size of (B)": number(np.abs(dual_gap).mean()),
        }
    return [cells]


def where_over(record: Record) -> str:
    needed = ("gap", "oracle", "cost_budget")
    lines = [line for line in record.diagnostics if all(is_number(line.get(n)) for n in needed)]
    over = [line["gap"] for line in lines if line["oracle"] > line["cost_budget"]]
    return f"{number(np.mean(over))} at {len(over)}" if over else "never"


def span(values: np.ndarray) -> str:
    return f"{number(np.min(values))} to {number(np.max(values))}"


def number(value: float) -> str:
    """Three digits, or one after the point."""
    return f"{value:.1f}" if abs(value) >= 10.0 else f"{value:.3g}"
