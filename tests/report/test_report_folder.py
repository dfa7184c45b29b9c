"""`prudent report` into a folder: what it finds and shows, whatever lies there."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from made import found_below, write_run
from support import INTERRUPTIBLE

from prudent.cli.main import main
from prudent.report.cautions import cautions
from prudent.report.contents import contents
from prudent.report.folders import run_folders
from prudent.report.tables import detailed_rows
from prudent.report.writing import file_names


def run_report(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["prudent", "report", *map(str, arguments)])
    main()


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
    with pytest.raises(SystemExit, match=r"\ba\b.*--out"):
        run_report(monkeypatch, tmp_path, "--out", folder)


def test_one_picture_of_all_runs_below_a_folder(tmp_path, monkeypatch, capsys):
    for seed in range(2):
        write_run(tmp_path / "runs" / "deep" / str(seed), seed)
    for name, begin in (("x.png", b"\x89PNG"), ("x.svg", b"<?xml")):
        run_report(monkeypatch, tmp_path / "runs", "--out", tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(begin)
        assert "| cal (default) | 2 |" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"--follow.*x\.png"):
        run_report(monkeypatch, tmp_path / "runs", "--out", "x.png", "--follow")


def test_what_is_neither_a_folder_nor_a_picture_is_refused(tmp_path, monkeypatch):
    with pytest.raises(SystemExit, match=r"x\.html"):
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
