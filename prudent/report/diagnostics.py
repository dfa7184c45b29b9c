"""What `prudent diagnose` wrote beside a run's records, as data."""

from pathlib import Path

from prudent.report.stored import STEPS, Entry, Say, damaged, find, note, read_lines, require

DIAGNOSTICS, FORMAT = "diagnostics.jsonl", 1


def read_diagnostics(folder: Path, say: Say = note) -> list[Entry]:
    """One line per snapshot, by step; none where there is no file."""
    path = find(folder, DIAGNOSTICS)
    if path is None:
        return []
    lines = read_lines(path, say)
    for number, line in enumerate(lines, 1):
        where = f"{path}:{number}"
        require(where, line, {"step": STEPS, "snapshot": "a string"})
        if line.get("format") != FORMAT:
            raise damaged(where, f"format {line.get('format')!r}, this version reads {FORMAT}")
    return sorted(lines, key=lambda line: int(line["step"]))
