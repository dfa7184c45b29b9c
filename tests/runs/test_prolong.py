"""A run that is given more steps becomes the run that had them from the start."""

import json
import os
import shutil
from pathlib import Path

import foreign
import pytest
from command_lines import prudent_command
from support import lines, timeless

import prudent
from prudent.runs.checkpoint import DamagedCheckpoint
from prudent.runs.folder import read_run
from prudent.runs.lock import only_writer
from prudent.runs.prolong import prolong

STEPS = 60
SMALL = {
    "hidden": (4,), "warmup_steps": 12, "batch_size": 8, "updates_per_step": 1, "horizon": 9,
    "evaluate_every": 10, "checkpoint_every": 5, "snapshot_every": 20, "evaluation_episodes": 2,
    "replay_capacity": 40,
}  # fmt: skip
# Epochs of 20 steps, of which the last is cut short; the rate of a second-order step never falls.
ON_POLICY = {
    "hidden": (4,), "horizon": 9, "epoch_steps": 20, "passes": 1, "evaluate_every": 20,
    "checkpoint_every": 20, "snapshot_every": 40, "evaluation_episodes": 2,
}  # fmt: skip
FILES = ("progress.jsonl", "episodes.jsonl")


def train(folder: Path, steps: int, algorithm: str = "cal", **values):
    settings = {**(SMALL if algorithm == "cal" else ON_POLICY), **values}
    return prudent.train(
        algorithm, task="orbit", steps=steps, out=folder, quiet=True, **settings
    ).folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of so many steps, each trained once."""
    home, made = tmp_path_factory.mktemp("prolong"), {}

    def run(steps, algorithm="cal"):
        if (steps, algorithm) not in made:
            made[steps, algorithm] = train(home / f"{algorithm}-{steps}", steps, algorithm)
        return made[steps, algorithm]

    return run


@pytest.fixture
def copy(runs, tmp_path):
    def copied(steps, algorithm="cal"):
        return Path(shutil.copytree(runs(steps, algorithm), tmp_path / f"{algorithm}-{steps}"))

    return copied


def newest(folder: Path) -> Path:
    return sorted((folder / "checkpoints").glob("step-*.json"))[-1]


def assert_same(folder: Path, whole: Path) -> None:
    for name in FILES:
        assert lines(folder / name) == lines(whole / name)
    kept = [sorted((f / "snapshots").iterdir()) for f in (folder, whole)]
    assert [path.name for path in kept[0]] == [path.name for path in kept[1]]
    for ours, theirs in zip(*kept, strict=True):
        assert ours.read_bytes() == theirs.read_bytes()
    ends = newest(folder), newest(whole)
    assert ends[0].name == ends[1].name
    arrays = [end.with_suffix(".safetensors").read_bytes() for end in ends]
    assert arrays[0] == arrays[1]
    ours, theirs = (json.loads(end.read_text()) for end in ends)
    for facts in (ours["facts"], theirs["facts"]):
        facts["last_line"] = timeless(facts["last_line"])
        del facts["progress_bytes"]  # numbers of the clock have various lengths
    assert ours["facts"] == theirs["facts"]
    assert (ours["run"], ours["settings"]) == (theirs["run"], theirs["settings"])
    assert read_run(folder).run == read_run(whole).run
    assert read_run(folder).run_id == read_run(whole).run_id


# On every interval; no snapshot is due there; no evaluation either; nothing at all is.
@pytest.mark.parametrize("steps", [40, 30, 35, 33])
def test_prolonging_equals_never_having_stopped(steps, runs, copy):
    folder = copy(steps)
    result = prudent.resume(folder, steps=STEPS, quiet=True)
    assert result.folder == folder
    assert_same(folder, runs(STEPS))
    assert read_run(folder).content["earlier_steps"] == [steps]


def test_twice(runs, copy):
    folder = copy(33)
    prudent.resume(folder, steps=47, quiet=True)
    assert [json.loads(line)["step"] for line in lines(folder / "progress.jsonl")] == [
        *range(0, 50, 10), 47,
    ]  # fmt: skip
    prudent.resume(folder, steps=STEPS, quiet=True)
    assert_same(folder, runs(STEPS))


def test_an_unfinished_run_too(runs, tmp_path):
    folder = train(tmp_path / "run", 33, callbacks=[lambda line: line["step"] == 20])
    prudent.resume(folder, steps=STEPS, quiet=True)
    assert_same(folder, runs(STEPS))


def test_stopped_while_it_is_prolonged(runs, copy):
    folder = copy(33)
    prudent.resume(folder, steps=STEPS, quiet=True, callbacks=[lambda line: line["step"] == 40])
    assert json.loads(lines(folder / "progress.jsonl")[-1])["step"] == 40
    prudent.resume(folder, quiet=True)
    assert_same(folder, runs(STEPS))


class Killed(BaseException):
    pass


@pytest.mark.parametrize("steps", [30, 33])
def test_killed_at_any_moment_of_the_change(steps, runs, copy, monkeypatch):
    """Before each thing that is done to the folder in turn; then it is one run or the other."""
    started = copy(steps)
    found = []
    for moment in range(10):
        folder = Path(shutil.copytree(started, started.with_name(f"killed-{moment}")))
        left = iter(range(moment))

        def counted(does, left=left):
            def act(*args, **more):
                if next(left, None) is None:
                    raise Killed
                return does(*args, **more)

            return act

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", counted(os.replace))
            patch.setattr(Path, "unlink", counted(Path.unlink))
            try:
                prolong(read_run(folder), STEPS, shared=False)
                done = True
            except Killed:
                done = False
        prudent.load(folder)
        found.append(read_run(folder).run.schedule.steps)
        again = Path(shutil.copytree(folder, folder.with_name(f"again-{moment}")))
        prudent.resume(again, quiet=True)
        assert_same(again, runs(found[-1]))
        prudent.resume(folder, steps=STEPS, quiet=True)
        assert_same(folder, runs(STEPS))
        if done:
            break
    assert done
    assert sorted(set(found)) == [steps, STEPS]


def test_an_end_that_does_not_count_needs_a_checkpoint_before_it(copy):
    folder = copy(33)
    before = sorted((folder / "checkpoints").glob("step-*.safetensors"))[0]
    before.write_bytes(b"")
    kept = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(DamagedCheckpoint, match="there is no whole one"):
        prudent.resume(folder, steps=STEPS, quiet=True)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == kept


def test_fewer_steps_are_refused_and_as_many_change_nothing(copy, monkeypatch):
    folder = copy(33)
    record = (folder / "run.json").read_bytes()
    with pytest.raises(SystemExit) as stop:
        prudent_command(monkeypatch, "resume", folder, "--steps", "20")
    assert "is a run of 33 steps; --steps is 20, and must be more" in str(stop.value.code)
    prudent.resume(folder, steps=33, quiet=True)
    assert (folder / "run.json").read_bytes() == record


def test_a_run_that_somebody_writes_is_left_alone(copy):
    folder = copy(33)
    record = (folder / "run.json").read_bytes()
    with only_writer(folder), pytest.raises(RuntimeError, match="another process is writing"):
        prudent.resume(folder, steps=STEPS, quiet=True)
    assert (folder / "run.json").read_bytes() == record


def test_one_environment_for_everything(tmp_path):
    one = foreign.Walk()
    shared = {"env": lambda: one, "budget": 5.0, "quiet": True, **SMALL}
    prudent.train("cal", steps=STEPS, out=tmp_path / "whole", **shared)
    prudent.train("cal", steps=30, out=tmp_path / "run", **shared)
    prudent.resume(tmp_path / "run", steps=STEPS, env=lambda: one, quiet=True)
    assert_same(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize("steps", [40, 50])
def test_on_policy_without_falling_rates(steps, runs, copy):
    folder = copy(steps, "rcpo")
    prudent.resume(folder, steps=70, quiet=True)
    assert_same(folder, runs(70, "rcpo"))


def test_falling_rates_are_refused(copy):
    folder = copy(40, "ppo")
    record = (folder / "run.json").read_bytes()
    with pytest.raises(ValueError, match="the learning rate of ppo falls to 0 over its 40 steps"):
        prudent.resume(folder, steps=STEPS, quiet=True)
    assert (folder / "run.json").read_bytes() == record
