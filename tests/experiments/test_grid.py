"""Grids: what they are made of, which runs are there, and how the others are run."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_lines import prudent_command
from rich.console import Console
from support import lines

import prudent
from prudent.cli.experiment import ExperimentOptions
from prudent.cli.grids import Running
from prudent.cli.options import Limits
from prudent.cli.sweep import SweepOptions
from prudent.experiments import engines
from prudent.experiments.axes import with_axes
from prudent.experiments.board import board
from prudent.experiments.existing import existing_runs, folder_for, state_of
from prudent.experiments.figures import EXPERIMENTS, FIGURES, theory
from prudent.experiments.grid import Grid, Problem, Variant, expand, nameless, over, select
from prudent.experiments.speed import hours_left, measured_speeds, speed_of
from prudent.report.pack import pack
from prudent.runs.folder import read_run
from prudent.runs.lock import only_writer
from prudent.runs.prolong import prolong
from prudent.settings.checks import field_names
from prudent.settings.run import identity_of

SMALL = {
    "hidden": (4,), "steps": 40, "warmup_steps": 12, "batch_size": 8, "updates_per_step": 1,
    "evaluate_every": 10, "checkpoint_every": 5, "evaluation_episodes": 1, "replay_capacity": 100,
}  # fmt: skip


def flags(values) -> list[str]:
    return [
        word
        for name, value in values.items()
        for word in (f"--{name.replace('_', '-')}", "4" if name == "hidden" else str(value))
    ]


SWEEP = ("sweep", "--algorithms", "cal", "--tasks", "orbit", *flags(SMALL))

SG5 = {"point-button1", "point-button2", "car-button1", "car-button2", "point-push1"}
MJ4 = {"ant-velocity", "halfcheetah-velocity", "hopper-velocity", "humanoid-velocity"}
TWO = {"hopper-velocity", "point-button2"}
# Section 12.2 of the specification: tasks, then algorithms with the values that they are run with.
TABLE = {
    "underestimation": (TWO, {("sac-lag",), ("ucb", "conservatism", 2)}),
    "convexification": (
        TWO,
        {("cal", "conservatism", 0.5), *(("ucb", "conservatism", k) for k in (0.5, 1, 2))},
    ),
    "off-policy": (
        SG5 | MJ4,
        {("cal",), ("sac-pid",), ("wcsac", "risk_level", 0.1), ("cvpo",)},
    ),
    "conservatism": (
        TWO | {"car-button1"},
        {("cal", "conservatism", k) for k in (0, 0.25, 0.5, 1, 2)},
    ),
    "convexity": (
        TWO | {"car-button1"},
        {("cal", "convexity", c) for c in (0, 1, 10, 100, 1000)},
    ),
    "on-policy": (
        SG5 | MJ4,
        {(name,) for name in ("pdo", "rcpo", "ipo", "crpo", "cup", "cal")},
    ),
    "update-ratio": (
        TWO,
        {
            (name, "updates_per_step", ratio)
            for name in ("cal", "sac-pid", "wcsac", "cvpo")
            for ratio in (1, 10, 20)
        },
    ),
    "ensemble-size": (
        TWO | {"car-button2"},
        {("cal", "cost_critics", size) for size in (2, 4, 6, 8)},
    ),
    "thresholds": (SG5 | MJ4, {("ppo",)}),
    "sac-lag": (SG5 | MJ4, {("cal",), ("sac-lag",)}),  # ours
}
ON_POLICY = {"pdo", "rcpo", "ipo", "crpo", "cup"}


def grid_of(name: str) -> Grid:
    return FIGURES[name].grid


def steps_of(experiment: str, run) -> int:
    if experiment == "thresholds":
        return 1_000_000
    if run.algorithm in ON_POLICY:
        return 5_000_000
    return 200_000 if run.task in SG5 else 300_000


@pytest.mark.parametrize("name", TABLE)
def test_expansion_is_the_specification(name):
    tasks, variants = TABLE[name]
    runs = [planned.run for planned in expand(grid_of(name))]
    assert len(set(runs)) == len(runs) == 6 * len(tasks) * len(variants)
    for algorithm, *value in variants:
        found = [
            run
            for run in runs
            if run.algorithm == algorithm
            and (not value or {**vars(run.config), **vars(run.schedule)}[value[0]] == value[1])
        ]
        assert {(run.task, run.seed) for run in found} == {(t, s) for t in tasks for s in range(6)}
        assert len(found) == 6 * len(tasks)
    for run in runs:
        assert run.schedule.steps == steps_of(name, run)
        assert run.preset == ("million" if name == "thresholds" else "paper")


def test_every_experiment_has_its_table():
    assert set(EXPERIMENTS) == {*TABLE, "theory", "dual"}


def test_the_dual_s_options_one_by_one_and_together():
    runs = [planned.run for planned in expand(grid_of("dual"))]
    names = ("dual_states", "calibration", "cost_bounds")
    chosen = {tuple(getattr(run.config, name) for name in names) for run in runs}
    none, every = ("replay", "none", "none"), ("recent", "episodes", "task")
    single = {none[:i] + every[i : i + 1] + none[i + 1 :] for i in range(3)}
    assert chosen == {none, every, *single, (*every[:2], "none")}
    assert len(set(runs)) == len(runs) == 4 * 6 * 3
    assert {run.schedule.steps for run in runs} == {60_000}


def test_other_values_are_the_preset_s():
    planned = expand(select(grid_of("off-policy"), tasks=["humanoid-velocity"], seeds=[0]))
    found = {p.run.algorithm: p.run for p in planned}
    assert (found["cal"].config.convexity, found["cal"].schedule.updates_per_step) == (1000.0, 10)
    assert found["cvpo"].schedule.updates_per_step == 0.5


def test_the_head_preset_and_its_stand_ins():
    planned = expand(select(grid_of("off-policy"), seeds=[0], preset="head"))
    assert {(p.run.algorithm, p.run.preset) for p in planned} == {
        ("cal", "head"), ("sac-pid", "matched"), ("wcsac", "matched"), ("cvpo", "matched"),
    }  # fmt: skip
    planned = expand(select(grid_of("on-policy"), seeds=[0], preset="head"))
    assert {p.run.preset for p in planned if p.run.algorithm != "cal"} == {"paper"}
    for name in TABLE:
        planned = expand(select(grid_of(name), tasks=["orbit"], seeds=[0]))
        assert {p.run.preset for p in planned} == {"default"}
    with pytest.raises(ValueError, match=r"'nonsense' .*orbit"):
        expand(Grid(["orbit"], ["cal"], preset="nonsense"))


def test_scale_shrinks_steps_to_whole_evaluation_intervals():
    grid = select(grid_of("on-policy"), tasks=["hopper-velocity"], seeds=[0])
    full, fifth, tiny = (
        {p.run.algorithm: p.run.schedule for p in expand(grid, scale)} for scale in (1, 0.2, 1e-4)
    )
    assert (fifth["cal"].steps, fifth["pdo"].steps) == (60_000, 1_000_000)
    assert (tiny["cal"].steps, tiny["pdo"].steps) == (1_000, 100_000)  # one evaluation interval
    for name, schedule in tiny.items():
        assert {**vars(schedule), "steps": 0} == {**vars(full[name]), "steps": 0}
    assert expand(Grid(["orbit"], ["cal"], [0], steps=1_000), 0.45)[0].run.schedule.steps == 400
    own = Variant("cal", {"steps": 2_000, "updates_per_step": 2})
    found = expand(Grid(["orbit"], ["cal", own], [0], steps=1_000))
    assert [planned.run.schedule.steps for planned in found] == [1_000, 2_000]


def test_runs_that_come_to_the_same_are_one():
    same = (Variant("cal"), Variant("cal", {"convexity": 100}))  # orbit's own value
    assert len(expand(Grid(["orbit"], same, [0, 1, 1]))) == 2
    with pytest.raises(ValueError, match="tasks"):
        expand(Grid([], same))
    with pytest.raises(ValueError, match="'moon'"):
        expand(Grid(["moon"], same))


def test_algorithms_that_a_grid_lacks_are_refused():
    with pytest.raises(ValueError, match=r"ppo; .*sac-lag, ucb"):
        select(grid_of("underestimation"), algorithms=["ucb", "ppo"])


# Sweeps.


def test_several_values_are_an_axis_and_one_is_set():
    given = {"conservatism": ["0", "0.5"], "convexity": ["1", "2"], "hidden": ["8,4"]}
    found = with_axes(["cal"], given, print)
    assert [(v.values["conservatism"], v.values["convexity"]) for v in found] == [
        (0.0, 1.0), (0.0, 2.0), (0.5, 1.0), (0.5, 2.0),
    ]  # fmt: skip
    assert {v.values["hidden"] for v in found} == {(8, 4)}
    words = {"updates_cap": ["None"], "timeout_is_terminal": ["true"], "multiplier": ["fixed"]}
    assert with_axes(["cal"], words, print) == (
        Variant("cal", {"updates_cap": None, "timeout_is_terminal": True, "multiplier": "fixed"}),
    )
    labels = [p.variant for p in expand(Grid(["orbit"], found, [0]))]
    assert labels[1] == "cal conservatism=0 convexity=2"


def test_an_axis_that_an_algorithm_lacks_leaves_it_alone(capsys):
    found = with_axes(["cal", "sac-lag"], {"conservatism": ["0", "2"]}, print)
    assert found == (*over("cal", conservatism=(0.0, 2.0)), Variant("sac-lag"))
    assert "sac-lag has no setting 'conservatism'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--algorithms", "sac-lag", "--conservatism", "0", "1"], "sac-lag has no setting"),
        (["--algorithms", "cal", "sac-lag", "--conservatism", "1"], "sac-lag has no setting"),
        (["--algorithms", "cal", "--conservatism", "much"], "--conservatism is 'much'; it must be"),
        (["--algorithms", "cal", "--conservatism"], "--conservatism has no value"),
        ([], "a sweep needs --tasks and --algorithms"),
        (["--file", "nowhere.py"], "nowhere.py is no Python file"),
        (["--file", __file__], "has no GRID = Grid"),
    ],
)
def test_what_a_sweep_cannot_mean_is_told_in_one_line(words, message, monkeypatch):
    with pytest.raises(SystemExit) as stop:
        prudent_command(monkeypatch, "sweep", "--tasks", "orbit", *words)
    assert message in str(stop.value.code)
    assert "\n" not in str(stop.value.code)


def test_a_grid_from_a_file(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(
        "from prudent.experiments.grid import Grid, over\n"
        "GRID = Grid(['orbit'], over('ucb', conservatism=[1, 3]), seeds=[7], steps=800)\n"
    )
    prudent_command(
        monkeypatch, "sweep", "--file", tmp_path / "mine.py", "--dry-run", "--out", tmp_path / "r"
    )
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "mine: 2 runs, 2 missing"
    assert shown[2].split() == [
        "orbit",
        "ucb",
        "conservatism=1",
        "default",
        "7",
        "800",
        "missing",
        "0.01",
        "?",
    ]


# Environments of the user's own.

OWN = """
import gymnasium, numpy
from gymnasium.spaces import Box

class Walk(gymnasium.Env):
    observation_space = action_space = Box(-1.0, 1.0, (1,), numpy.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 1), {}

    def step(self, action):
        near = numpy.clip(action, -1, 1)
        return near, float(near[0]), False, False, {"cost": 9.0, "toll": abs(float(near[0]))}
"""
LIMITS = ("--budget", "3", "--horizon", "10", "--cost", "toll")


def test_a_sweep_in_an_environment_of_one_s_own(tmp_path, monkeypatch, capsys):
    """Run, killed in the middle, gone on with, recognised: all by the name it was given."""
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    words = ("sweep", "--algorithms", "cal", "--env", "own:Walk", *LIMITS, *flags(SMALL))
    prudent_command(monkeypatch, *words, "--jobs", "1")
    assert "1 runs: 1 finished" in capsys.readouterr().out
    [existing] = existing_runs(tmp_path, print).values()
    run = existing.run
    assert (run.task, run.budget, run.horizon) == ("own:Walk", 3.0, 10)
    assert run.cost_source == 'info["toll"]'
    assert (run.preset, run.discounted) == ("default", False)
    content = {name: lines(existing.folder / name) for name in ("progress.jsonl", "episodes.jsonl")}
    # As a run that was stopped: without its last two checkpoints but one.
    for path in sorted((existing.folder / "checkpoints").glob("step-*"))[2:]:
        path.unlink()
    prudent_command(monkeypatch, *words, "--jobs", "1")
    assert "1 runs, 1 begun" in capsys.readouterr().out
    assert {name: lines(existing.folder / name) for name in content} == content
    prudent_command(monkeypatch, *words)
    assert "nothing is left to run" in capsys.readouterr().out


def test_problems_of_a_grid(tmp_path, monkeypatch):
    (tmp_path / "own_too.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    mine = Problem("own_too:Walk", budget=3.0, horizon=10, cost="toll")
    grid = Grid(["orbit", Problem("orbit", budget=5.0), mine], ["cal"], [0])
    assert [(p.run.task, p.run.budget, p.run.horizon) for p in expand(grid)] == [
        ("orbit", 16.0, 400), ("orbit", 5.0, 400), ("own_too:Walk", 3.0, 10),
    ]  # fmt: skip
    for wrong, message in (
        (Problem("own_too:Walk", horizon=10), "a budget is needed"),
        (Problem("own_too:Fly", 3.0, 10), "cannot be imported"),
        (Problem("orbit", cost="toll"), "has a cost of its own"),
        (mine._replace(cost=abs), "find an environment by its name"),
    ):
        with pytest.raises(ValueError, match=message):
            expand(Grid([wrong], ["cal"], [0]))


def test_limits_stand_in_the_file_of_a_grid(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("")
    with pytest.raises(SystemExit) as stop:
        prudent_command(monkeypatch, "sweep", "--file", tmp_path / "mine.py", *LIMITS[:2])
    assert "--budget: settings stand in" in str(stop.value.code)


@pytest.mark.parametrize("page", ["reference/command-line.md", "experiments.md"])
def test_every_option_of_a_grid_is_documented(page):
    told = (Path(prudent.__file__).parents[1] / "docs" / page).read_text()
    for name in field_names(ExperimentOptions, SweepOptions, Running, Limits):
        if name not in ("name", "running", "limits"):  # the experiment itself, and groups
            assert f"--{name.replace('_', '-')}" in told


# Runs that are there.


def train(folder: Path, seed: int = 0, **values) -> Path:
    settings = {**SMALL, **values}
    return prudent.train("cal", task="orbit", seed=seed, out=folder, quiet=True, **settings).folder


def planned(seed: int = 0, **values):
    return expand(Grid(["orbit"], [Variant("cal", {**SMALL, **values})], [seed]))[0].run


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Seed 0, and seed 1, which nobody interrupted."""
    home = tmp_path_factory.mktemp("whole")
    return [train(home / f"seed-{seed}", seed) for seed in (0, 1)]


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """Seed 1, stopped in the middle."""
    folder = tmp_path_factory.mktemp("half") / "run"
    return train(folder, 1, callbacks=[lambda line: line["step"] == 20])


def test_runs_are_known_by_what_they_are(whole, half, tmp_path):
    shutil.copytree(whole[0], tmp_path / "under" / "any name")
    shutil.copytree(half, tmp_path / "other" / "seed-9")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    said = []
    found = existing_runs(tmp_path, said.append)
    assert len(said) == 1
    assert "broken" in said[0]
    there = [found.get(nameless(planned(seed))) for seed in range(3)]
    assert [e and (e.state, e.step) for e in there] == [("finished", 40), ("begun", 20), None]
    assert folder_for(planned(0), tmp_path, found) == tmp_path / "under" / "any name"


def test_settings_added_later_and_names_of_presets_do_not_matter(whole, tmp_path):
    folder = Path(shutil.copytree(whole[0], tmp_path / "run"))
    content = json.loads((folder / "run.json").read_text())
    del content["run"]["config"]["rescale_policy_loss"]
    content["run"]["preset"] = "mine"
    content["identity"] = identity_of(content["run"])
    (folder / "run.json").write_text(json.dumps(content))
    assert nameless(planned(0)) in existing_runs(tmp_path, print)


def test_a_run_without_its_last_checkpoint_is_not_finished(whole, tmp_path):
    folder = Path(shutil.copytree(whole[0], tmp_path / "run"))
    sorted((folder / "checkpoints").glob("*.json"))[-1].unlink()
    assert state_of(folder, planned(0)).state == "begun"


def test_records_alone_count_only_if_they_are_whole(whole, half, tmp_path):
    pack(whole[0], tmp_path / "whole")
    pack(half, tmp_path / "half")
    assert state_of(tmp_path / "whole", planned(0)).state == "finished"
    assert state_of(tmp_path / "half", planned(1)).state == "missing"


def test_a_prolonged_run_is_another_and_keeps_its_folder(whole, tmp_path):
    run = planned(0)
    folder = folder_for(run, tmp_path, {})
    shutil.copytree(whole[0], folder)
    prolong(read_run(folder), 60, shared=False)
    found = existing_runs(tmp_path, print)
    assert nameless(run) not in found
    assert [(e.folder, e.state) for e in found.values()] == [(folder, "begun")]
    assert folder_for(run, tmp_path, found) == folder.with_name("seed-0-2")


def test_hours_are_those_of_runs_that_were_measured(whole, tmp_path):
    folder = Path(shutil.copytree(whole[0], tmp_path / "run"))
    made = [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]
    for line in made:
        line["window_seconds"] = 5.0
    (folder / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in made))
    speeds = measured_speeds(existing_runs(tmp_path, print).values())
    assert speeds == {("cal", "orbit"): 0.5}  # four windows of 5 s, 40 steps at one update each
    run = expand(Grid(["orbit"], [Variant("cal", {"updates_per_step": 2})], [0], steps=7_200))[
        0
    ].run
    assert hours_left(run, 0, speed_of(run, speeds)) == pytest.approx(2.0)
    assert hours_left(run, 3_600, speed_of(run, speeds)) == pytest.approx(1.0)
    other = expand(Grid(["hopper-velocity"], ["cal"], [0]))[0].run
    assert not speed_of(other, speeds).measured
    assert hours_left(other, 0, speed_of(other, speeds)) == pytest.approx(300_000 * 20 / 400 / 3600)


def test_a_dry_run_says_what_is_there_and_starts_nothing(
    whole, half, tmp_path, monkeypatch, capsys
):
    shutil.copytree(whole[0], tmp_path / "a")
    shutil.copytree(half, tmp_path / "b")
    monkeypatch.setattr(engines, "command", lambda _: pytest.fail("a run was started"))
    prudent_command(
        monkeypatch, *SWEEP, "--seeds", "0", "1", "2", "--jobs", "2", "--out", tmp_path, "--dry-run"
    )
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "sweep: 3 runs, 1 finished, 1 begun, 1 missing"
    rows = [line.split() for line in shown[1:5]]
    assert rows[0] == ["task", "run", "preset", "seed", "steps", "state", "hours"]
    assert [row[:6] for row in rows[1:]] == [
        ["orbit", "cal", "default", "0", "40", "finished"],
        ["orbit", "cal", "default", "1", "40", "begun"],
        ["orbit", "cal", "default", "2", "40", "missing"],
    ]
    assert "with 2 at once" in shown[-1]  # all were measured: no guess is told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


# Running them.


def stamps(folder: Path) -> dict[str, int]:
    return {str(p): p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()}


def test_only_what_is_missing_is_run_and_what_was_begun_goes_on(
    whole, half, tmp_path, monkeypatch, capsys
):
    done = Path(shutil.copytree(whole[0], tmp_path / "done"))
    begun = Path(shutil.copytree(half, tmp_path / "begun"))
    before = stamps(done)
    words = (*SWEEP, "--seeds", "0", "1", "--jobs", "1", "--out", tmp_path)
    prudent_command(monkeypatch, *words)
    shown = capsys.readouterr().out
    assert "sweep: 2 runs, 1 finished, 1 begun" in shown
    assert "1 runs: 1 finished" in shown
    assert stamps(done) == before
    for name in ("progress.jsonl", "episodes.jsonl"):
        assert lines(begun / name) == lines(whole[1] / name)
    prudent_command(monkeypatch, *words)
    assert "nothing is left to run" in capsys.readouterr().out


def test_a_failed_run_does_not_stop_the_others(whole, tmp_path, monkeypatch, capsys):
    blocked = folder_for(planned(0), tmp_path, {})
    blocked.mkdir(parents=True)
    (blocked / "mine.txt").write_text("precious")
    words = (*SWEEP, "--seeds", "0", "1", "--jobs", "2", "--out", tmp_path)
    with pytest.raises(SystemExit) as stop:
        prudent_command(monkeypatch, *words)
    assert stop.value.code == 1
    told = capsys.readouterr()
    assert "2 runs: 1 failed, 1 finished" in told.out
    assert "cal on orbit, seed 0 failed: prudent: " in told.err
    assert "is not empty (mine.txt)" in told.err
    [kept] = (tmp_path / "grids" / "sweep").glob("*.error.txt")
    assert "is not empty (mine.txt)" in kept.read_text()
    made = folder_for(planned(1), tmp_path, {}).with_name("seed-1")
    assert lines(made / "progress.jsonl") == lines(whole[1] / "progress.jsonl")


def jobs(tmp_path: Path, count: int) -> list[engines.Job]:
    return [
        engines.Job(planned(seed), tmp_path / "runs" / str(seed), "cal", f"cal-{seed}")
        for seed in range(count)
    ]


def test_a_run_that_another_process_writes_is_left_to_it(half, tmp_path):
    folder = Path(shutil.copytree(half, tmp_path / "runs" / "0"))
    with only_writer(folder):
        ended = engines.run_locally(jobs(tmp_path, 1), 1, tmp_path / "notes", lambda _: None)
    assert [standing.stage for standing in ended.standings] == ["elsewhere"]
    assert state_of(folder, read_run(folder).run).step == 20


def test_exit_codes_and_processes_at_once(tmp_path, monkeypatch):
    """With children that only note when they were there, on which cores, and how they end."""
    code = (
        "import json, os, sys, time\n"
        "seed = json.load(open(sys.argv[1]))['run']['seed']\n"
        "begun = time.time(); time.sleep(0.3)\n"
        "cores = sorted(os.sched_getaffinity(0))\n"
        "with open(sys.argv[2], 'a') as file:\n"
        "    print(json.dumps([begun, time.time(), cores]), file=file)\n"
        "assert os.environ['OMP_NUM_THREADS']\n"
        "print('first line\\nlast line of', seed, file=sys.stderr)\n"
        "sys.exit([0, 3, 75, 130, 0, 0][seed])"
    )
    record = tmp_path / "record"
    monkeypatch.setattr(
        engines, "command", lambda path: [sys.executable, "-c", code, str(path), str(record)]
    )
    cores = engines.usable_cores()
    monkeypatch.setattr(engines, "usable_cores", lambda: cores[:2])
    ended = engines.run_locally(jobs(tmp_path, 6), 2, tmp_path / "notes", lambda _: None)
    assert not ended.interrupted
    assert [standing.stage for standing in ended.standings] == [
        "finished", "failed", "elsewhere", "stopped", "finished", "finished",
    ]  # fmt: skip
    kept = tmp_path / "notes" / "cal-1.error.txt"
    assert ended.standings[1].error == f"last line of 1 (all of it: {kept})"
    assert kept.read_text() == "first line\nlast line of 1\n"
    assert not list((tmp_path / "notes").glob("*.stderr"))
    times = [json.loads(line) for line in record.read_text().splitlines()]
    for begun, *_ in times:
        assert sum(b <= begun < e for b, e, *_ in times) <= 2
    if len(cores) > 1:
        assert {tuple(on) for _, _, on in times} == {(cores[0],), (cores[1],)}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_runs_save_and_says_how_to_go_on(number, tmp_path):
    words = [sys.executable, "-m", "prudent", *SWEEP, "--seeds", "0", "1", "--jobs", "1"]
    words[words.index("--steps") + 1] = "100000"
    process = subprocess.Popen(
        [*words, "--out", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not list(tmp_path.rglob("checkpoints/*.json")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "2 runs: 1 stopped, 1 waiting" in output
    assert "Go on with: prudent sweep --algorithms cal" in errors
    [existing] = existing_runs(tmp_path, print).values()
    assert existing.state == "begun"
    with only_writer(existing.folder):  # nobody writes it any more
        newest = sorted((existing.folder / "checkpoints").glob("*.json"))[-1]
    assert json.loads(newest.read_text())["facts"]["step"] > 0


LINE = {"step": 10, "evaluation": {"return": 1.25, "cost": 20.5}}


def standings(tmp_path: Path) -> list[engines.Standing]:
    running, failed, waiting = (engines.Standing(job) for job in jobs(tmp_path, 3))
    running.stage, running.line = "running", LINE
    running.began = time.monotonic() - 100  # for ten steps: the other thirty take 300 s
    failed.stage, failed.error = "failed", "[bold]no[/bold] good"
    return [waiting, failed, running]


def test_the_table_shows_return_cost_against_budget_and_time_left(tmp_path):
    console = Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None)
    with board(console) as show:
        show(standings(tmp_path))
    rows = [line.split() for line in console.file.getvalue().splitlines()]
    first = next(row for row in rows if "running" in row)
    assert first[:6] == ["orbit", "cal", "0", "running", "25%", "1.25"]
    assert first[6:] == ["20.5", "/", "16", "0:05:00"]
    stages = [row[3] for row in rows if row[:2] == ["orbit", "cal"]]
    assert stages[:3] == ["running", "failed", "waiting"]  # drawn again when it ends
    assert "3 runs: 1 running, 1 failed, 1 waiting" in console.file.getvalue()


def test_without_a_terminal_every_change_is_a_line(tmp_path):
    console = Console(file=io.StringIO(), soft_wrap=True)
    now = standings(tmp_path)
    with board(console) as show:
        show(now)
        show(now)
        now[2].stage = "finished"
        show(now)
    assert console.file.getvalue().splitlines() == [
        "failed: cal on orbit, seed 1, [bold]no[/bold] good",
        "running: cal on orbit, seed 0, 25%, return 1.25, cost 20.5 / 16, 0:05:00 left",
        "finished: cal on orbit, seed 0, return 1.25, cost 20.5 / 16",
    ]


def test_theory_needs_no_runs(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(theory, "draw", lambda folder: [folder / "a.png"])
    prudent_command(monkeypatch, "experiment", "theory", "--out", tmp_path)
    assert capsys.readouterr().out.split() == [str(tmp_path / "theory" / "a.png")]


def test_experiments_are_found_by_name(monkeypatch, tmp_path, capsys):
    words = ("--tasks", "orbit", "--seeds", "0", "1", "--scale", "0.01", "--dry-run")
    prudent_command(monkeypatch, "experiment", "update-ratio", *words, "--out", tmp_path)
    shown = capsys.readouterr().out
    assert shown.startswith("update-ratio: 24 runs, 24 missing\n")
    assert "cvpo updates_per_step=20" in shown
    assert os.listdir(tmp_path) == []
