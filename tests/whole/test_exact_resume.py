"""A run that was killed goes on as if it had never been; a damaged checkpoint is not believed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from probes import Delayed
from safetensors.numpy import save
from support import lines

import prudent
from prudent.files import CannotWrite, checksum, to_json
from prudent.runs.checkpoint import DamagedCheckpoint
from prudent.runs.lock import FolderInUse, only_writer

# The replay wraps several times, and checkpoints fall into the middle of episodes.
OPTIONS = {
    "steps": 600, "warmup-steps": 50, "hidden": "8 8", "updates-per-step": 2, "batch-size": 8,
    "replay-capacity": 120, "checkpoint-every": 30, "evaluate-every": 100, "snapshot-every": 200,
    "evaluation-episodes": 2,
}  # fmt: skip
FILES = ("progress.jsonl", "episodes.jsonl")


def command(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "prudent", *words, str(folder), "--quiet"]


def start(folder: Path) -> list[str]:
    flags = [word for name, value in OPTIONS.items() for word in (f"--{name}", *str(value).split())]
    return command(folder, "train", "cal", "--task", "orbit", *flags, "--out")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("resume") / "whole"
    subprocess.run(start(folder), check=True)
    return folder


@pytest.fixture
def cut_short(whole, tmp_path):
    """A copy of that run to damage."""
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def kill_after(words: list[str], ready) -> bool:
    """Start, wait until `ready`, kill without warning; False if it ended before."""
    process = subprocess.Popen(words)
    while process.poll() is None and not ready():
        time.sleep(0.005)
    ended = process.poll() is not None
    process.kill()
    process.wait()
    return not ended


def test_killed_at_any_moment_and_resumed_writes_the_same(whole, tmp_path):
    folder = tmp_path / "killed"
    generator = np.random.default_rng(0)
    words, killed = start(folder), 0
    for least in (2, 150, 300, 450):  # bytes of progress do not matter: steps by checkpoint names

        def ready(least=least):
            found = sorted(folder.glob("checkpoints/step-*.json"))
            if not found or int(found[-1].stem.split("-")[1]) < least:
                return False
            time.sleep(generator.uniform(0, 0.2))  # somewhere between two checkpoints
            return True

        killed += kill_after(words, ready)
        words = command(folder, "resume")
    subprocess.run(words, check=True)
    assert killed >= 3
    for name in FILES:
        assert lines(folder / name) == lines(whole / name)


def test_killed_before_the_first_checkpoint(whole, tmp_path):
    folder = tmp_path / "early"
    assert kill_after(start(folder), lambda: (folder / "episodes.jsonl").exists())
    subprocess.run(command(folder, "resume"), check=True)
    for name in FILES:
        assert lines(folder / name) == lines(whole / name)


def test_interrupt_saves_and_says_how_to_go_on(whole, tmp_path):
    folder = tmp_path / "interrupted"
    process = subprocess.Popen(start(folder), stdout=subprocess.PIPE, text=True)
    while not list(folder.glob("checkpoints/*.json")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate()
    assert process.returncode == 130
    assert f"Go on with: prudent resume {folder}" in output
    subprocess.run(command(folder, "resume"), check=True)
    for name in FILES:
        assert lines(folder / name) == lines(whole / name)


def test_resuming_a_finished_run_changes_nothing(cut_short):
    before = (cut_short / "progress.jsonl").read_bytes()
    result = prudent.resume(cut_short, quiet=True)
    assert result.evaluation == json.loads(before.splitlines()[-1])["evaluation"]
    assert (cut_short / "progress.jsonl").read_bytes() == before


def newest(folder: Path, suffix: str) -> Path:
    return sorted((folder / "checkpoints").glob(f"step-*{suffix}"))[-1]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def alter(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def replace_by_foreign(path: Path) -> None:
    """A whole checkpoint, of another run."""
    content = save({"x": np.zeros(3)})
    path.with_suffix(".safetensors").write_bytes(content)
    manifest = {
        "format": 1, "run": "somebody-else", "step": 1, "arrays": checksum(content), "added": 0,
        "segments": [], "facts": {},
    }  # fmt: skip
    manifest["checksum"] = checksum(to_json(manifest).encode())
    path.with_suffix(".json").write_text(to_json(manifest))


DAMAGES = {
    "truncated arrays": (lambda f: truncate(newest(f, ".safetensors")), "was cut short or altered"),
    "altered arrays": (lambda f: alter(newest(f, ".safetensors")), "was cut short or altered"),
    "missing arrays": (lambda f: newest(f, ".safetensors").unlink(), "is missing"),
    "truncated manifest": (lambda f: truncate(newest(f, ".json")), "was cut short"),
    "altered manifest": (
        lambda f: newest(f, ".json").write_text(
            newest(f, ".json").read_text().replace('"updates": ', '"updates": 1')
        ),
        "was altered",
    ),
    "no JSON": (lambda f: newest(f, ".json").write_text("hello"), "no manifest of ours"),
    "foreign": (lambda f: replace_by_foreign(newest(f, ".json")), "it is of another run"),
    "damaged replay": (
        lambda f: alter(sorted((f / "replay").glob("*"))[-1]),
        "was cut short or altered",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_checkpoint_is_refused_and_the_one_before_used(name, cut_short, whole, capsys):
    damage, message = DAMAGES[name]
    damage(cut_short)
    prudent.resume(cut_short)
    said = capsys.readouterr().out
    assert "is not used: " in said
    assert message in said
    for name in FILES:
        assert lines(cut_short / name) == lines(whole / name)


def test_with_no_whole_checkpoint_left_nothing_is_touched(cut_short):
    before = (cut_short / "progress.jsonl").read_bytes()
    for path in (cut_short / "checkpoints").glob("*.safetensors"):
        truncate(path)
    with pytest.raises(DamagedCheckpoint, match="no whole checkpoint is left"):
        prudent.resume(cut_short, quiet=True)
    assert (cut_short / "progress.jsonl").read_bytes() == before


def test_a_record_shorter_than_its_checkpoint_remembers_is_refused(cut_short):
    truncate(cut_short / "progress.jsonl")
    with pytest.raises(ValueError, match="is shorter than its checkpoint remembers"):
        prudent.resume(cut_short, quiet=True)


def test_two_processes_cannot_write_one_folder(cut_short):
    with only_writer(cut_short), pytest.raises(FolderInUse, match="another process is writing"):
        prudent.resume(cut_short, quiet=True)


def test_there_is_no_pickle_in_a_run(whole):
    files = [path for path in whole.rglob("*") if path.is_file()]
    suffixes = {path.suffix for path in files}
    assert suffixes <= {".json", ".jsonl", ".safetensors", ""}


def drop_newest(folder: Path) -> None:
    """Then the run has steps to make, and the checkpoint before them alone."""
    for suffix in (".json", ".safetensors"):
        newest(folder, suffix).unlink()


def test_a_damaged_segment_costs_its_rows_and_the_run_says_so(cut_short, whole, capsys):
    drop_newest(cut_short)
    alter(cut_short / "replay" / "rows-000000560-000000590.safetensors")
    prudent.resume(cut_short)
    said = " ".join(capsys.readouterr().out.split())
    assert "resume is inexact: rows 560..590 of the replay are lost, 30 of 120." in said
    before, after = lines(whole / "progress.jsonl"), lines(cut_short / "progress.jsonl")
    assert after[:-1] == before[:-1]
    last = json.loads(after[-1])
    assert last["lost_replay_rows"] == [[560, 590]]
    assert last["updates"] == json.loads(before[-1])["updates"]
    prudent.resume(cut_short)  # what it saved since is whole again
    assert "is not used" not in capsys.readouterr().out


def test_a_loss_is_told_even_if_the_run_stops_before_its_next_line(cut_short, monkeypatch):
    from prudent.training import off_policy

    take_step = off_policy.take_step

    def take_one_step(session):
        take_step(session)
        session.stop_requested = True

    drop_newest(cut_short)
    alter(cut_short / "replay" / "rows-000000560-000000590.safetensors")
    with monkeypatch.context() as patch:
        patch.setattr(off_policy, "take_step", take_one_step)
        with pytest.raises(KeyboardInterrupt):
            prudent.resume(cut_short, quiet=True)
    prudent.resume(cut_short, quiet=True)
    last = json.loads(lines(cut_short / "progress.jsonl")[-1])
    assert last["lost_replay_rows"] == [[560, 590]]


@pytest.mark.parametrize(
    "name",
    [
        "progress.jsonl",
        "episodes.jsonl",
        ".lock",
        "checkpoints/step-000000650.safetensors",
        "replay/rows-000000620-000000650.safetensors",
        "snapshots/step-000000600.safetensors",
        "checkpoints",
    ],
)
def test_resume_follows_no_link_out_of_the_folder(name, cut_short, tmp_path):
    drop_newest(cut_short)
    path, victim = cut_short / name, tmp_path / "victim"
    if path.exists():
        path.rename(victim)
    else:
        victim.write_bytes(b"precious")
    path.symlink_to(victim)
    inside = sorted(victim.iterdir()) if victim.is_dir() else victim.read_bytes()
    with pytest.raises((CannotWrite, DamagedCheckpoint), match="it is a symbolic link") as told:
        prudent.resume(cut_short, quiet=True)
    assert str(path) in str(told.value)
    assert inside == (sorted(victim.iterdir()) if victim.is_dir() else victim.read_bytes())


@pytest.mark.parametrize("use", [lambda f: prudent.resume(f, quiet=True), prudent.load])
def test_a_run_json_that_says_something_else_is_not_believed(use, cut_short):
    path = cut_short / "run.json"
    content = json.loads(path.read_text())
    content["spec"]["action_scale"] = [2 * x for x in content["spec"]["action_scale"]]
    path.write_text(json.dumps(content))
    with pytest.raises(DamagedCheckpoint, match=r"run\.json was altered since \(its spec\)"):
        use(cut_short)


def test_records_that_vanish_stop_the_run_in_one_line(tmp_path):
    folder = tmp_path / "run"
    process = subprocess.Popen(start(folder), stderr=subprocess.PIPE, text=True)
    while not list(folder.glob("checkpoints/*.json")):
        assert process.poll() is None
        time.sleep(0.01)
    (folder / "episodes.jsonl").rename(tmp_path / "moved")
    _, output = process.communicate()
    assert process.returncode == 1
    assert output.startswith(
        f"prudent: {folder}/episodes.jsonl was removed or replaced while the run writes it; "
    )
    assert output.count("\n") == 1
    (tmp_path / "moved").rename(folder / "episodes.jsonl")
    subprocess.run(command(folder, "resume"), check=True)


class Moody(Delayed):
    """What happens depends on how often the process has been here before."""

    visits = 0

    def step(self, action):
        observation, *rest = super().step(action)
        Moody.visits += 1
        return observation + 1e-3 * Moody.visits, *rest


def test_an_environment_that_cannot_be_replayed_is_noticed(tmp_path, capsys):
    options = {
        "steps": 20, "warmup_steps": 20, "hidden": (8, 8), "updates_per_step": 1, "batch_size": 8,
        "replay_capacity": 50, "evaluate_every": 50, "checkpoint_every": 15,
    }  # fmt: skip
    prudent.train(
        "cal", env=Moody, budget=1.0, horizon=2, discounted=True, out=tmp_path / "run", quiet=True,
        **options,
    )  # fmt: skip
    for path in (tmp_path / "run" / "checkpoints").glob("step-000000040*"):
        path.unlink()  # what is left was saved in the middle of an episode
    prudent.resume(tmp_path / "run", env=Moody)
    assert "resume is inexact" in capsys.readouterr().out


def test_atomic_writes_leave_no_half_file(tmp_path, monkeypatch):
    from prudent.files import write_atomically

    target = tmp_path / "file"
    write_atomically(target, b"old")

    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(target, b"new")
    assert target.read_bytes() == b"old"
