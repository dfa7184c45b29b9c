"""What is in a run's record; nothing is compiled."""

import json
import os
from dataclasses import replace

import pytest
from prudent.runs.record import run_checksums
from support import small_run
from varied import HORIZON, Calls, Varied, off_policy_learner, varied

import prudent
from prudent import api
from prudent.runs.folder import read_run
from prudent.runs.lines import Lines
from prudent.training import replay_collector
from prudent.training.reporter import Reporter


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(Varied, "lives", [])
    monkeypatch.setattr(
        replay_collector, "compile_for_rows", lambda *_: off_policy_learner(Calls())
    )
    prudent.train(
        "sac", env=Varied, budget=4.0, horizon=HORIZON, out=tmp_path / "run", quiet=True, seed=2,
        hidden=(4,), steps=8, warmup_steps=4, batch_size=4, replay_capacity=50, evaluate_every=8,
        evaluation_episodes=2, checkpoint_every=8, discounted=True,
    )  # fmt: skip
    return tmp_path / "run"


def test_what_run_json_says(folder):
    record = json.loads((folder / "run.json").read_text())
    assert record["format"] == 2
    assert record["spec"]["action_scale"] == [2.0]
    assert record["spec"]["action_centre"] == [1.0]
    assert record["spec"]["cost_budget"] == 4.0  # discounted, as the critic sees it
    assert record["deterministic_reset"] is False
    assert (record["run"]["seed"], record["run"]["discounted"]) == (2, True)
    run, mark, _ = read_run(folder)
    assert (run.seed, run.horizon, run.schedule.steps) == (2, HORIZON, 8)
    assert mark == f"{record['identity']}-seed-2"
    assert record["identity"] == run.identity() == replace(run, seed=5).identity()


def test_a_record_says_where_starts_are_alike(monkeypatch, tmp_path):
    monkeypatch.setattr(
        replay_collector, "compile_for_rows", lambda *_: off_policy_learner(Calls())
    )
    task = varied(deterministic_reset=True)
    run = small_run(task, "sac", steps=4, warmup_steps=4)
    api.start(run, task, tmp_path / "run", api.Extras(quiet=True))
    assert json.loads((tmp_path / "run" / "run.json").read_text())["deterministic_reset"] is True


def test_an_altered_record_is_refused(folder):
    path, before = folder / "run.json", run_checksums(folder)
    record = json.loads(path.read_text())
    record["run"]["budget"] = 40.0
    path.write_text(json.dumps(record))
    with pytest.raises(ValueError, match="was altered: its settings do not have the identity"):
        read_run(folder)
    after = run_checksums(folder)
    assert after["spec"] == before["spec"]
    assert after["settings"] != before["settings"]


def test_the_lines_of_a_file_are_synced_and_notes_are_written_once(tmp_path, monkeypatch):
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(file), real(file))[1])
    written = Lines(tmp_path / "lines.jsonl", 0)
    written.noted = {"note": 1}
    written.write({"a": 1})
    written.write({"a": 2})
    before = len(synced)
    assert written.sync() == (tmp_path / "lines.jsonl").stat().st_size
    assert len(synced) == before + 1
    written.close()
    found = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert found == [{"a": 1, "note": 1}, {"a": 2}]


def test_a_budget_that_cannot_be_kept_is_said_once(capsys):
    heard = []
    reporter = Reporter(sinks=[heard.append])
    evaluation = {"return": 1.0, "cost": 2.0, "within_budget": 0.0}
    line = {"step": 5, "evaluation": evaluation, "training": {}, "probably_infeasible": True}
    reporter.evaluated(line)
    reporter.evaluated(line)
    assert capsys.readouterr().out.count("probably infeasible") == 1
    assert heard == [line, line]
