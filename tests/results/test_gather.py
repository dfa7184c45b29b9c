"""What grids lack of records is run, measured and kept, once."""

import importlib.util
import json
from pathlib import Path

import pytest

from prudent.report.folders import collect

ROOT = Path(__file__).parents[2]
GRID = """
from prudent.experiments.grid import Grid, Variant

QUICK = {"hidden": (8,), "warmup_steps": 20, "batch_size": 8, "updates_per_step": 1,
         "evaluate_every": 20, "snapshot_every": 20, "evaluation_episodes": 1}
GRID = Grid(
    tasks=("orbit",),
    algorithms=(Variant("sac-lag", QUICK), Variant("ucb", {"conservatism": 0.5, **QUICK})),
    seeds=(1, 0),
    steps=20,
    preset="default",
)
"""


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("gather", ROOT / "results" / "gather.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def grids(tmp_path):
    paths = [tmp_path / "small.py", tmp_path / "same.py"]
    for path in paths:
        path.write_text(GRID)
    return paths


def test_first_seeds_first_and_a_run_of_two_grids_once(script, grids, tmp_path):
    wanted = script.missing(grids, tmp_path / "results", tmp_path / "runs")
    assert [str(each.records.relative_to(tmp_path)) for each in wanted] == [
        "results/small/orbit-sac-lag-seed-0",
        "results/small/orbit-ucb-conservatism-0.5-seed-0",
        "results/small/orbit-sac-lag-seed-1",
        "results/small/orbit-ucb-conservatism-0.5-seed-1",
    ]


def test_what_is_missing_is_run_measured_and_kept(script, grids, tmp_path, capsys):
    places = tmp_path / "results", tmp_path / "runs"
    every = script.missing(grids, *places)
    assert script.gather(every[:1], 1, tmp_path / "notes")
    assert "results/small/orbit-sac-lag-seed-0" in capsys.readouterr().out
    (record,) = collect([places[0]])
    assert record.progress[-1]["step"] == 20
    assert [line["step"] for line in record.diagnostics] == [20]
    assert script.missing(grids, *places) == every[1:]
    # Its records were lost, the run is still there: it is not made again, only kept.
    folder = every[0].job.folder
    before = (folder / "progress.jsonl").stat().st_mtime_ns
    for file in every[0].records.iterdir():
        file.unlink()
    every[0].records.rmdir()
    assert script.gather(script.missing(grids, *places)[:1], 1, tmp_path / "notes")
    assert (folder / "progress.jsonl").stat().st_mtime_ns == before
    assert json.loads((every[0].records / "run.json").read_text())["run"]["seed"] == 0


def test_what_cannot_be_kept_is_said(script, grids, tmp_path, capsys):
    wanted = script.missing(grids, tmp_path / "results", tmp_path / "runs")[:1]
    wanted[0].records.mkdir(parents=True)
    assert not script.gather(wanted, 1, tmp_path / "notes")
    assert "orbit-sac-lag-seed-0 exists already" in capsys.readouterr().err


def test_the_grids_are_those_of_the_folder(script):
    assert sorted(script.GRIDS) == sorted(p.stem for p in (ROOT / "results/grids").glob("*.py"))


def test_only_some_tasks_and_none_that_no_grid_has(script, tmp_path, monkeypatch, capsys):
    (tmp_path / "grids").mkdir()
    (tmp_path / "grids" / "small.py").write_text(GRID.replace('("orbit",)', '("orbit", "skid")'))
    monkeypatch.setattr(script, "RESULTS", tmp_path)
    words = ["gather.py", "--dry-run", "--grids", "small", "--tasks"]
    monkeypatch.setattr("sys.argv", [*words, "skid"])
    script.main()
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "4 runs have no records yet"
    assert all(line.startswith("  small/skid-") for line in lines)
    monkeypatch.setattr("sys.argv", [*words, "hopper"])
    with pytest.raises(ValueError, match="hopper"):
        script.main()
