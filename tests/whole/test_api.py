"""What the functions of `prudent` hand on; nothing is compiled."""

from dataclasses import replace
from pathlib import Path

import pytest
from support import small_run
from varied import varied

import prudent
from prudent import api
from prudent.runs.folder import RunFolder


@pytest.fixture
def started(monkeypatch):
    """What `prudent.train` would have begun."""
    found = []
    monkeypatch.setattr(api, "start", lambda *arguments: found.append(arguments))
    return found


def test_from_python_too(started):
    prudent.train(
        "sac", task="orbit", seed=4, budget=5.0, horizon=77, discounted=True, out="elsewhere",
        warmup="w", log=("wandb",), quiet=True, steps=99, init_from="i", callbacks=[print],
    )  # fmt: skip
    run, task, folder, (warmup, init_from, callbacks, log, quiet) = started[0]
    assert (init_from, callbacks) == ("i", [print])
    assert (run.seed, run.budget, run.horizon, run.discounted) == (4, 5.0, 77, True)
    assert (task.horizon, folder, warmup, log, quiet) == (
        77,
        Path("elsewhere"),
        "w",
        ("wandb",),
        True,
    )
    assert run.schedule.steps == 99


def test_seeds_and_settings_have_folders_of_their_own():
    run = small_run(varied())
    folder = api.default_folder(run)
    assert folder.parts == ("runs", "varied", "cal", f"default-{run.identity()}", "seed-0")
    assert api.default_folder(replace(run, seed=1)).parent == folder.parent
    assert api.default_folder(replace(run, seed=1)) != folder
    assert api.default_folder(replace(run, budget=9.0)).parent != folder.parent
    assert api.default_folder(replace(run, task="a:b/c")).parts[1] == "a-b-c"


def test_evaluate_and_export_take_the_snapshot_that_is_named(monkeypatch):
    asked = []

    class Enough(Exception):
        pass

    def load(folder, *, step=None):
        asked.append((Path(folder), step))
        raise Enough

    monkeypatch.setattr(api, "load", load)
    monkeypatch.setattr(api, "read_run", lambda folder: RunFolder(None, "", {}))
    monkeypatch.setattr(api, "task_of", lambda *_: None)
    for call in (lambda: prudent.evaluate("run", step=5), lambda: api.export("run", "f", step=6)):
        with pytest.raises(Enough):
            call()
    assert asked == [(Path("run"), 5), (Path("run"), 6)]
