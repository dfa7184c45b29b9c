"""What `prudent bench` measures and prints."""

import json
import os

import pytest

from prudent.algorithms.sac_lag import SACLagConfig
from prudent.bench import learners, start, timing
from prudent.cli.bench import BenchOptions, bench, report_updates


@pytest.fixture
def measured(monkeypatch):
    def measure_update(algorithm, batch):
        return {"batch_size": batch, "updates_per_second": 6000 / batch}

    step = {"environment_steps_per_second": 5000.0, "outside_share": 0.025}
    begin = {
        "warm_start_seconds": 2.5, "cold_start_seconds": 9.0, "resident_memory_bytes": 2**29
    }  # fmt: skip
    monkeypatch.setattr(learners, "measure_update", measure_update)
    monkeypatch.setattr(learners, "measure_step", lambda algorithm: step)
    monkeypatch.setattr(start, "measure_start", lambda: begin)
    return step | begin


def test_what_is_printed(measured, capsys):
    report_updates(BenchOptions())
    assert capsys.readouterr().out == (
        "batch 12: 500 updates/s\n"
        "batch 256: 23 updates/s\n"
        "environment 5000 steps/s; one step outside its updates adds 2.5% to ten updates\n"
        "first update after 2.5 s (9.0 s with nothing compiled yet); 512 MiB with a full replay\n"
    )


def test_what_is_written_as_json(measured, capsys):
    report_updates(BenchOptions(algorithm="wcsac", batch_sizes=(12,), json=True))
    first = {"updates_per_second": 500.0}
    assert json.loads(capsys.readouterr().out) == {
        **first, "algorithm": "wcsac", "updates": [{"batch_size": 12, **first}], **measured
    }  # fmt: skip


def test_one_action_for_each_way_to_load(monkeypatch, capsys):
    monkeypatch.setattr(timing, "ROUNDS", 2)
    monkeypatch.setattr(timing, "PIECE_SECONDS", 1e-3)
    usable = os.sched_getaffinity(0)
    try:
        bench(BenchOptions(policy=True, json=True))
    finally:
        os.sched_setaffinity(0, usable)
    found = json.loads(capsys.readouterr().out)["action_seconds"]
    assert list(found) == ["load", "load_exported .safetensors", "load_exported .onnx"]
    assert all(0.0 < seconds < 0.1 for seconds in found.values())


def test_updates_per_second_are_those_of_the_best_call(monkeypatch):
    monkeypatch.setattr(learners, "hopper_config", lambda algorithm: SACLagConfig(hidden=(16, 16)))
    monkeypatch.setattr(learners, "best_in_turns", lambda calls: [calls[0]() or 0.5])
    assert learners.measure_update("sac-lag", 12) == {
        "batch_size": 12, "updates_per_call": 10, "updates_per_second": 20.0
    }  # fmt: skip


def test_an_unknown_algorithm_is_refused():
    with pytest.raises(ValueError, match="'fly'"):
        bench(BenchOptions(algorithm="fly"))
