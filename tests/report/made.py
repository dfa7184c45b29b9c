"""Made-up run folders, and the runs below a folder."""

import json

from prudent.report.folders import collect
from prudent.report.groups import by_task
from prudent.report.records import (
    read_record,
)


def write_folder(
    folder, seed, algorithm="cal", task="orbit", steps=(0, 10, 20), sampled=None, about=(), **run
):
    """Settings can be given by name; `about` is what run.json holds beside them."""
    folder.mkdir()
    run = {
        "algorithm": algorithm, "task": task, "preset": "default", "seed": seed, "budget": 5.0,
        "discounted": False,
    } | run  # fmt: skip
    (folder / "run.json").write_text(json.dumps({"run": run, **dict(about)}))
    progress = [
        {
            "step": step,
            "evaluation": {"return": step + seed, "cost": 4.0, "length": 7, "within_budget": 1.0},
            "window_seconds": 1800.0,
        }
        for step in steps
    ]
    if sampled is not None:
        for line in progress:
            line["sampled_evaluation"] = {**line["evaluation"], "cost": sampled}
    episodes = [{"step": -1, "phase": "warmup", "cost": 99.0}]
    episodes += [{"step": s, "phase": "training", "cost": float(s)} for s in range(8)]
    for name, entries in (("progress", progress), ("episodes", episodes)):
        text = "".join(json.dumps(entry) + "\n" for entry in entries)
        (folder / f"{name}.jsonl").write_text(text)
    return read_record(folder)


def write_run(folder, seed=0, algorithm="cal", task="orbit", steps=(0, 10, 20), **more):
    """`more`: `planned` steps, `gap`, `spread`, `format`; anything else is a setting."""
    folder.mkdir(parents=True)
    planned, gap = more.pop("planned", 20), more.pop("gap", None)
    spread, layout = more.pop("spread", 0.0), more.pop("format", 2)
    run = {
        "algorithm": algorithm, "task": task, "preset": "default", "seed": seed, "budget": 5.0,
        "discounted": False, "schedule": {"steps": planned},
    } | more  # fmt: skip
    (folder / "run.json").write_text(json.dumps({"format": layout, "run": run}))
    tested = {"cost": 4.0, "length": 7, "within_budget": 1.0}
    write(folder, "progress", [
        {"step": step, "evaluation": {"return": step + seed, **tested}, "window_seconds": 1800.0,
         "training": {"ensemble_spread": spread * step}}
        for step in steps
    ])  # fmt: skip
    write(folder, "episodes", [{"phase": "training", "cost": float(c)} for c in range(8)])
    if gap is not None:
        lines = [{"step": s, "format": 1, "snapshot": "x", "gap": gap + s} for s in steps]
        write(folder, "diagnostics", lines)
    return folder


def write(folder, name, entries):
    text = "".join(json.dumps(entry) + "\n" for entry in entries)
    (folder / f"{name}.jsonl").write_text(text)


def found_below(*paths):
    said = []
    records = collect(paths, said.append)
    return by_task(records, said.append), said
