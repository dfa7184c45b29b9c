"""Files of a run folder that are damaged, cut short or compressed."""

import sys

import pytest
from made import write_folder

from prudent.cli.main import main
from prudent.report.pack import compress
from prudent.report.records import (
    read_record,
)

GOOD = '{"step": 0, "window_seconds": 1.0, "evaluation": '


MEASURED = '{"return": 1, "cost": 1, "length": 1, "within_budget": 1}'


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("run.json", "[]", "run.json: not a JSON object (found list)"),
        ("run.json", '{\n"run": ', "run.json:2: not a JSON object (Expecting value)"),
        ("run.json", "\xff", "run.json: not a JSON object ('utf-8' codec"),
        ("run.json", "{}", "run.json: there is no 'run'"),
        ("run.json", '{"run": 3}', "run.json: 'run' is not an object"),
        ("run.json", '{"run": {"task": "x"}}', "run.json, 'run': there is no 'algorithm'"),
        ("run.json", '{"format": "1", "run": {}}', "run.json: 'format' is not a whole number"),
        ("progress.jsonl", GOOD + MEASURED + "}\n{\n", "progress.jsonl:2: not a JSON object"),
        ("progress.jsonl", "{}\n", "progress.jsonl:1: there is no 'step'"),
        ("progress.jsonl", GOOD + "3}\n", "progress.jsonl:1: 'evaluation' is not an object"),
        ("progress.jsonl", GOOD + "{}}\n", "progress.jsonl:1, 'evaluation': there is no 'return'"),
        ("progress.jsonl", (GOOD + MEASURED + "}\n") * 2, "jsonl:2: step 0 comes after step 0"),
        ("progress.jsonl", '{"step": NaN}\n', "progress.jsonl:1: not a JSON object (NaN is not"),
        ("progress.jsonl", "\n", "progress.jsonl:1: not a JSON object (Expecting value)"),
        ("episodes.jsonl", '{"phase": "training"}\n', "episodes.jsonl:1: there is no 'cost'"),
        ("episodes.jsonl", '{"phase": "a", "cost": 1e999}\n', "jsonl:1: 'cost' is not a number"),
        ("episodes.jsonl", "7\n", "episodes.jsonl:1: not a JSON object (found int)"),
    ],
)
def test_a_damaged_record_is_one_line_that_says_where(tmp_path, monkeypatch, name, text, fault):
    write_folder(tmp_path / "a", 0)
    (tmp_path / "a" / name).write_bytes(text.encode("latin-1"))
    monkeypatch.setattr(sys, "argv", ["prudent", "report", str(tmp_path / "a")])
    with pytest.raises(SystemExit) as stopped:
        main()
    said = str(stopped.value)
    assert fault in said
    assert said.startswith(f"prudent: {tmp_path / 'a' / name}")
    assert said.endswith("; restore the file or leave this run out")
    assert "\n" not in said


def test_a_last_line_cut_short_is_left_out_and_said(tmp_path, capsys):
    whole = write_folder(tmp_path / "a", 0)
    path = tmp_path / "a" / "progress.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert read_record(tmp_path / "a").progress == whole.progress[:-1]
    said = capsys.readouterr().err
    assert said == f"prudent: {path}:3: the last line is cut short; it is left out\n"


def test_plain_and_compressed_at_once_are_refused(tmp_path):
    write_folder(tmp_path / "a", 0)
    (tmp_path / "a" / "episodes.jsonl.gz").write_bytes(compress(b""))
    with pytest.raises(ValueError, match=r"episodes\.jsonl and episodes\.jsonl\.gz"):
        read_record(tmp_path / "a")


def test_a_damaged_archive_is_said(tmp_path):
    write_folder(tmp_path / "a", 0)
    plain, packed = (tmp_path / "a" / f"progress.jsonl{ending}" for ending in ("", ".gz"))
    content = compress(plain.read_bytes())
    plain.unlink()
    for damaged in (content[:-12], b"not gzip", content[:30] + b"\0\0\0" + content[33:]):
        packed.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"progress\.jsonl\.gz"):
            read_record(tmp_path / "a")
