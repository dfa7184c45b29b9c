"""How much of CAL's price of cost is the scatter of its batches?

    python benchmarks/batch_noise.py measure RUN ... > A.jsonl
    python benchmarks/batch_noise.py table A.jsonl B.jsonl

CAL rectifies batch by batch: the weight of cost is max(0, λ + c G) with G the mean estimate of the
batch's rows less the budget. Means of a few rows scatter, so that some batches are over a budget
which the mean over the replay is well below, and the weight is above 0 on average. Here the rows
that the replay had at each snapshot are judged by the snapshot's critics, as the multiplier's step
judges them, and many batches of each size are drawn from them. `measure` writes a line of JSON per
snapshot and batch size, `table` makes a Markdown table of them. Needs the run's folder with its
replay, of which none may have been overwritten.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from frozen_policy import replay_rows

from prudent.diagnostics.snapshots import snapshots_in, subject_of
from prudent.pieces import multipliers
from prudent.pieces.types import batch_from_rows
from prudent.policies.policy import read_environment
from prudent.report.tables import markdown
from prudent.runs.folder import read_run

DRAWN = 20_000  # batches of each size
CHOSEN = ("conservatism", "convexity", "cost_critics")  # k, c and E


class Prices(NamedTuple):
    """Of many batches of one size."""

    deviation: float  # of their means
    over: float  # share of them over the budget
    weight: float  # max(0, λ + c G), mean over them


def prices(
    estimates: np.ndarray, budget: float, multiplier: float, convexity: float, batch: int
) -> Prices:
    places = np.random.default_rng(batch).integers(len(estimates), size=(DRAWN, batch))
    violations = estimates[places].mean(axis=1) - budget
    weights = np.maximum(0.0, multiplier + convexity * violations)
    return Prices(float(violations.std()), float((violations > 0.0).mean()), float(weights.mean()))


def lines_of(folder: Path, batches: Sequence[int]) -> Iterator[dict[str, Any]]:
    stored = read_run(folder)
    run, config, spec = stored.run, stored.run.config, read_environment(stored.content).spec
    if not hasattr(config, "convexity"):
        raise SystemExit(f"{folder}: {run.algorithm} has no quadratic term")
    if config.dual_states != "replay" or config.dual_action != "buffer":
        raise SystemExit(f"{folder}: its multiplier looks elsewhere than at the replay's actions")
    subject, rows = subject_of(folder, stored), replay_rows(folder, stored)
    ascent = multipliers.ASCENTS[config.multiplier]
    value = ascent(config.multiplier_learning_rate, config.initial_multiplier).value
    assert subject.estimating is not None  # CAL has critics of cost
    for snapshot in snapshots_in(folder):
        state = subject.read(snapshot.step)
        held = rows[: run.schedule.warmup_steps + snapshot.step]
        taken = batch_from_rows(held, spec.observation_size, spec.action_size)
        judge = subject.estimating(state)
        estimates = judge(np.asarray(taken.observation), np.asarray(taken.action)).conservative
        one = jax.tree.map(lambda leaf: leaf[0], state.dual.multiplier)  # of the only limit
        mean, multiplier = float(estimates.mean()), float(value(one))
        for batch in batches:
            found = prices(estimates, spec.cost_budget, multiplier, config.convexity, batch)
            yield {
                **{name: getattr(run, name) for name in ("algorithm", "task", "seed")},
                **{name: getattr(config, name) for name in CHOSEN},
                "trained_with": run.schedule.batch_size,
                "step": snapshot.step,
                "budget": spec.cost_budget,
                "mean": mean,
                "multiplier": multiplier,
                "batch": batch,
                **found._asdict(),
            }


def table(paths: Sequence[Path]) -> str:
    """A row per snapshot; the weight of cost with each size of batch, and with the mean itself."""
    lines = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    sizes = sorted({line["batch"] for line in lines})
    found: dict[tuple[str, int], dict[int, Any]] = {}
    for line in lines:
        k, c, ensemble = (line[name] for name in CHOSEN)
        name = f"{line['task']}, k = {k:g}, c = {c:g}, E = {ensemble}"
        name += f", batches of {line['trained_with']}, seed {line['seed']}"
        by_size = found.setdefault((name, line["step"]), {})
        if line["batch"] in by_size:
            raise SystemExit(f"two lines of {name}, step {line['step']}: two runs?")
        by_size[line["batch"]] = line
    rows = []
    for (name, step), by_size in found.items():
        own = by_size[next(iter(by_size.values()))["trained_with"]]
        at_mean = max(0.0, own["multiplier"] + own["convexity"] * (own["mean"] - own["budget"]))
        numbers = (own["budget"], own["mean"], own["deviation"])
        weights = [*(by_size[size]["weight"] if size in by_size else None for size in sizes)]
        rows.append([
            name, f"{step:,}", *(f"{number:.3g}" for number in numbers), f"{own['over']:.1%}",
            *("-" if weight is None else f"{weight:.2g}" for weight in (*weights, at_mean)),
        ])  # fmt: skip
    headings = ["run", "snapshot", "budget", "mean of the replay", "deviation of a batch's mean"]
    headings += ["batches over the budget", *(f"weight, batches of {size}" for size in sizes)]
    return markdown([*headings, "weight at the mean"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("runs", type=Path, nargs="+")
    measuring.add_argument("--batches", type=int, nargs="+", default=[12, 48, 256])
    commands.add_parser("table").add_argument("paths", type=Path, nargs="+")
    options = parser.parse_args()
    if options.command == "table":
        print(table(options.paths))
        return
    for folder in options.runs:
        own = read_run(folder).run.schedule.batch_size
        for line in lines_of(folder, sorted({own, *options.batches})):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
