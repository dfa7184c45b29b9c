"""What the commands hand on; nothing is compiled."""

import json
from pathlib import Path

import pytest
from support import small_run
from varied import varied

import prudent
from prudent import agent as agents
from prudent import api
from prudent.agent import Agent
from prudent.cli import main as cli
from prudent.runs import folder as folders
from prudent.training.reporter import Reporter


def run_command(monkeypatch, *words):
    monkeypatch.setattr("sys.argv", ["prudent", *words])
    cli.main()


@pytest.fixture
def started(monkeypatch):
    """What `prudent train` would have begun."""
    found = []

    def begin(agent, task, warmup=None, init_from=None):
        given = agent._callbacks, agent._log, agent._quiet
        found.append((agent.run, task, agent.folder, (warmup, init_from, *given)))

    monkeypatch.setattr(Agent, "_begin", begin)
    monkeypatch.setattr(Agent, "learn", lambda agent: {})
    return found


def test_every_option_of_train_arrives(started, monkeypatch, tmp_path):
    words = (
        "train sac --task orbit --seed 3 --budget 5 --horizon 77 --discounted True --quiet "
        f"--out {tmp_path}/out --warmup {tmp_path}/log.npz --log tensorboard --steps 99 "
        f"--init-from {tmp_path}/other"
    )
    run_command(monkeypatch, *words.split())
    run, task, folder, (warmup, init_from, callbacks, log, quiet) = started[0]
    assert (init_from, callbacks) == (tmp_path / "other", ())
    assert (run.seed, run.budget, run.horizon, run.discounted) == (3, 5.0, 77, True)
    assert (task.horizon, task.constraint.budget, task.constraint.discounted) == (77, 5.0, True)
    assert (folder, warmup) == (tmp_path / "out", tmp_path / "log.npz")
    assert (log, quiet, run.schedule.steps) == (("tensorboard",), True, 99)
    run_command(monkeypatch, "train", "sac", "--task", "orbit")
    run, task, folder, (warmup, init_from, callbacks, log, quiet) = started[1]
    assert (init_from, callbacks) == (None, ())
    assert (run.seed, run.budget, run.horizon, run.discounted) == (0, 16.0, 400, False)
    assert folder == Path("runs/orbit/sac") / f"default-{run.identity()}" / "seed-0"
    assert (warmup, log, quiet) == (None, (), False)


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


def test_every_option_of_evaluate_arrives(monkeypatch, capsys):
    asked = []
    part = {
        "return": 1.0, "cost": 2.0, "length": 3.0, "within_budget": 0.5, "returns": [1.0, 1.0],
        "return_interval": (0.5, 1.5), "cost_interval": (1.5, 2.5),
    }  # fmt: skip

    def measure(folder, **options):
        asked.append((folder, options))
        return {"step": 7, "budget": 4.0, "evaluation": part}

    monkeypatch.setattr(api, "evaluate", measure)
    run_command(monkeypatch, "evaluate", "run", "--episodes", "5", "--step", "8", "--seed", "9")
    assert asked == [
        (Path("run"), {"episodes": 5, "step": 8, "seed": 9, "env": None, "video": None})
    ]
    shown = capsys.readouterr().out
    assert "policy of step 7, budget 4" in shown
    assert "greedy, 2 episodes: return 1 [0.5, 1.5], cost 2 [1.5, 2.5], length 3" in shown
    assert "within budget 50%" in shown
    run_command(monkeypatch, "evaluate", "run", "--json")
    assert json.loads(capsys.readouterr().out)["evaluation"]["cost"] == 2.0
    assert asked[1][1] == {"episodes": 10, "step": None, "seed": None, "env": None, "video": None}


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


def test_report_and_resume_hand_on_what_they_were_told(monkeypatch, capsys):
    from prudent.report import figures, groups, records, tables

    drawn, resumed = [], []
    monkeypatch.setattr(records, "read_record", lambda folder: folder)
    monkeypatch.setattr(groups, "by_label", lambda found: {"label": found})
    monkeypatch.setattr(figures, "learning_figure", lambda *arguments: drawn.append(arguments))
    monkeypatch.setattr(tables, "final_table", lambda found: "the table")
    run_command(monkeypatch, "report", "a", "b", "--out", "p.png", "--log-steps")
    assert drawn == [({"label": [Path("a"), Path("b")]}, Path("p.png"), True)]
    assert "the table\n\npicture: p.png" in capsys.readouterr().out
    monkeypatch.setattr(
        agents, "resume", lambda folder, **options: resumed.append((folder, options))
    )
    given = ("--log", "wandb", "--env", "m:f", "--steps", "9")
    run_command(monkeypatch, "resume", "a", "--quiet", *given)
    handed_on = {"steps": 9, "env": "m:f", "warmup": None, "log": ("wandb",), "quiet": True}
    assert resumed == [(Path("a"), handed_on)]


LEFT = {
    "nothing was written": [],
    "Stopped before the first checkpoint. Begin again with: prudent resume run": ["run.json"],
    "everything is saved. Go on with: prudent resume run": ["run.json", "checkpoints/step-1.json"],
}


@pytest.mark.parametrize("words", LEFT)
@pytest.mark.parametrize(
    "command", [("train", "sac", "--task", "orbit", "--out", "run"), ("resume", "run")]
)
def test_a_stopped_run_says_how_to_go_on_and_is_no_success(
    command, words, monkeypatch, capsys, tmp_path
):
    monkeypatch.chdir(tmp_path)
    for name in LEFT[words]:
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).touch()

    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Agent, "_begin", stop)
    monkeypatch.setattr(agents, "resume", stop)
    with pytest.raises(SystemExit) as error:
        run_command(monkeypatch, *command)
    assert error.value.code == 130
    assert words in capsys.readouterr().out


def test_a_budget_that_cannot_be_kept_is_said_once(capsys):
    heard = []
    reporter = Reporter(sinks=[heard.append])
    evaluation = {"return": 1.0, "cost": 2.0, "within_budget": 0.0}
    line = {"step": 5, "evaluation": evaluation, "training": {}, "probably_infeasible": True}
    reporter.evaluated(line)
    reporter.evaluated(line)
    assert capsys.readouterr().out.count("probably infeasible") == 1
    assert heard == [line, line]
