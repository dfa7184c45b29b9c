"""Folders that an installed package reports by itself."""

from importlib.metadata import EntryPoint

from prudent.report import packages
from prudent.settings.registration import Offer

REPORT = """
def report(folder):
    page = folder / "page.html"
    page.write_text("harvest")
    return page
"""


def test_a_folder_with_the_file_of_a_package_is_reported_by_it(tmp_path, monkeypatch, capsys):
    (tmp_path / "harvesting.py").write_text(REPORT)
    monkeypatch.syspath_prepend(tmp_path)
    entry_point = EntryPoint("harvest.json", "harvesting:report", packages.GROUP)
    offers = {
        "harvest.json": [Offer(entry_point, "theirs 1.0")],
        "other.json": [Offer(EntryPoint("other.json", "not_there:report", packages.GROUP), "x 1")],
    }
    monkeypatch.setattr(packages, "offers_in", lambda group: offers)
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for folder in (theirs, ours):
        folder.mkdir()
    (theirs / "harvest.json").write_text("{}")
    assert packages.report_of_packages([theirs, ours]) == (ours,)
    assert capsys.readouterr().out == f"page: {theirs / 'page.html'}\n"
    assert (theirs / "page.html").read_text() == "harvest"
