"""The table of CONTRIBUTING.md: the functions it names do what it says, and so do its tables."""

import ast
import re
from importlib import import_module
from inspect import unwrap
from pathlib import Path

import pytest
from steps import several_steps

import prudent
from prudent.algorithms.cal import CALConfig, cal
from prudent.cli.experiment import ExperimentOptions, experiment
from prudent.cli.grids import Running
from prudent.report.writing import read_all, write_report
from prudent.settings.registration import Home
from prudent.tasks import TASKS

PAGE = Path(prudent.__file__).parents[1] / "CONTRIBUTING.md"
NAMED = re.compile(r"\[`([\w.]+)`\]\((prudent/[\w/]+\.py)\)")
SMALL = {
    "hidden": (4,), "warmup_steps": 10, "batch_size": 8, "updates_per_step": 1, "horizon": 10,
    "evaluate_every": 10, "checkpoint_every": 10, "evaluation_episodes": 1,
    "replay_capacity": 50,
}  # fmt: skip


def rows():
    """Question, name and file, for each name that an answer links to."""
    for line in PAGE.read_text().splitlines():
        cells = line.strip("|").split("|")
        for name, path in NAMED.findall(cells[-1]) if line.startswith("|") else ():
            yield cells[0].strip(), name, path


def module_at(path):
    return import_module(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))


FUNCTIONS = [row for row in rows() if not row[1].isupper()]
TABLES = {name: getattr(module_at(path), name) for _, name, path in rows() if name.isupper()}


def train(folder):
    prudent.train("cal", task="orbit", steps=10, out=folder, quiet=True, **SMALL)


def use(question, folder, new):
    """What the question is about, in short."""
    if "resumed" in question:
        prudent.resume(folder, steps=20, quiet=True)
    elif "report" in question:
        write_report(read_all([folder]), new / "report", False, "a report")
    else:
        train(new / "another")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of a run in which nothing was replaced."""
    folder = tmp_path_factory.mktemp("questions") / "run"
    train(folder)
    return folder


def broken(module, name):
    """The function that has this name, or in which it stands, and its code with a `raise` first
    in what is named.
    """
    tree = ast.parse(Path(module.__file__).read_text())
    *_, last = name.split(".")
    [(top, found)] = [
        (top, node)
        for top in tree.body
        for node in ast.walk(top)
        if isinstance(node, ast.FunctionDef) and node.name == last
    ]
    found.body.insert(0, ast.parse(f"raise RuntimeError({name!r})").body[0])
    function, code = module, compile(tree, module.__file__, "exec", dont_inherit=True)
    for each in (top.name, last) if isinstance(top, ast.ClassDef) else (top.name,):
        function = getattr(function, each)
        [code] = [c for c in code.co_consts if getattr(c, "co_name", None) == each]
    return unwrap(function), code


def test_ten_questions_are_answered():
    assert len({question for question, _, _ in rows()}) == 10


@pytest.mark.parametrize(("question", "name", "path"), FUNCTIONS)
def test_a_run_fails_in_the_function_that_is_named(
    question, name, path, folder, tmp_path, monkeypatch
):
    function, code = broken(module_at(path), name)
    monkeypatch.setattr(function, "__code__", code)
    with pytest.raises(RuntimeError) as failed:
        use(question, folder, tmp_path)
    assert failed.value.args == (name,)


def test_nothing_fails_where_nothing_is_replaced(tmp_path):
    train(tmp_path / "run")
    for question, _, _ in FUNCTIONS:
        if "resumed" in question or "report" in question:
            use(question, tmp_path / "run", tmp_path)
    assert prudent.Agent.load(tmp_path / "run").steps_done == 20
    assert (tmp_path / "report" / "index.html").is_file()


def test_a_task_added_to_the_table_is_found(monkeypatch):
    monkeypatch.setattr(TASKS, "_known", dict(TASKS._known))
    monkeypatch.setitem(TABLES["OURS"], "mine", Home("prudent.tasks.orbit:ORBIT"))
    assert prudent.TASKS["mine"] is prudent.TASKS["orbit"]


def test_a_multiplier_rule_added_to_the_table_is_found(monkeypatch):
    rules = TABLES["ASCENTS"]
    monkeypatch.setitem(rules, "mine", lambda rate, initial: rules["fixed"](rate, initial + 1.0))
    config = CALConfig(hidden=(4,), multiplier="mine", initial_multiplier=2.0)
    steps = several_steps(cal, config)
    assert float(steps.metrics["multiplier"]) == 3.0


def test_a_figure_added_to_the_table_is_found(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(TABLES["FIGURES"], "mine", TABLES["FIGURES"]["sac-lag"])
    running = Running(dry_run=True)
    experiment(ExperimentOptions(name="mine", seeds=(0,), out=tmp_path, running=running))
    assert "sac-lag" in capsys.readouterr().out
