"""Short runs of the version before and of this tree, whose records must be equal to the byte.

    make goldens
    python tests/goldens/compare.py --only cal wcsac

The version before is the commit named in `before.txt`, built as a wheel below `.goldens/` and run
there with the same packages. Its records are kept, since a commit computes the same every time on
one machine; those of the tree are made anew. Fields that depend on the clock are left out.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import tyro

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BEFORE = (HERE / "before.txt").read_text().strip()
RECORDS = ("progress.jsonl", "episodes.jsonl")
# Set by whoever runs this, they would change how small networks round.
FLAGS = ("XLA_", "JAX_", "OMP_", "OPENBLAS_", "MKL_")

OFF_POLICY = {
    "cal": ("head", "paper", "default"),
    "ucb": ("head", "paper", "default"),
    "sac-lag": ("head", "paper", "default"),
    "sac": ("head", "paper", "default"),
    "sac-pid": ("paper", "matched", "default"),
    "wcsac": ("paper", "matched", "default"),
    "cvpo": ("paper", "matched", "default"),
}
ON_POLICY = ("pdo", "rcpo", "ipo", "crpo", "cup", "ppo-lag", "cppo-pid", "ppo")
# A few hundred updates after a warm-up that fills the largest batch.
SHORT = (
    "--steps 40 --warmup-steps 320 --evaluate-every 20 --snapshot-every 40 --checkpoint-every 20"
)
BLOCKS = "--update-unit steps --update-every 20 --updates-per-step 1"
EPOCHS = "--steps 3000 --epoch-steps 1000 --evaluate-every 1000"
# So many steps that finished episodes move the budget.
CALIBRATED = (
    "--steps 170 --warmup-steps 40 --updates-per-step 2 --evaluate-every 85 "
    "--calibration episodes --calibration-episodes 1"
)
VARIED = {
    "cal-calibrated": f"cal --task hopper-velocity --preset head {CALIBRATED}",
    "cal-recent-bounded": f"cal --task hopper-velocity --preset head {CALIBRATED} "
    "--dual-states recent --recent-steps 60 --cost-bounds task",
    "sac-lag-calibrated": f"sac-lag --task hopper-velocity --preset head {CALIBRATED}",
    "ucb-calibrated": f"ucb --task hopper-velocity --preset head {CALIBRATED}",
    "cal-random-targets": f"cal --task hopper-velocity {SHORT} --random-targets 2 --batch-size 48",
    "cal-one-critic": f"cal --task hopper-velocity {SHORT} --cost-critics 1 "
    "--multiplier softplus_adam --target-steps 3",
    "cal-projected": f"cal --task hopper-velocity {SHORT} --multiplier projected_sgd "
    "--rescale-policy-loss --target-period 3 --target-counter global",
    "cal-inner-period": f"cal --task hopper-velocity {SHORT} --target-period 3 "
    "--dual-action policy --dual-states recent --recent-steps 100",
    "cal-orbit": "cal --task orbit --steps 120 --warmup-steps 200 --evaluate-every 60",
    "cal-navigation": f"cal --task point-button1 {SHORT}",
    "cal-skid": "cal --task skid --steps 60 --warmup-steps 200 --evaluate-every 60",
    "sac-pid-orbit": "sac-pid --task orbit --steps 120 --warmup-steps 320 --evaluate-every 60",
    "wcsac-orbit": "wcsac --task orbit --steps 120 --warmup-steps 320 --evaluate-every 60",
    "cvpo-orbit": "cvpo --task orbit --steps 60 --warmup-steps 320 --evaluate-every 60",
    "ppo-lag-many": f"ppo-lag --task hopper-velocity {EPOCHS} --environments 2 --epoch-steps 2000 "
    "--steps 4000 --normalise-reward --normalise-cost",
}
SEMI_BATCH = (
    "cal --task hopper-velocity --deployments 2 --steps-per-deployment 1000 "
    "--updates-per-deployment 60 --calibration episodes --calibration-episodes 1"
)


class Case(NamedTuple):
    name: str
    words: str  # of the command line, but for the folder
    resumed: bool = False  # whether the tree also goes on with the run of the version before


def cases() -> Iterator[Case]:
    for algorithm, presets in OFF_POLICY.items():
        blocks = "" if presets[0] == "head" else BLOCKS
        for preset in presets:
            words = f"train {algorithm} --task hopper-velocity --preset {preset} {SHORT} {blocks}"
            yield Case(f"{algorithm}-{preset}", words, preset == "default")
    for algorithm in ON_POLICY:
        for preset in ("paper", "million", "default"):
            words = f"train {algorithm} --task hopper-velocity --preset {preset} {EPOCHS}"
            yield Case(f"{algorithm}-{preset}", words, preset == "default")
    for name, words in VARIED.items():
        yield Case(name, f"train {words}", "calibrat" in name)
    yield Case("semi-batch", f"semi-batch {SEMI_BATCH}", resumed=True)


@dataclass(frozen=True)
class Options:
    only: tuple[str, ...] = ()
    """Only cases whose name begins with one of these."""
    jobs: int = 2
    """Runs at once."""
    out: Path = ROOT / ".goldens"


def main() -> None:
    options = tyro.cli(Options, prog="python tests/goldens/compare.py", description=__doc__)
    wanted = [c for c in cases() if not options.only or c.name.startswith(options.only)]
    if not wanted:
        sys.exit(f"no case begins with {' or '.join(options.only)}")
    out = options.out.resolve() / BEFORE
    before = wheel_before(out)
    new = out / "tree"
    shutil.rmtree(new, ignore_errors=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        verdicts = list(pool.map(lambda case: judge(case, out, before), wanted))
    different = [case.name for case, same in zip(wanted, verdicts, strict=True) if not same]
    print(f"{len(wanted) - len(different)} of {len(wanted)} cases are equal")
    if different:
        sys.exit(f"different: {' '.join(different)}")


def wheel_before(out: Path) -> Path:
    """The folder of the version before, installed from its wheel."""
    site = out / "site"
    if not (site / "prudent").exists():
        source = out / "source"
        source.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(
            ["git", "archive", BEFORE], cwd=ROOT, check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "-x"], cwd=source, input=archive, check=True)
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "wheel", "--no-deps", "-w", out, source], check=True)
        (wheel,) = out.glob("*.whl")
        subprocess.run([*pip, "install", "--no-deps", "--target", site, wheel], check=True)
    return site


def judge(case: Case, out: Path, before: Path) -> bool:
    """Whether the tree's records are those of the version before, from the start or half way."""
    old, new = out / "before" / case.name, out / "tree" / case.name
    if not (old / "done").exists():
        shutil.rmtree(old, ignore_errors=True)
        run([*case.words.split(), "--out", str(old / "run")], before, old)
        (old / "done").touch()
    folders = [new / "run"]
    run([*case.words.split(), "--out", str(folders[0])], ROOT, new)
    if case.resumed:
        folders.append(shutil.copytree(old / "run", new / "resumed"))
        newest = max((folders[1] / "checkpoints").glob("step-*.json"))
        newest.unlink()  # so that there is something to do from the one before
        run(["resume", str(folders[1])], ROOT, new)
    wrong = [complaint for each in folders for complaint in differences(old / "run", each)]
    print("\n".join([f"{case.name}: {'different' if wrong else 'equal'}", *wrong]), flush=True)
    return not wrong


def run(words: Sequence[str], code: Path, where: Path) -> None:
    where.mkdir(parents=True, exist_ok=True)
    environment = {n: v for n, v in os.environ.items() if not n.startswith(FLAGS)}
    result = subprocess.run(
        [sys.executable, "-m", "prudent", *words, "--quiet"],
        cwd=where,  # so that the checkout is not what is imported
        env={**environment, "PYTHONPATH": str(code)},
        capture_output=True,
        text=True,
    )
    if result.returncode:
        raise RuntimeError(f"prudent {' '.join(words)}\n{result.stdout}{result.stderr}")


def differences(old: Path, new: Path) -> Iterator[str]:
    for name in RECORDS:
        pair = [[timeless(line) for line in lines(folder / name)] for folder in (old, new)]
        if len(pair[0]) != len(pair[1]):
            yield f"  {new.name}/{name}: {len(pair[0])} lines before, {len(pair[1])} now"
        unequal = [i for i, (a, b) in enumerate(zip(*pair, strict=False)) if a != b]
        if unequal:
            first = unequal[0]
            parts = [k for k in pair[0][first] if pair[0][first][k] != pair[1][first].get(k)]
            yield f"  {new.name}/{name}: line {first + 1} differs in {', '.join(parts)}"


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def timeless(line: dict[str, object]) -> dict[str, object]:
    """Without what depends on the clock."""
    return {k: v for k, v in line.items() if not k.endswith(("_seconds", "_per_second"))}


if __name__ == "__main__":
    main()
