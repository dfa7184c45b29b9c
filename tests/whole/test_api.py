"""What the functions of `prudent` hand on; nothing is compiled."""

from pathlib import Path

import pytest
from support import small_run
from varied import varied

import prudent
from prudent import api
from prudent.agent import Agent
from prudent.runs import folder as folders


@pytest.fixture
def started(monkeypatch):
    """What `prudent.train` would have begun."""
    found = []

    def begin(agent, task, warmup=None, init_from=None):
        given = agent._callbacks, agent._log, agent._quiet
        found.append((agent.run, task, agent.folder, (warmup, init_from, *given)))

    monkeypatch.setattr(Agent, "_begin", begin)
    monkeypatch.setattr(Agent, "learn", lambda agent: {})
    return found


def test_from_python_too(started):
    prudent.train(
        "sac", task="orbit", seed=4, budget=5.0, horizon=77, discounted=True, out="elsewhere",
        warmup="w", log=("tensorboard",), quiet=True, steps=99, init_from="i", callbacks=[print],
    )  # fmt: skip
    run, task, folder, (warmup, init_from, callbacks, log, quiet) = started[0]
    assert (init_from, callbacks) == ("i", [print])
    assert (run.seed, run.budget, run.horizon, run.discounted) == (4, 5.0, 77, True)
    assert (task.horizon, folder, warmup, log, quiet) == (
        77,
        Path("elsewhere"),
        "w",
        ("tensorboard",),
        True,
    )
    assert run.schedule.steps == 99


def test_evaluate_and_export_take_the_snapshot_that_is_named(monkeypatch):
    asked = []

    class Enough(Exception):
        pass

    def load(folder, *, step=None):
        asked.append((Path(folder), step))
        raise Enough

    monkeypatch.setattr(api, "load", load)
    monkeypatch.setattr(
        folders, "read_run", lambda folder: folders.RunFolder(Path("run"), small_run(varied()), {})
    )
    monkeypatch.setattr(api, "task_of", lambda *_: None)
    for call in (lambda: prudent.evaluate("run", step=5), lambda: api.export("run", "f", step=6)):
        with pytest.raises(Enough):
            call()
    assert asked == [(Path("run"), 5), (Path("run"), 6)]
