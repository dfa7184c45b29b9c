"""Records packed for keeping."""

import gzip
import json
import subprocess
import sys
import time

import pytest
from made import write_folder

from prudent.files import CannotWrite
from prudent.report.pack import LARGE, compress, pack
from prudent.report.records import (
    read_record,
)


def test_packed_records_read_the_same(tmp_path):
    source, kept = tmp_path / "a", tmp_path / "kept" / "a"
    write_folder(source, 0)
    episode = {"step": 9, "phase": "training", "cost": 0.5}
    lines = (json.dumps(episode) + "\n") * 3000
    (source / "episodes.jsonl").write_text(lines)
    (source / "checkpoint-10.safetensors").write_bytes(b"large")
    assert len(lines) > LARGE
    pack(source, kept)
    names = ["episodes.jsonl.gz", "progress.jsonl", "run.json"]
    assert sorted(path.name for path in kept.iterdir()) == names
    assert read_record(kept) == read_record(source)._replace(folder=kept)
    pack(kept, tmp_path / "again")  # a packed record is a record
    for name in names:
        assert (tmp_path / "again" / name).read_bytes() == (kept / name).read_bytes()


def test_numbers_of_very_many_episodes_are_packed_short(tmp_path, monkeypatch):
    """Short numbers stay what they are when a packed record is packed again."""
    monkeypatch.setattr("prudent.report.pack.HUGE", 100)
    write_folder(tmp_path / "a", 0)
    lines = [
        {"step": 123456789, "phase": "training", "return": 1 / 3, "cost": 82.74849, "length": 7}
    ] * 3
    (tmp_path / "a" / "episodes.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    said = []
    pack(tmp_path / "a", tmp_path / "kept", said.append)
    kept = (tmp_path / "kept" / "episodes.jsonl").read_text().splitlines()
    short = {"step": 123456789, "phase": "training", "return": 0.33333, "cost": 82.748, "length": 7}
    assert list(map(json.loads, kept)) == [short] * 3
    assert said[-1] == f"{tmp_path / 'a'}: numbers of its episodes are kept to 5 digits"
    pack(tmp_path / "kept", tmp_path / "again", said.append)
    assert (tmp_path / "again" / "episodes.jsonl").read_text().splitlines() == kept


def test_packed_records_name_no_place_on_the_machine(tmp_path):
    write_folder(tmp_path / "a", 0)
    file = tmp_path / "a" / "run.json"
    about = json.loads(file.read_text())
    file.write_text(
        json.dumps(
            {**about, "command": ["run-one", "/home/me/job.json", "--out=/home/me/runs", "--x"]}
        )
    )
    pack(tmp_path / "a", tmp_path / "kept")
    kept = json.loads((tmp_path / "kept" / "run.json").read_text())
    assert kept == {**about, "command": ["run-one", "job.json", "--out=runs", "--x"]}


def test_what_was_cut_short_is_not_packed_and_said(tmp_path):
    write_folder(tmp_path / "a", 0)
    path = tmp_path / "a" / "progress.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"step": 99')
    about = json.loads((tmp_path / "a" / "run.json").read_text())
    about["run"]["schedule"] = {"steps": 1000}
    (tmp_path / "a" / "run.json").write_text(json.dumps(about))
    said = []
    pack(tmp_path / "a", tmp_path / "kept", said.append)
    assert (tmp_path / "kept" / "progress.jsonl").read_bytes() == whole
    assert any("cut short" in line for line in said)
    assert any("a is not finished" in line and "of 1000 steps" in line for line in said)


def test_damaged_diagnostics_are_not_packed_and_nothing_is_left(tmp_path, monkeypatch):
    write_folder(tmp_path / "a", 0)
    (tmp_path / "a" / "diagnostics.jsonl").write_text('{"step": "x"}\n')
    with pytest.raises(ValueError, match=r"diagnostics\.jsonl:1"):
        pack(tmp_path / "a", tmp_path / "kept")
    (tmp_path / "a" / "diagnostics.jsonl").unlink()

    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("prudent.report.pack.write_atomically", full)
    with pytest.raises(CannotWrite, match=r"kept .*No space left"):
        pack(tmp_path / "a", tmp_path / "kept")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_compressed_bytes_depend_on_the_content_only(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1e9)
    packed = compress(b"line\n" * 100)
    monkeypatch.undo()
    assert packed == compress(b"line\n" * 100)
    # Header: magic, deflate, no name, no time, slowest compression, system unknown.
    assert packed[:10] == b"\x1f\x8b\x08\x00" + b"\0" * 4 + b"\x02\xff"
    assert gzip.decompress(packed) == b"line\n" * 100


def test_packing_refuses_what_it_should(tmp_path):
    write_folder(tmp_path / "a", 0)
    (tmp_path / "there").mkdir()
    with pytest.raises(ValueError, match=r"\bthere\b"):
        pack(tmp_path / "a", tmp_path / "there")
    with pytest.raises(ValueError, match=r"\bthere\b"):
        pack(tmp_path / "there", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    command = [sys.executable, "-m", "prudent.report.pack", str(tmp_path), str(tmp_path / "new")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"prudent: {tmp_path} holds no run (there is no run.json)\n"
