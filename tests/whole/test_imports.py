"""Imports point one way, and what should be quick does not import JAX."""

import ast
import subprocess
import sys
from pathlib import Path

import prudent

ROOT = Path(prudent.__file__).parent

# Each room may import from those listed before it (and from itself).
ORDER = [
    "backend", "files", "statistics", "settings", "tasks", "pieces", "algorithms",
    "runs", "policies", "training", "agent", "api", "report", "certification", "diagnostics",
    "experiments", "bench", "cli",
]  # fmt: skip
NO_JAX = [
    "backend", "files", "statistics", "settings", "tasks", "experiments", "agent", "api",
    "report", "certification", "cli",
]  # fmt: skip


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[0] not in ("__init__", "__main__"):
            yield path, parts[0]


def imported(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if node.module == "prudent":
                names = (alias.name for alias in node.names)
                yield from (f"prudent.{name}" for name in names if not name.startswith("__"))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_imports_point_one_way():
    wrong = []
    for path, home in modules():
        for name in imported(path):
            if name.startswith("prudent."):
                source = name.split(".")[1]
                if ORDER.index(source) > ORDER.index(home):
                    wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong


def test_the_library_knows_no_package_that_is_built_on_it():
    assert not [path for path, _ in modules() if "bidding" in path.read_text().lower()]


def test_every_module_has_its_place_in_the_order():
    assert {home for _, home in modules()} <= set(ORDER)


def test_tasks_and_settings_import_no_jax():
    wrong = [
        str(path.relative_to(ROOT))
        for path, home in modules()
        if home in NO_JAX and any(n.split(".")[0] in ("jax", "optax") for n in imported(path))
    ]
    assert not wrong


def test_help_and_list_do_not_import_jax():
    code = """
import sys
from prudent.cli.main import COMMANDS, HIDDEN, main
for words in [[], ["list"], *([name] for name in COMMANDS | HIDDEN)]:
    sys.argv[1:] = [*words, *([] if words == ["list"] else ["--help"])]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, words
    assert "jax" not in sys.modules, words
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
