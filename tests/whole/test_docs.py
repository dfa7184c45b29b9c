"""What the documentation says of the code: tables of presets, names, and an example to copy."""

import re
from importlib import import_module
from pathlib import Path

import foreign
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
SMALL = {
    "hidden": (4,), "warmup_steps": 10, "batch_size": 8, "updates_per_step": 1, "horizon": 10,
    "evaluate_every": 10, "checkpoint_every": 10, "evaluation_episodes": 1,
    "replay_capacity": 50, "recent_steps": 20, "quiet": True,
}  # fmt: skip
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


def test_numbers_of_the_readme_are_on_their_pages():
    section = (DOCS.parent / "README.md").read_text().split("## Results")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    for claim, here, link in rows[2:]:
        page = (DOCS.parent / re.search(r"\]\((.*?\.md)", link)[1]).read_text()
        for number in re.findall(r"\d+(?: \d{3})*(?:\.\d+)?", here):
            assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d.]*\d)", page), (claim, number)
    assert len(rows) == 2 + 10


class Small(prudent.Agent):
    """An agent of a small run, which learns for a five-hundredth of the steps."""

    def __init__(self, *words, **values):
        super().__init__(*words, **values | SMALL)

    def learn(self, steps=None, *, until=None):
        return super().learn(steps and steps // 500, until=until and until // 500)


@pytest.mark.parametrize(("page", "steps"), [("../README.md", 20), ("guide.md", 100)])
def test_what_is_shown_of_an_agent_runs(page, steps, tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    [code] = [block for block in blocks if "agent.learn(" in block]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(prudent, "Agent", Small)
    observation = foreign.make().reset(seed=0)[0]
    known = {"prudent": prudent, "make_env": foreign.make, "observation": observation}
    exec(code, known)
    assert known["agent"].steps_done == steps
    assert (tmp_path / "my-agent" / "run.json").is_file()


def test_no_paragraph_of_the_readme_is_a_wall():
    text = re.sub(r"^```.*?^```$", "", (DOCS.parent / "README.md").read_text(), flags=re.M | re.S)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    paragraphs = [part for part in text.split("\n\n") if not part.startswith("|")]
    assert max(len(part.split()) for part in paragraphs) <= 60


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
