"""Change the package line by line and see whether the fast tests notice: `make mutants`.

The changes stand in `changes.txt` beside this file. Each is made alone in a copy of the tree, in
which those test files run that stand below for its path; the first failure ends them. What survives
is listed at the end, and counted by room. `--only ID ...` tries some of them, `--out FILE` keeps
results as they come and skips those it has, `--jobs 2` makes two at once.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
LONGEST = 600  # seconds for one change; a hang is noticed too
IGNORED = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "runs", "*.egg-info"
)

# By the longest beginning of a path that fits: quick and near ones first.
STEPS = "test_settings_table test_settings_felt"
ON_POLICY = "test_settings_table test_on_policy_steps test_settings_felt test_seams"
LOOPS = "test_loops test_seams test_training test_schedule"
TESTS = {
    "prudent/algorithms/": ON_POLICY,
    "prudent/algorithms/cal.py": f"test_cal {STEPS}",
    "prudent/algorithms/sac_lag.py": f"test_cal {STEPS}",
    "prudent/algorithms/sac_pid.py": f"test_sac_pid {STEPS}",
    "prudent/algorithms/wcsac.py": f"test_wcsac {STEPS}",
    "prudent/algorithms/cvpo.py": f"test_cvpo {STEPS}",
    "prudent/algorithms/crpo.py": f"{ON_POLICY} test_on_policy",
    "prudent/algorithms/cup.py": f"test_seams {ON_POLICY}",
    "prudent/algorithms/entry.py": "test_settings_table test_presets test_registration",
    "prudent/algorithms/presets.py": "test_settings_table",
    "prudent/algorithms/on_policy_presets.py": "test_settings_table",
    "prudent/pieces/": f"test_advantages test_surrogates test_trust_region {ON_POLICY}",
    "prudent/pieces/on_policy.py": f"test_seams {ON_POLICY}",
    "prudent/pieces/critics.py": "test_seams test_critics test_cal test_wcsac test_identities",
    "prudent/pieces/networks.py": "test_settings_table test_networks test_cal",
    "prudent/pieces/policies.py": "test_settings_table test_policies test_cvpo",
    "prudent/pieces/multipliers.py": "test_multipliers test_cal test_wcsac",
    "prudent/pieces/soft.py": "test_sac_pid test_cal",
    "prudent/pieces/dual.py": "test_dual test_cal",
    "prudent/pieces/variational.py": "test_variational test_cvpo",
    "prudent/pieces/improvement.py": f"test_improvement test_seams {ON_POLICY}",
    "prudent/pieces/fast.py": "test_cal test_trust_region",
    "prudent/pieces/types.py": "test_cal test_replay",
    "prudent/settings/run.py": "test_identities test_certify test_settings_table test_schedule",
    "prudent/settings/schedules.py": "test_settings_table test_schedule test_presets",
    "prudent/settings/configs.py": "test_settings_table test_schedule test_presets",
    "prudent/settings/checks.py": "test_settings test_errors test_presets",
    "prudent/settings/registration.py": "test_registration",
    "prudent/statistics.py": "test_tables test_seams test_certify",
    "prudent/files.py": "test_files test_lock test_checkpoint",
    "prudent/policies/exported.py": "test_export_onnx test_export test_policies",
    "prudent/policies/onnx_model.py": "test_export_onnx",
    "prudent/certification/": "test_certify",
    "prudent/cli/": "cli",
    "prudent/agent.py": "test_api test_agent",
    "prudent/api.py": "test_api test_presets test_errors test_policies",
    "prudent/report/": "test_records test_stored test_groups test_tables test_figures",
    "prudent/training/": LOOPS,
    "prudent/training/run.py": "test_agent test_folder test_loops",
    "prudent/runs/checkpoint.py": "test_checkpoint test_loops test_resume",
    "prudent/runs/folder.py": "test_folder test_loops test_schedule test_resume",
    "prudent/runs/lines.py": "test_lines test_files test_loops",
    "prudent/runs/lock.py": "test_lock",
    "prudent/runs/prolong.py": "test_prolong test_agent",
    "prudent/training/epoch_collector.py": "test_loops test_seams test_on_policy",
    "prudent/training/on_policy.py": "test_loops test_on_policy",
    "prudent/training/learner.py": "test_learner test_training",
    "prudent/pieces/normaliser.py": "test_normaliser test_on_policy",
    "prudent/policies/policy.py": "test_seams test_policies",
    "prudent/training/replay.py": "test_replay test_loops",
    "prudent/training/reporter.py": "test_reporter",
    "prudent/training/warmup.py": "test_warmup test_seams",
    "prudent/tasks/": "test_seams test_loops test_tasks test_environments test_settings_table",
    "prudent/tasks/costs.py": "test_seams test_environments",
    "prudent/tasks/adapter.py": "test_seams test_environments test_errors",
    "prudent/tasks/navigation/": "test_seams navigation",
}


class Change(NamedTuple):
    id: str
    path: str
    why: str
    old: str
    new: str


def read_changes(path: Path) -> list[Change]:
    """Blocks of a heading, lines that begin with `- ` and lines that begin with `+ `."""
    found = []
    for block in path.read_text().split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        name, place, why = lines[0].split(maxsplit=2)
        old, new = ("\n".join(line[2:] for line in lines[1:] if line[:1] == sign) for sign in "-+")
        found.append(Change(name, place, why, old, new))
    repeated = [name for name, count in Counter(c.id for c in found).items() if count > 1]
    if repeated:
        sys.exit(f"{path}: twice: {', '.join(repeated)}")
    return found


def outdated(changes: list[Change], root: Path) -> list[str]:
    """Those whose old text is not, or no longer, exactly once in the file."""
    return [c.id for c in changes if (root / c.path).read_text().count(c.old) != 1]


def tests_for(path: str, first: int | None) -> list[str]:
    beginning = max((b for b in TESTS if path.startswith(b)), key=len)
    names = list(dict.fromkeys(TESTS[beginning].split()))[:first]
    return [f"tests/{n}" if n in ("navigation", "cli") else f"tests/{n}.py" for n in names]


def room(path: str) -> str:
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else "the rim"


class Copy(NamedTuple):
    """A tree of its own to change and test."""

    folder: Path
    left_out: tuple[str, ...]  # tests that fail already, which can notice nothing

    def test(self, tests: list[str]) -> "Outcome":
        began = time.monotonic()
        words = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", *tests]
        words += [f"--deselect={test}" for test in self.left_out]
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.folder),
            "PYTHONDONTWRITEBYTECODE": "1",  # two changes in one second would share their bytecode
        }
        try:
            done = subprocess.run(
                words, cwd=self.folder, env=environment, capture_output=True, text=True,
                timeout=LONGEST,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Outcome(False, "took too long", time.monotonic() - began)
        lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        if done.returncode < 0:  # a signal that nobody caught
            return Outcome(False, f"killed by signal {-done.returncode}", time.monotonic() - began)
        # 0: all passed, 1: some failed, 2: interrupted by an error while collecting.
        if done.returncode > 2:
            sys.exit(f"pytest could not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        said = lines[0] if lines else done.stdout[-300:]
        return Outcome(done.returncode == 0, said, time.monotonic() - began)


class Outcome(NamedTuple):
    passed: bool
    said: str
    seconds: float


def copied(to: Path, cache: Path, left_out: tuple[str, ...]) -> Copy:
    """The tree, its compilation cache outside of it so that it lasts."""
    shutil.copytree(ROOT, to, ignore=IGNORED)
    cache.mkdir(parents=True, exist_ok=True)
    (to / ".pytest_cache").symlink_to(cache)
    return Copy(to, left_out)


def attempt(copy: Copy, change: Change, first: int | None) -> dict[str, Any]:
    path = copy.folder / change.path
    whole = path.read_text()
    path.write_text(whole.replace(change.old, change.new))
    try:
        outcome = copy.test(tests_for(change.path, first))
    finally:
        path.write_text(whole)
    return {
        "noticed": not outcome.passed,
        "by": "" if outcome.passed else outcome.said,
        "seconds": round(outcome.seconds, 1),
        "old": change.old,
        "new": change.new,
    }


def summary(changes: list[Change], results: dict[str, Any]) -> str:
    rows = ["room                  noticed  survived  not run"]
    rooms = list(dict.fromkeys(room(c.path) for c in changes))
    for name in (*rooms, "all"):
        found = [results.get(c.id) for c in changes if name in (room(c.path), "all")]
        noticed = sum(bool(r and r["noticed"]) for r in found)
        missing = sum(r is None for r in found)
        rows.append(f"{name:<20} {noticed:>8} {len(found) - noticed - missing:>9} {missing:>8}")
    survivors = [c for c in changes if c.id in results and not results[c.id]["noticed"]]
    rows += [f"survived: {c.id} ({c.path}): {c.why}" for c in survivors]
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="ID", help="only these")
    parser.add_argument("--out", type=Path, help="keep results in this file, skip those it has")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="only look whether the list fits")
    parser.add_argument("--unchecked", action="store_true", help="trust that the tests pass now")
    parser.add_argument("--deselect", nargs="+", default=[], metavar="TEST", help="leave these out")
    parser.add_argument("--first", type=int, metavar="N", help="only the N nearest test files")
    options = parser.parse_args()
    left_out = tuple(options.deselect)
    changes = read_changes(HERE / "changes.txt")
    stale = outdated(changes, ROOT)
    if stale:
        print(f"their old text is not exactly once in the file: {', '.join(stale)}")
    if options.check:
        print(f"{len(changes)} changes, {len(changes) - len(stale)} of which fit")
        sys.exit(bool(stale))
    unknown = set(options.only or ()) - {c.id for c in changes}
    if unknown:
        sys.exit(f"no change named {', '.join(sorted(unknown))}")
    results = json.loads(options.out.read_text()) if options.out and options.out.exists() else {}
    results = {  # of changes that are still what they were
        c.id: results[c.id] for c in changes
        if c.id in results and (results[c.id]["old"], results[c.id]["new"]) == (c.old, c.new)
    }  # fmt: skip
    wanted = [c for c in changes if not options.only or c.id in options.only]
    waiting = [c for c in wanted if c.id not in results and c.id not in stale]
    with tempfile.TemporaryDirectory(prefix="prudent-mutants-") as folder:
        caches = [ROOT / ".pytest_cache" / f"mutants-{job}" for job in range(options.jobs)]
        copies: SimpleQueue[Copy] = SimpleQueue()
        first = copied(Path(folder) / "0", caches[0], left_out)
        if waiting and not options.unchecked:
            needed = sorted({test for c in waiting for test in tests_for(c.path, options.first)})
            print(f"unchanged, {len(needed)} test files ...", flush=True)
            outcome = first.test(needed)
            if not outcome.passed:
                sys.exit(f"these must pass before anything is changed: {outcome.said}")
            print(f"passed in {outcome.seconds:.0f} s", flush=True)
        copies.put(first)
        for job in range(1, options.jobs):
            if not caches[job].exists():
                shutil.copytree(caches[0], caches[job])
            copies.put(copied(Path(folder) / str(job), caches[job], left_out))

        def one(change: Change) -> None:
            copy = copies.get()
            try:
                results[change.id] = found = attempt(copy, change, options.first)
            finally:
                copies.put(copy)
            word = "noticed " if found["noticed"] else "SURVIVED"
            print(f"{word} {change.id:<28} {found['seconds']:>6} s  {found['by'][:90]}", flush=True)
            if options.out:
                partial = options.out.with_suffix(".partial")
                partial.write_text(json.dumps(dict(results), indent=1) + "\n")
                partial.replace(options.out)

        with ThreadPoolExecutor(options.jobs) as pool:
            for done in [pool.submit(one, change) for change in waiting]:
                done.result()
    print(summary(wanted, results))


if __name__ == "__main__":
    main()
