"""`prudent report` into a folder: what it finds, shows and warns of, whatever lies there."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from support import INTERRUPTIBLE

from prudent.cli.main import main
from prudent.report.cautions import cautions
from prudent.report.contents import contents
from prudent.report.figures import arrangement, draw_gap, draw_return, draw_spread, in_words
from prudent.report.folders import collect, run_folders
from prudent.report.groups import KNOWN, by_task
from prudent.report.looks import ALGORITHM_COLOURS, looks_of
from prudent.report.tables import detailed_rows
from prudent.report.writing import file_names

FORMATS = "records of formats 1 and 2, which store different settings"


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


def run_report(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["prudent", "report", *map(str, arguments)])
    main()


@pytest.fixture
def axes():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


def test_runs_are_found_at_any_depth_and_told_by_task_and_settings(tmp_path, monkeypatch, capsys):
    for seed in range(2):
        write_run(tmp_path / "runs" / "x" / "y" / f"seed-{seed}", seed)
        write_run(tmp_path / "runs" / f"z-{seed}", seed, task="a/b", config={"k": 1})
    write_run(tmp_path / "elsewhere", 0, task="a/b", config={"k": 2})
    out = tmp_path / "out"
    run_report(monkeypatch, tmp_path / "runs", tmp_path / "elsewhere", "--out", out)
    assert sorted(path.name for path in (out / "figures").iterdir()) == [
        "a-b.png", "a-b.svg", "orbit.png", "orbit.svg",
    ]  # fmt: skip
    printed = capsys.readouterr().out
    assert printed.index("## a/b") < printed.index("| cal (default, k=1) | 2 |")
    assert printed.index("| cal (default, k=2) | 1 |") < printed.index("## orbit")
    assert printed.endswith(f"page: {out / 'index.html'}\n")
    page = (out / "index.html").read_text()
    assert 'href="figures/a-b.png"' in page
    assert "<code>config.k</code>" in page  # a difference
    assert "<code>schedule.steps</code>" not in page  # the same everywhere


def test_damage_is_reported_and_the_rest_shown(tmp_path, monkeypatch, capsys):
    runs = tmp_path / "runs"
    write_run(runs / "sound", 0)
    (runs / "empty").mkdir()
    (write_run(runs / "partial", 1) / "run.json").unlink()
    (write_run(runs / "no-progress", 2) / "progress.jsonl").unlink()
    (write_run(runs / "damaged", 3) / "progress.jsonl").write_text("{}\n")
    (write_run(runs / "no-gap", 4, gap=1.0) / "diagnostics.jsonl").write_text('{"step": 1}\n')
    (write_run(runs / "binary", 5) / "episodes.jsonl").write_bytes(b"\xff\x00\n" * 50)
    run_report(monkeypatch, runs, "--out", tmp_path / "out")
    printed = capsys.readouterr()
    assert "| cal (default) | 2 |" in printed.out  # sound and no-gap
    for words in (
        "partial holds no run (there is no run.json); it is left out here",
        "no-progress: no evaluation yet; left out",
        "damaged/progress.jsonl:1: there is no 'step'; restore the file or leave this run out",
        "shown without its diagnostics: ",
        "binary/episodes.jsonl:1: ",
    ):
        assert words in printed.err
        assert words.replace("'", "&#x27;") in (tmp_path / "out" / "index.html").read_text()
    assert "Traceback" not in printed.err


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda runs: runs.mkdir(), "no run to report below {runs}"),
        (lambda runs: None, "{runs} does not exist; give folders with runs in them"),
        (
            lambda runs: runs.write_text(""),
            "{runs} is not a folder; give folders with runs in them",
        ),
        (
            lambda runs: write_run(runs / "a", steps=()),
            "no run to report below {runs}; of 1 none has an evaluation yet",
        ),
        (
            lambda runs: [(write_run(runs / n) / "run.json").write_text("[]") for n in "ab"],
            "{runs}/a/run.json: not a JSON object (found list); restore the file or leave this run "
            "out (and 1 more like it)",
        ),
    ],
    ids=["empty", "nothing", "file", "not begun", "all damaged"],
)
def test_nothing_to_report_is_one_line(tmp_path, monkeypatch, make, fault):
    runs = tmp_path / "runs"
    make(runs)
    with pytest.raises(SystemExit) as stopped:
        run_report(monkeypatch, runs, "--out", tmp_path / "out")
    assert str(stopped.value) == f"prudent: {fault.format(runs=runs)}"
    assert not (tmp_path / "out").exists()


def damage(content, generator):
    """Cut, changed, doubled or nonsense in the middle."""
    at = int(generator.integers(len(content)))
    end = at + int(generator.integers(1, 9))
    word = [b"", b"\n", b"null", b"[" * 99_999, b"9" * 400, b"1e400", b"\xff", b"{}", b"-", b'"']
    kind = int(generator.integers(3))
    if kind == 0:
        return content[:at]
    if kind == 1:
        return content[:at] + word[generator.integers(len(word))] + content[end:]
    return content[:end] + content[at:]


@pytest.mark.parametrize("seed", range(8))
def test_no_damage_stops_a_report(tmp_path, seed):
    generator = np.random.default_rng(seed)
    write_run(tmp_path / "sound", 0, gap=1.0, spread=1.0)
    broken = write_run(tmp_path / "broken", 1, gap=1.0, spread=1.0)
    files = {path: path.read_bytes() for path in sorted(broken.iterdir())}
    for _ in range(60):
        path = list(files)[generator.integers(len(files))]
        path.write_bytes(damage(files[path], generator))
        tasks, said = found_below(tmp_path)
        shown = sum(len(records) for groups in tasks.values() for records in groups.values())
        assert shown == 2 or any(str(broken) in line for line in said)
        assert contents(tasks)
        assert all(detailed_rows(groups) for groups in tasks.values())
        cautions(tasks, said)
        path.write_bytes(files[path])


def test_a_runs_folder_is_no_place_for_a_report(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "a")
    with pytest.raises(SystemExit, match="a is the folder of a run; choose another with --out"):
        run_report(monkeypatch, tmp_path, "--out", folder)


def test_one_picture_of_all_runs_below_a_folder(tmp_path, monkeypatch, capsys):
    for seed in range(2):
        write_run(tmp_path / "runs" / "deep" / str(seed), seed)
    for name, begin in (("x.png", b"\x89PNG"), ("x.svg", b"<?xml")):
        run_report(monkeypatch, tmp_path / "runs", "--out", tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(begin)
        assert "| cal (default) | 2 |" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"--follow writes a folder; x\.png is one picture"):
        run_report(monkeypatch, tmp_path / "runs", "--out", "x.png", "--follow")


def test_what_is_neither_a_folder_nor_a_picture_is_refused(tmp_path, monkeypatch):
    with pytest.raises(SystemExit, match=r"a folder, or a picture .*, not x\.html"):
        run_report(monkeypatch, write_run(tmp_path / "a"), "--out", "x.html")


def test_the_same_run_twice_and_a_clash_do_not_stop_a_report(tmp_path):
    write_run(tmp_path / "a")
    write_run(tmp_path / "b")
    write_run(tmp_path / "c", steps=(0, 10))
    tasks, said = found_below(tmp_path, tmp_path / "a")
    assert [len(records) for records in tasks["orbit"].values()] == [1]
    assert said == [
        f"{tmp_path / 'b'}: the same run as {tmp_path / 'a'}; counted once",
        f"{tmp_path / 'a'} and {tmp_path / 'c'} have the same settings and the same seed (0) but "
        "different results",
        f"{tmp_path / 'c'}: left out",
    ]


def test_folders_that_link_in_a_circle_are_walked_once(tmp_path):
    write_run(tmp_path / "a")
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    assert run_folders([tmp_path]) == [tmp_path / "a"]


def test_what_a_reader_is_warned_of(tmp_path):
    write_run(tmp_path / "1", 0, planned=30)
    write_run(tmp_path / "2", 1, planned=30, steps=(0, 10))
    write_run(tmp_path / "3", 0, "ppo", budget=9.0, format=1)
    for seed in range(5):
        write_run(tmp_path / f"4-{seed}", seed, task="point-goal1")
    write_run(tmp_path / "5", 0, task="point-goal1-random")
    tasks, said = found_below(tmp_path)
    found = [
        (c.kind, c.task, c.text.partition(":")[0]) for c in cautions(tasks, ["x: gone", *said])
    ]
    assert found == [
        ("folders", "", "x"),
        ("different problems", "orbit", "the budget is not the same everywhere"),
        ("mixed layouts", "", "point-goal1 is here with layouts fixed, random"),
        ("mixed record formats", "orbit", FORMATS),
        ("unfinished runs", "orbit", "cal (default, budget=5)"),
        ("different lengths", "orbit", "final numbers are not of the same number of steps"),
        ("too few seeds", "orbit", "fewer than 5 seeds"),
        ("too few seeds", "point-goal1-random", "fewer than 5 seeds"),
    ]  # fmt: skip
    (unfinished,) = (c.text for c in cautions(tasks) if c.kind == "unfinished runs")
    assert "seed 0 has 20 of 30 steps, seed 1 has 10 of 30 steps; all its curves end" in unfinished


def test_finished_runs_of_enough_seeds_need_no_warning(tmp_path):
    for seed in range(5):
        write_run(tmp_path / str(seed), seed)
    assert cautions(*found_below(tmp_path)) == []


def test_an_algorithm_has_one_colour_and_its_settings_are_shades(tmp_path):
    for k in (10, 2):
        write_run(tmp_path / f"k{k}", 0, config={"k": k})
    write_run(tmp_path / "ppo", 0, "ppo")
    write_run(tmp_path / "mine", 0, "mine")
    write_run(tmp_path / "other", 0, "ppo", task="other")
    tasks, _ = found_below(tmp_path)
    looks = looks_of(tasks["orbit"], ["mine", "another"])
    # Shades by value, not by letter: 2 before 10.
    assert list(looks) == [
        "cal (default, k=2)", "cal (default, k=10)", "ppo (default)", "mine (default)",
    ]  # fmt: skip
    assert looks["ppo (default)"].colour == looks_of(tasks["other"])["ppo (default)"].colour
    assert len({look.colour for look in looks.values()}) == 4
    assert len(KNOWN) == len(ALGORITHM_COLOURS) == len(set(ALGORITHM_COLOURS))
    blue = [int(ALGORITHM_COLOURS[0][at : at + 2], 16) for at in (1, 3, 5)]
    # 40 % of the way to white, and to black.
    light = "#" + "".join(f"{round(part + 0.4 * (255 - part)):02x}" for part in blue)
    dark = "#" + "".join(f"{round(0.6 * part):02x}" for part in blue)
    assert [looks[f"cal (default, k={k})"].colour for k in (2, 10)] == [light, dark]


def test_seeds_are_drawn_each_until_there_are_five(tmp_path, axes):
    for seed in range(5):
        write_run(tmp_path / "five" / str(seed), seed)
    for seed in range(3):
        write_run(tmp_path / "three" / str(seed), seed, "ppo")
    groups = found_below(tmp_path)[0]["orbit"]
    draw_return(axes, groups)
    assert [len(line.get_xdata()) for line in axes.lines] == [3] * 5  # mean; three seeds, mean
    (shade,) = axes.collections
    corners = shade.get_paths()[0].vertices
    # Seeds 0 to 4 at step 20: mean 22, sample deviation sqrt(10 / 4).
    assert corners[:, 1].max() == pytest.approx(22 + np.sqrt(2.5))
    words = in_words(groups)
    assert "Thin: each seed, where there are fewer than 5." in words
    assert "Shade: one standard deviation over seeds." in words


def test_gap_and_spread_where_they_were_measured(tmp_path, axes):
    write_run(tmp_path / "a", 0, gap=-3.0, spread=0.5)
    write_run(tmp_path / "b", 1, gap=-1.0, spread=1.5)
    write_run(tmp_path / "c", 0, "ppo")
    groups = found_below(tmp_path)[0]["orbit"]
    draw_gap(axes, groups)
    (mean,) = (line for line in axes.lines if line.get_label() == "cal (default)")
    assert mean.get_ydata().tolist() == [-2, 8, 18]
    axes.clear()
    draw_spread(axes, groups)
    labelled = [line for line in axes.lines if line.get_label() == "cal (default)"]
    assert [line.get_ydata().tolist() for line in labelled] == [[0, 10, 20]]
    assert not any(line.get_label() == "ppo (default)" for line in axes.lines)  # all 0: none
    (task,) = contents({"orbit": groups})
    assert [panel["name"] for panel in task["panels"]] == [
        "return", "cost", "boxes", "gap", "spread",
    ]  # fmt: skip


def test_panels_in_rows():
    assert arrangement(["a", "b"], wide_boxes=False) == [["a", "b", "boxes"]]
    assert arrangement(["a", "b", "c"], wide_boxes=False) == [["a", "b"], ["boxes", "c"]]
    four = ["a", "b", "c", "d"]
    assert arrangement(four, wide_boxes=False) == [["a", "b", "boxes"], ["c", "d", "."]]
    assert arrangement(four, wide_boxes=True) == [["a", "b"], ["c", "d"], ["boxes", "boxes"]]


def test_the_detailed_table_by_hand(tmp_path):
    for seed in (0, 4):
        write_run(tmp_path / str(seed), seed)
    groups = found_below(tmp_path)[0]["orbit"]
    (row,) = detailed_rows(groups)
    # Seeds' means are 10 and 14; of two seeds there is no bootstrap but their range.
    assert row.cells["return ± sd"] == "12.0 ± 2.8"
    assert row.cells["return, IQM"] == "12.0 (10.0 to 14.0)"
    assert row.cells["training episodes over budget"] == "2 (25.0%)"  # 6 and 7 of 0 to 7
    assert row.cells["excess cost in training"] == "3"  # 1 + 2
    assert row.cells["cost oscillation"] == "-"  # too few evaluations
    assert row.over_budget is False
    dearer = {label: [r._replace(run={**r.run, "budget": 3.0}) for r in found]
              for label, found in groups.items()}  # fmt: skip
    assert detailed_rows(dearer)[0].over_budget is True


def test_file_names_stay_inside_the_folder_and_apart():
    tasks = ["../../etc/x", "a:b", "a b", "A-b", "..", "é" * 200]
    names = file_names(tasks)
    assert list(names.values()) == ["etc-x", "a-b", "a-b-2", "A-b-3", "task", "task-2"]


def test_strange_names_are_drawn_and_written(tmp_path, monkeypatch, capsys):
    name = "\u732b \ud800 $\\frac{ <b> \x07"
    folder = tmp_path / "runs" / os.fsdecode(b"bad \xff byte")
    write_run(folder, 0, algorithm=name, task=name)
    run_report(monkeypatch, tmp_path / "runs", "--out", tmp_path / "out")
    assert (tmp_path / "out" / "index.html").stat().st_size > 1e6
    assert "| \u732b \\ud800 $\\frac{ <b> \\x07 (default) | 1 |" in capsys.readouterr().out


def wait_for(condition, seconds=120):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.1)


def test_following_writes_anew_when_records_change(tmp_path):
    runs, page = tmp_path / "runs", tmp_path / "out" / "index.html"
    runs.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, "report", str(runs), "--out", str(page.parent),
         "--follow", "--every", "0.2"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    with process:
        try:
            write_run(runs / "a", 0)
            wait_for(lambda: page.exists() and "1 run on 1 task" in page.read_text())
            assert 'data-reload="15"' in page.read_text()
            write_run(runs / "b", 1)
            wait_for(lambda: "2 runs on 1 task" in page.read_text())
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 0
    assert said.splitlines()[-1] == f"Stopped. The page is as of now: {page}"
    assert "Traceback" not in said
    assert "data-reload" not in page.read_text().split("<main>")[0]
