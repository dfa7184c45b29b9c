"""Records that grow: no half line, and nothing of what somebody else did to them is lost."""

import os

import pytest
from test_files import full_after_three_bytes

from prudent.files import CannotWrite
from prudent.runs.lines import Lines


def test_a_full_disk_leaves_no_half_line(tmp_path, monkeypatch):
    lines = Lines(tmp_path / "lines", 0)
    lines.write({"x": 1})
    monkeypatch.setattr(os, "write", full_after_three_bytes())
    with pytest.raises(CannotWrite, match="lines cannot be written: No space left on device"):
        lines.write({"x": 2})
    monkeypatch.undo()
    lines.write({"x": 3})
    lines.sync()
    lines.close()
    assert (tmp_path / "lines").read_text() == '{"x": 1}\n{"x": 3}\n'


def remove(path):
    path.unlink()


def replace_by_copy(path):
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)


def replace_by_link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def cut_short(path):
    os.truncate(path, 3)


def add_to(path):
    path.write_bytes(path.read_bytes() + b"{}\n")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (remove, "removed or replaced"),
        (replace_by_copy, "removed or replaced"),
        (replace_by_link, "removed or replaced"),
        (cut_short, "cut short or added to"),
        (add_to, "cut short or added to"),
    ],
)
def test_a_record_that_somebody_changes_is_noticed(change, what, tmp_path):
    lines = Lines(tmp_path / "progress.jsonl", 0)
    lines.write({"x": 1})
    assert lines.sync() == 9
    change(tmp_path / "progress.jsonl")
    with pytest.raises(CannotWrite, match=f"jsonl was {what} while the run writes it; put back"):
        lines.sync()
    lines.close()


def test_other_names_of_a_record_keep_what_they_had(tmp_path):
    path = tmp_path / "progress.jsonl"
    path.write_bytes(b'{"x": 1}\n{"x": 2}\n')
    os.link(path, tmp_path / "backup")
    lines = Lines(path, 9)
    lines.write({"x": 3})
    lines.sync()
    lines.close()
    assert path.read_text() == '{"x": 1}\n{"x": 3}\n'
    assert (tmp_path / "backup").read_text() == '{"x": 1}\n{"x": 2}\n'


def test_what_is_noted_stands_in_the_next_line_only(tmp_path):
    lines = Lines(tmp_path / "lines", 0)
    lines.noted["lost"] = [[1, 2]]
    lines.write({"x": 1})
    lines.write({"x": 2})
    lines.close()
    assert (tmp_path / "lines").read_text() == '{"x": 1, "lost": [[1, 2]]}\n{"x": 2}\n'


def test_the_lines_of_a_file_are_synced(tmp_path, monkeypatch):
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(file), real(file))[1])
    lines = Lines(tmp_path / "lines", 0)
    lines.write({"x": 1})
    lines.write({"x": 2})
    before = len(synced)
    assert lines.sync() == (tmp_path / "lines").stat().st_size
    assert len(synced) == before + 1
    lines.close()
