"""`prudent report`."""

from pathlib import Path

from command_lines import prudent_command


def test_one_picture(monkeypatch, capsys):
    from prudent.report import figures, groups, records, tables

    drawn = []
    monkeypatch.setattr(records, "read_record", lambda folder: folder)
    monkeypatch.setattr(groups, "by_label", lambda found: {"label": found})
    monkeypatch.setattr(figures, "learning_figure", lambda *arguments: drawn.append(arguments))
    monkeypatch.setattr(tables, "final_table", lambda found: "the table")
    prudent_command(monkeypatch, "report", "a", "b", "--out", "p.png", "--log-steps")
    assert drawn == [({"label": [Path("a"), Path("b")]}, Path("p.png"), True)]
    assert "the table\n\npicture: p.png" in capsys.readouterr().out
