"""Runs of before settings were told apart by algorithm (format 1) are still read.

Those in data/format1 were made by that code, with `hidden` 4 on orbit cut to 20 steps.
"""

import json
import shutil
from pathlib import Path

import pytest

import prudent
from prudent.report.groups import by_label
from prudent.report.records import read_record

OLD = Path(__file__).parents[1] / "data" / "format1"
ALGORITHMS = ("sac-lag", "wcsac", "ppo-lag")


def last_line(folder):
    return json.loads((folder / "progress.jsonl").read_text().splitlines()[-1])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_load_evaluate_and_export(algorithm, tmp_path):
    then = last_line(OLD / algorithm)
    found = prudent.evaluate(OLD / algorithm, episodes=1)
    assert found["step"] == then["step"]
    assert found["evaluation"]["return"] == pytest.approx(then["evaluation"]["return"], rel=1e-5)
    assert found["evaluation"]["cost"] == pytest.approx(then["evaluation"]["cost"], rel=1e-5)
    assert prudent.load(OLD / algorithm, step=then["step"]).step == then["step"]
    exported = prudent.export(OLD / algorithm, tmp_path / "policy.safetensors")
    assert exported.about["algorithm"] == algorithm


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_resume(algorithm, tmp_path):
    folder = shutil.copytree(OLD / algorithm, tmp_path / "run")
    newest = sorted((folder / "checkpoints").glob("*.json"))[-1]
    newest.unlink()
    before = (folder / "progress.jsonl").read_text().splitlines()
    prudent.resume(folder, quiet=True)
    after = (folder / "progress.jsonl").read_text().splitlines()
    assert len(after) == len(before)
    assert after[:-1] == before[:-1]
    assert last_line(folder)["step"] == last_line(OLD / algorithm)["step"]


def test_report():
    groups = by_label([read_record(OLD / algorithm) for algorithm in ALGORITHMS])
    assert [label.split()[0] for label in groups] == list(ALGORITHMS)
