"""What `prudent report` takes on 200 runs of 300 evaluations: seconds, memory, size of the page.

    python benchmarks/report.py

Makes the runs up in a temporary folder, reports them in a process of its own, and sets what that
took beside the targets and beside merely reading the same records in the same minute.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

TASKS = (
    "point-button1", "point-button2", "car-button1", "car-button2", "point-push1",
    "ant-velocity", "halfcheetah-velocity", "hopper-velocity", "humanoid-velocity",
)  # fmt: skip
ALGORITHMS = ("cal", "sac-pid", "wcsac", "cvpo")
SEEDS = 6
SECONDS, BYTES, PAGE = 20.0, 1e9, 6e6  # the targets
READ = (
    "import sys\nfrom pathlib import Path\nfrom prudent.report.folders import collect\n"
    "assert len(collect([Path(sys.argv[1])])) == int(sys.argv[2])"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--evaluations", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs, out = Path(folder) / "runs", Path(folder) / "report"
        make_runs(runs, options.runs, options.evaluations)
        size = sum(path.stat().st_size for path in runs.rglob("*.json*"))
        print(f"{options.runs} runs of {options.evaluations} evaluations, {size / 1e6:.0f} MB")
        reading = measure([sys.executable, "-c", READ, str(runs), str(options.runs)])
        reporting = measure(
            [sys.executable, "-m", "prudent", "report", str(runs), "--out", str(out)]
        )
        page = (out / "index.html").stat().st_size
        figures = len(list((out / "figures").iterdir()))
    print(f"{'':<28}{'measured':>12}{'target':>12}")
    for name, found, target, unit in (
        ("report: seconds", reporting["seconds"], SECONDS, "s"),
        ("report: peak memory", reporting["memory"] / 1e6, BYTES / 1e6, "MB"),
        ("page", page / 1e6, PAGE / 1e6, "MB"),
    ):
        print(f"{name:<28}{found:>9.1f} {unit:<2}{target:>9.0f} {unit:<2}")
    ratio = reporting["seconds"] / reading["seconds"]
    print(
        f"merely reading the records  {reading['seconds']:>9.1f} s  (the report: {ratio:.1f} times)"
    )
    print(
        f"processor time: report {reporting['processor']:.1f} s, reading "
        f"{reading['processor']:.1f} s; {figures} figures; "
        f"{os.getloadavg()[0]:.1f} processes wanted the machine's {os.cpu_count()} cores"
    )
    within = (reporting["seconds"] < SECONDS, reporting["memory"] < BYTES, page < PAGE)
    sys.exit(0 if all(within) else 1)


def measure(command: list[str]) -> dict[str, float]:
    """A process of its own, so that its peak memory is its own."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    if status:
        sys.exit(f"failed: {' '.join(command)}")
    return {
        "seconds": seconds,
        "processor": usage.ru_utime + usage.ru_stime,
        "memory": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
    }


def make_runs(folder: Path, count: int, evaluations: int) -> None:
    """Over nine tasks and four algorithms, six seeds each, with all that reports can show."""
    generator = np.random.default_rng(0)
    cases = [(t, a, s) for a in ALGORITHMS for t in TASKS for s in range(SEEDS)]
    if count > len(cases):
        sys.exit(f"at most {len(cases)} runs")
    for task, algorithm, seed in cases[:count]:
        make_run(folder / task / algorithm / f"seed-{seed}", (task, algorithm, seed), evaluations,
                 generator)  # fmt: skip


def make_run(
    folder: Path, case: tuple[str, str, int], evaluations: int, generator: np.random.Generator
) -> None:
    task, algorithm, seed = case
    folder.mkdir(parents=True)
    steps = 1000 * np.arange(evaluations)
    run = {
        "algorithm": algorithm, "task": task, "preset": "paper", "seed": seed, "budget": 10.0,
        "discounted": False, "horizon": 400, "warmup": "untrained",
        "config": {f"setting_{index}": index for index in range(20)},
        "schedule": {"steps": int(steps[-1])},
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps({"format": 2, "run": run}))
    # As training writes it: where every reset is alike, one greedy episode and ten sampled ones.
    alike = not task.endswith("-velocity")

    def tested(episodes: int) -> dict[str, object]:
        returns, costs = generator.normal(20.0, 9.0, episodes), generator.gamma(2.0, 4.0, episodes)
        return {
            "return": returns.mean(), "cost": costs.mean(), "length": 400.0,
            "within_budget": float(np.mean(costs <= 10.0)), "returns": returns.tolist(),
            "costs": costs.tolist(), "lengths": [400] * episodes,
        }  # fmt: skip

    write(folder / "progress.jsonl", [
        {"step": int(step), "evaluation": tested(1 if alike else 10),
         **({"sampled_evaluation": tested(10)} if alike else {}),
         "training": {"ensemble_spread": generator.gamma(2.0), "multiplier": 0.5 + index},
         "window_seconds": 9.0}
        for index, step in enumerate(steps)
    ])  # fmt: skip
    episodes = generator.gamma(2.0, 6.0, size=2 * evaluations).tolist()
    write(folder / "episodes.jsonl", [
        {"step": 500 * index, "phase": "training", "return": 1.0, "cost": cost, "length": 400}
        for index, cost in enumerate(episodes)
    ])  # fmt: skip
    gaps = generator.normal(size=20).tolist()
    write(folder / "diagnostics.jsonl", [
        {"step": 10_000 * index, "format": 1, "snapshot": "made up", "gap": gap, "dual_gap": gap}
        for index, gap in enumerate(gaps)
    ])  # fmt: skip


def write(path: Path, entries: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


if __name__ == "__main__":
    main()
