"""Deploy a fixed policy, add its log, learn offline: what is recorded, and that a kill changes
nothing.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import lines
from test_exact_resume import kill_after

import prudent
from prudent.runs.folder import read_run

SETTINGS = {
    "deployments": 3, "steps-per-deployment": 90, "updates-per-deployment": 75, "hidden": "8 8",
    "batch-size": 8, "replay-capacity": 150, "checkpoint-every": 25, "horizon": 40,
}  # fmt: skip
VALUES = {
    name.replace("-", "_"): (8, 8) if name == "hidden" else value
    for name, value in SETTINGS.items()
}
FILES = ("progress.jsonl", "episodes.jsonl")


def start(folder: Path) -> list[str]:
    flags = [
        word for name, value in SETTINGS.items() for word in (f"--{name}", *str(value).split())
    ]
    words = ["semi-batch", "cal", "--task", "orbit", *flags, "--quiet", "--out", str(folder)]
    return [sys.executable, "-m", "prudent", *words]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("semi-batch") / "whole"
    subprocess.run(start(folder), check=True)
    return folder


def progress_of(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]


def test_a_line_per_deployment_is_about_the_deployment_itself(whole):
    """90 steps are two episodes of 40 and 10 steps that no episode's cost counts."""
    progress = progress_of(whole)
    episodes = [json.loads(line) for line in (whole / "episodes.jsonl").read_text().splitlines()]
    assert [line["step"] for line in progress] == [90, 180, 270]
    assert [line["updates"] for line in progress] == [75, 150, 225]
    assert [e["step"] for e in episodes] == [40, 80, 130, 170, 220, 260]
    for index, line in enumerate(progress):
        own = episodes[2 * index : 2 * index + 2]
        costs, budget = [e["cost"] for e in own], 16.0
        assert line["evaluation"]["costs"] == costs
        assert line["evaluation"]["returns"] == [e["return"] for e in own]
        assert line["deployment"] == {
            "index": index + 1,
            "episodes": 2,
            "steps_of_unfinished_episode": 10,
            "violations": sum(cost > budget for cost in costs),
            "violation_share": sum(cost > budget for cost in costs) / 2,
            "excess": pytest.approx(sum(max(0.0, cost - budget) for cost in costs)),
        }


def test_the_policy_rests_during_a_deployment(whole, tmp_path, monkeypatch):
    """All actions of a deployment are those of one state, and each deployment has another."""
    from prudent.training import off_policy

    seen = []
    choose = off_policy.choose_action

    def noting(session):
        seen.append((session.step, session.updates))
        return choose(session)

    monkeypatch.setattr(off_policy, "choose_action", noting)
    prudent.semi_batch("cal", task="orbit", out=tmp_path / "run", quiet=True, **VALUES)
    assert seen == [(step, 75 * (step // 90)) for step in range(270)]
    for name in FILES:
        assert lines(tmp_path / "run" / name) == lines(whole / name)  # and Python is no other door


def test_killed_at_any_moment_and_resumed_writes_the_same(whole, tmp_path):
    folder, killed = tmp_path / "killed", 0
    words = start(folder)
    for least in (30, 140, 420):  # in a deployment, and amid updates

        def ready(least=least):
            names = [int(p.stem[5:]) for p in (folder / "checkpoints").glob("step-*.json")]
            return max(names, default=-1) >= least

        killed += kill_after(words, ready)
        words = [sys.executable, "-m", "prudent", "resume", str(folder), "--quiet"]
    subprocess.run(words, check=True)
    assert killed >= 2
    for name in FILES:
        assert lines(folder / name) == lines(whole / name)
    newest = [sorted((f / "checkpoints").glob("*.safetensors"))[-1] for f in (folder, whole)]
    assert newest[0].read_bytes() == newest[1].read_bytes()


def test_interrupted_while_it_learns_it_goes_on_with_the_same_updates(whole, tmp_path, monkeypatch):
    from prudent.training import semi_batch

    learn = semi_batch.learn

    def interrupted(session, size, first):
        learn(session, size, first)
        session.stop_requested = session.updates == 225 - 3  # amid the last block

    monkeypatch.setattr(semi_batch, "learn", interrupted)
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        prudent.semi_batch("cal", task="orbit", out=folder, quiet=True, **VALUES)
    monkeypatch.undo()
    assert len(progress_of(folder)) == 2
    prudent.resume(folder, quiet=True)
    for name in FILES:
        assert lines(folder / name) == lines(whole / name)


def test_more_deployments_make_the_run_that_had_them_from_the_start(whole, tmp_path):
    folder = tmp_path / "short"
    prudent.semi_batch("cal", task="orbit", out=folder, quiet=True, **{**VALUES, "deployments": 2})
    with pytest.raises(ValueError, match="deployments of 90 steps need a multiple"):
        prudent.resume(folder, steps=200, quiet=True)
    prudent.resume(folder, steps=270, quiet=True)
    for name in FILES:
        assert lines(folder / name) == lines(whole / name)
    assert read_run(folder).run.schedule.deployments == 3


def test_policies_of_all_deployments_can_be_loaded(whole):
    observation = np.array([1.0, 0.5])
    actions = [prudent.load(whole, step=step)(observation) for step in (90, 180, 270)]
    assert len({tuple(action) for action in actions}) == 3
    assert np.array_equal(prudent.load(whole)(observation), actions[-1])


def test_a_log_is_learned_from_before_anything_is_deployed(tmp_path):
    generator = np.random.default_rng(0)
    log = {
        "observation": generator.normal(size=(60, 2)), "action": generator.uniform(-1, 1, (60, 2)),
        "reward": np.zeros(60), "cost": np.ones(60), "terminated": np.zeros(60),
        "next_observation": generator.normal(size=(60, 2)),
    }  # fmt: skip
    values = {**VALUES, "deployments": 1}
    prudent.semi_batch("cal", task="orbit", out=tmp_path, warmup=log, quiet=True, **values)
    (line,) = progress_of(tmp_path)
    assert line["updates"] == 150  # 75 before, 75 after
    before, after = (prudent.load(tmp_path, step=step)(np.zeros(2)) for step in (0, 90))
    assert not np.array_equal(before, after)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"steps_per_deployment": 39}, "ends before an episode of 40 does"),
        ({"batch_size": 100, "steps_per_deployment": 50}, "does not fill a batch of 100"),
        ({"deployments": 0}, "--deployments is 0"),
        ({"updates_per_deployment": 0}, "--updates-per-deployment is 0"),
        ({"steps": 5}, "no setting named steps"),
    ],
)
def test_what_cannot_be_deployed_is_refused_in_one_line(tmp_path, change, complaint):
    with pytest.raises(ValueError, match=complaint) as refused:
        prudent.semi_batch("cal", task="orbit", out=tmp_path / "run", **{**VALUES, **change})
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists()


def test_an_on_policy_algorithm_is_told_where_to_go():
    with pytest.raises(ValueError, match="prudent train cup --epoch-steps"):
        prudent.semi_batch("cup", task="orbit")


def test_updates_follow_the_preset_unless_they_are_given(tmp_path):
    """Orbit's preset makes at most 5 updates per step."""
    values = {k: v for k, v in VALUES.items() if k != "updates_per_deployment"}
    folder = tmp_path / "run"
    prudent.semi_batch("cal", task="orbit", out=folder, quiet=True, **{**values, "deployments": 1})
    assert read_run(folder).run.schedule.updates_per_deployment == 450
