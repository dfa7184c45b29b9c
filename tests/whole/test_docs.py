"""What the documentation says of the code: tables of presets, names, and an example to copy."""

import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from steps import several_steps

import prudent
from prudent.algorithms import ALGORITHMS, OURS
from prudent.settings.schedules import OnPolicySchedule
from prudent.tasks import TASKS
from prudent.tasks.finding import unknown_task

ROOT = Path(prudent.__file__).parent
DOCS = ROOT.parent / "docs"
ON_POLICY = [name for name, entry in ALGORITHMS.items() if entry.schedule is OnPolicySchedule]
COLUMNS = [TASKS["ant-velocity"], TASKS["car-button2"], TASKS["orbit"], unknown_task("mine")]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", cell)


def test_the_table_of_presets_is_what_the_algorithms_have():
    section = (DOCS / "presets.md").read_text().split("## Which algorithm has which")[1]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    told = {}
    for first, *cells in rows[2:5]:
        for algorithm in names(first) or ON_POLICY:
            told[algorithm] = [names(cell) for cell in cells]
    found = {name: [list(ALGORITHMS[name].presets(task)) for task in COLUMNS] for name in OURS}
    assert told == found


@pytest.mark.parametrize("page", ["algorithms/index.md", "../README.md"])
def test_every_algorithm_is_listed(page):
    listed = set(names((DOCS / page).read_text()))
    assert set(OURS) <= listed


@pytest.mark.parametrize("page", sorted((DOCS / "algorithms").glob("*.md")), ids=lambda p: p.stem)
def test_the_names_beside_equations_are_in_the_code(page):
    """In the algorithm's own file, in what it is built from, or among the metrics it reports."""
    _, _, section = page.read_text().partition("| name in the code |")
    rows = section.partition("\n\n")[0].splitlines()[2:]
    told = {name for row in rows for name in names(re.split(r"(?<!\\)\|", row)[-2])}
    code = [
        path.read_text() for room in ("algorithms", "pieces") for path in ROOT.glob(f"{room}/*.py")
    ]
    missing = {name for name in told if not re.search(rf"\b{name}\b", "\n".join(code))}
    assert not missing


@pytest.mark.parametrize(
    "path",
    ["pyproject.toml", "prudent_td3/td3_lag.py", "prudent_td3/pump.py", "prudent_td3/command.py"],
)
def test_the_page_on_extending_shows_the_example_as_it_is(path):
    path = f"examples/prudent_td3/{path}"
    page = (DOCS / "extending.md").read_text()
    shown = re.search(
        rf"^`{re.escape(path)}`:\n\n```\w+\n(.*?)^```$", page, re.DOTALL | re.MULTILINE
    )
    assert shown[1] == (DOCS.parent / path).read_text()


def test_the_example_algorithm_learns(tmp_path, monkeypatch):
    code = re.search(r"```python\n(.*?)```", (DOCS / "extending.md").read_text(), re.DOTALL)[1]
    (tmp_path / "td3_lag.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    entry = import_module("td3_lag").TD3_LAG
    assert list(entry.presets(TASKS["hopper-velocity"])) == ["paper", "matched", "default"]
    steps = several_steps(entry.build, entry.config(policy_delay=1))
    before, after = (float(state.multiplier.parameter) for state in (steps.before, steps.after))
    # By its rate times the mean violation, over two updates.
    assert after - before == pytest.approx(2e-3 * float(steps.metrics["violation"]), rel=1e-4)
    assert np.isfinite(list(steps.metrics.values())).all()
