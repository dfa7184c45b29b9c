"""Would the critics know what the policy costs, if it stayed as it is?

    python benchmarks/frozen_policy.py measure RUN --steps 20000 --updates 10000 40000 > A.jsonl
    python benchmarks/frozen_policy.py table A.jsonl B.jsonl

An estimate can be wrong because the policy moves faster than its critics follow, or because the
replay does not teach them better. To tell the two apart, a snapshot's policy is held fixed and its
cost critics go on learning as they did: the run's own updates, batches and targets, from the rows
that the replay had then. Policy, temperature and reward critics have a learning rate of 0. After so
many updates the estimate is compared with the snapshot's episodes again, by `prudent diagnose`'s
own code. `measure` writes one line of JSON per snapshot and number of updates, `table` makes a
Markdown table of them.

A gap that closes was lag; one that stays is in the data, or in what networks make of it. With
`--own 100` the replay also has the steps of so many episodes of that policy, others than those it
is judged by: what closes only then was in the data. Needs the run's folder with its replay, of
which none may have been overwritten, and an algorithm of the SAC family (`learning_rate` and
`cost_learning_rate` apart).
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from prudent.algorithms import build_for
from prudent.diagnostics.episodes import Visited, play
from prudent.diagnostics.gap import describe_gap, describe_oracle, oracle_of
from prudent.diagnostics.run import Plan, as_taught, time_limit_ends
from prudent.diagnostics.snapshots import subject_of
from prudent.policies.policy import read_environment
from prudent.report.tables import markdown
from prudent.runs.checkpoint import load_newest
from prudent.runs.folder import RunFolder, read_run
from prudent.settings.run import Run
from prudent.tasks.adapter import open_several
from prudent.tasks.episodes import episode_seed
from prudent.tasks.finding import Environment, task_of
from prudent.training.learner import Learner, compile_for_rows
from prudent.training.replay import distinct

AT_ONCE = 1000  # updates in one call


def costs_only(stored: RunFolder) -> Learner:
    """The run's learner, in which only the cost critics (and the multiplier) move."""
    config = stored.run.config
    if not hasattr(config, "cost_learning_rate"):
        raise SystemExit(f"{stored.run.algorithm} does not keep its learning rates apart")
    if getattr(config, "dual_states", "replay") != "replay":
        config = replace(config, dual_states="replay")  # of no use to a policy that stays
    run = replace(stored.run, config=replace(config, learning_rate=0.0))
    spec = read_environment(stored.content).spec
    return compile_for_rows(build_for(run, spec), spec, run.schedule.batch_size, seed=0)


def replay_rows(folder: Path, stored: RunFolder) -> np.ndarray:
    """All that the run ever added, in order."""
    found = load_newest(folder, stored.identity, print)
    if found is None or found.first or found.lost:
        raise SystemExit(f"{folder}: the whole replay is needed, from its first row on")
    return np.concatenate([segment.rows for segment in found.segments])


def rows_of(episodes: Sequence[Visited], run: Run) -> np.ndarray:
    """As the replay would hold them, for cost critics: without rewards, and without a last step
    that critics look past, since what followed was not seen.
    """
    found = []
    for episode in as_taught(episodes, run):
        following = np.append(episode.observations[1:], episode.observations[-1:], axis=0)
        ends = np.array(episode.continues)
        if episode.cut and time_limit_ends(run):
            ends[-1] = 0.0
        rewards = np.zeros_like(ends)
        numbers = np.stack([rewards, episode.costs, rewards, ends], axis=1)
        rows = np.concatenate([episode.observations, episode.actions, numbers, following], axis=1)
        found.append(rows[:-1] if ends[-1] else rows)
    return np.concatenate(found).astype(np.float32)


def gaps_after(
    folder: Path,
    steps: Sequence[int],
    counts: Sequence[int],
    episodes: int,
    own: int = 0,
    env: Environment | None = None,
) -> Iterator[dict[str, Any]]:
    """By snapshot and number of updates; the first of a snapshot is with none."""
    stored = read_run(folder)
    run, learner, subject = stored.run, costs_only(stored), subject_of(folder, stored)
    rows = replay_rows(folder, stored)
    environments = open_several(task_of(run, env), episodes)
    seeds = [episode_seed(Plan().seed, index) for index in range(episodes + own)]
    judging, teaching = seeds[:episodes], seeds[episodes:]
    for step in steps:
        state = subject.read(step)
        visited = play(subject.acting(state, judging[0]), environments, judging, run.horizon)
        oracle = oracle_of(as_taught(visited, run), run.config.cost_discount, time_limit_ends(run))
        known = describe_oracle(oracle)
        held = rows[: run.schedule.warmup_steps + step]
        if own:
            act = subject.acting(state, teaching[0])
            taught = play(act, environments, teaching, run.horizon)
            held = np.concatenate([held, rows_of(taught, run)])
        generator, done = np.random.default_rng(step), 0
        for count in (0, *counts):
            while done < count:
                drawn = distinct(generator, len(held), AT_ONCE, run.schedule.batch_size)
                state, _ = learner.update(
                    jax.device_put(state), {"rows": held[drawn], "first": np.int32(0)}, done
                )
                done += AT_ONCE
            line = describe_gap(visited, oracle, subject.estimating(state))
            yield {
                **{name: getattr(run, name) for name in ("algorithm", "task", "seed")},
                "step": step,
                "updates": count,
                "own_episodes": own,
                **{name: known[name] for name in ("oracle", "oracle_interval")},
                **{name: line[name] for name in ("estimate", "gap", "gap_interval")},
                "start_spread": line["start_spread"],
            }


def table(paths: Sequence[Path]) -> str:
    """A row per snapshot, a column per number of updates; then the mean size of the gap."""
    lines = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    counts = sorted({line["updates"] for line in lines})
    runs: dict[str, dict[int, dict[int, Any]]] = {}
    for line in lines:
        own = f", {line['own_episodes']} episodes more" if line["own_episodes"] else ""
        run = runs.setdefault(f"{line['algorithm']}, seed {line['seed']}{own}", {})
        found = run.setdefault(line["step"], {})
        if line["updates"] in found:
            raise SystemExit(f"two lines of {line['algorithm']}, step {line['step']}: two runs?")
        found[line["updates"]] = line
    rows = []
    for name, snapshots in runs.items():
        for step, found in sorted(snapshots.items()):
            gaps = [f"{found[count]['gap']:.1f}" if count in found else "-" for count in counts]
            rows.append([name, f"{step:,}", f"{found[0]['oracle']:.1f}", *gaps])
        rows.append([name, "mean size", "", *(mean_size(snapshots, count) for count in counts)])
    after = (f"after {count:,} updates" if count else "gap" for count in counts)
    return markdown(["run", "snapshot", "oracle", *after], rows)


def mean_size(snapshots: dict[int, dict[int, Any]], count: int) -> str:
    if not all(count in found for found in snapshots.values()):
        return "-"
    return f"{np.mean([abs(found[count]['gap']) for found in snapshots.values()]):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("run", type=Path)
    measuring.add_argument("--steps", type=int, nargs="+", required=True)
    measuring.add_argument("--updates", type=int, nargs="+", default=[10_000, 40_000])
    measuring.add_argument("--episodes", type=int, default=100)
    measuring.add_argument("--own", type=int, default=0)
    commands.add_parser("table").add_argument("paths", type=Path, nargs="+")
    options = parser.parse_args()
    if options.command == "table":
        print(table(options.paths))
        return
    counts = sorted(options.updates)
    if any(count % AT_ONCE for count in counts):
        parser.error(f"--updates must be multiples of {AT_ONCE}")
    for line in gaps_after(options.run, options.steps, counts, options.episodes, options.own):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
