"""Bidding of two versions of the library, compared: `python tests/goldens/bidding.py FOLDER`.

    make FOLDER [NAME ...]   run the commands below (or those named) with this interpreter and the
                             version of the library that PYTHONPATH names
    compare BEFORE AFTER     compare two such folders; exits with 1 and the names of what differs

Simulated and imported Parquet files must be equal to the byte. What learners wrote is compared by
its numbers: checksums in it name policy files, whose headers may change between versions.
"""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load_file

SMALL = "--preset smoke --weeks 2 --updates 64 --hidden 16 16 --quiet --processes 1"
COMMANDS = {
    "simulate": "simulate --preset smoke --weeks 2 --policy incumbent constant:0.85 feedback:0.9 "
    "dual:1 informed:0.85 --out simulated --processes 1 --quiet",
    "isolated": "simulate --preset smoke --seed 3 --policy incumbent constant:1.1 --assignment "
    "isolated --no-oracle-rows --out isolated --processes 1 --quiet",
    "hard": "simulate --preset hard --weeks 1 --out hard --quiet --no-oracle-rows",
    "calibrate": "calibrate --preset smoke --seeds 0 --policy incumbent --json",
    "inspect": "inspect simulated --json",
    "import": "import log.csv --out imported",
    "auctionnet": "import auctionnet.csv --format auctionnet --out auctionnet",
    "fit": "fit cal --data simulated --weeks 0 1 --out fits/1 --updates 96 --hidden 16 16",
    "fit-on": "fit cal --data simulated --weeks 0 1 --out fits/2 --updates 96 --hidden 16 16 "
    "--init-from fits/1",
    "fit-imported": "fit wcsac --data imported --gmv realised --out fits/3 --updates 32 "
    "--hidden 16 --strategy stratified",
    "run": f"run {SMALL} --algorithms cal cup sac-lag --references constant:0.7 constant:0.9 "
    "feedback:0.9 behaviour-cloning --out runs/world-0",
    "run-1": f"run {SMALL} --algorithms cal cup sac-lag --references constant:0.7 constant:0.9 "
    "feedback:0.9 behaviour-cloning --out runs/world-1 --world-seed 1",
    "ratio": f"run {SMALL} --algorithms cal --references constant:0.9 --form ratio --gmv realised "
    "--multiplier-scope group --deployed greedy --out runs/ratio",
    "advertiser": f"run {SMALL} --algorithms ucb --references constant:0.9 --multiplier-scope "
    "advertiser --constraint-at accumulated --history own --strategy advertiser_balanced "
    "--assignment weekly --out runs/advertiser",
    "compare": "compare runs/world-0 runs/world-1 --out compared --keep kept",
}  # fmt: skip
CLOCKS = {"seconds", "train_seconds", "simulation_seconds", "train (s)", "simulate (s)"}
CHECKSUMS = {"sha256", "policy_sha256", "carried_in", "carried_out", "manifests", "goes_on_from"}
SIMULATED = ("simulated", "isolated", "hard", "imported", "auctionnet")


def make(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_logs(folder)
    for name in names or COMMANDS:
        print(name, flush=True)
        command = [sys.executable, "-m", "prudent", "bidding", *COMMANDS[name].split()]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ)
        if done.returncode:
            sys.exit(f"{name}: {done.stderr}")
        (folder / f"{name}.stdout").write_text(done.stdout)


def write_logs(folder: Path) -> None:
    """A log of our own format and one of AuctionNet's, from fixed random numbers."""
    draw = np.random.default_rng(0)
    rows = 600
    advertiser = draw.integers(5, 11, rows)
    pay = np.round(draw.gamma(1.0, 0.1, rows), 3)
    log = {
        "week": draw.integers(0, 2, rows), "day": draw.integers(0, 7, rows),
        "hour": np.round(draw.uniform(0, 23.9, rows), 2), "advertiser": advertiser,
        "target_roi": 1.5 + 0.25 * advertiser, "budget": 40.0 + advertiser,
        "pctr": np.round(draw.uniform(0.01, 0.1, rows), 4),
        "pcvr": np.round(draw.uniform(0.01, 0.2, rows), 4),
        "pgmv": 50.0 + draw.integers(0, 9, rows),
        "k": np.round(draw.uniform(0.6, 1.4, rows), 3), "pay": pay,
        "gmv": np.where(draw.random(rows) < 0.2, 8.0, 0.0),
    }  # fmt: skip
    write_csv(folder / "log.csv", log)
    tick = np.repeat(np.arange(48), 8)
    count = len(tick)
    requests = {
        "deliveryPeriodIndex": np.full(count, 7), "advertiserNumber": np.tile([1, 2], count // 2),
        "advertiserCategoryIndex": np.tile([0, 3], count // 2), "budget": np.full(count, 500.0),
        "CPAConstraint": np.tile([20.0, 30.0], count // 2), "timeStepIndex": tick,
        "pValue": np.round(draw.uniform(0.001, 0.01, count), 5),
        "bid": np.round(draw.uniform(0.01, 0.4, count), 4), "xi": draw.integers(0, 2, count),
    }  # fmt: skip
    requests["cost"] = np.round(requests["bid"] * 0.9, 4)
    requests["isExposed"] = requests["xi"] * draw.integers(0, 2, count)
    requests["conversionAction"] = requests["isExposed"] * (draw.random(count) < 0.1)
    requests["isEnd"] = np.zeros(count, int)
    write_csv(folder / "auctionnet.csv", requests)


def write_csv(path: Path, table: dict[str, np.ndarray]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))


def without(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {n: without(v, names) for n, v in value.items() if n not in names}
    return [without(each, names) for each in value] if isinstance(value, list) else value


def content(path: Path, exact: bool) -> Any:
    """What of a file has to be equal."""
    match path.suffix:
        case ".parquet" if not exact:
            table = pq.read_table(path, partitioning=None)
            return {name: table[name].to_numpy().tobytes() for name in table.column_names}
        case ".json":
            found = json.loads(path.read_bytes())
            return without(found, CLOCKS if exact else CLOCKS | CHECKSUMS | {"shards", "row_bytes"})
        case ".safetensors":
            return {name: array.tobytes() for name, array in load_file(path).items()}
        case ".csv":
            rows = list(csv.DictReader(path.open()))
            return without(rows, CLOCKS)
    return path.read_bytes()


def kept(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        left_out = {"checkpoints", "cache", "policies"} & set(inside.parts)
        written_by_clock = path.name in ("tables.md", "index.html", "fit-plan.json", "plan.json")
        if path.is_file() and not left_out and not written_by_clock and path.name != ".lock":
            yield inside


def differences(before: Path, after: Path) -> list[str]:
    names = [set(kept(folder)) for folder in (before, after)]
    wrong = [f"{name} is in one only" for name in sorted(names[0] ^ names[1])]
    for name in sorted(names[0] & names[1]):
        exact = name.parts[0] in SIMULATED
        try:
            equal = content(before / name, exact) == content(after / name, exact)
        except (OSError, ValueError, pa.ArrowException) as error:
            wrong.append(f"{name} cannot be read ({error})")
            continue
        if not equal:
            wrong.append(f"{name} differs")
    print(f"{len(names[0])} files compared")
    return wrong


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]), sys.argv[3:])
    else:
        found = differences(Path(sys.argv[2]), Path(sys.argv[3]))
        print("\n".join(found[:40]) or "equal")
        sys.exit(1 if found else 0)
