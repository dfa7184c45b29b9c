"""`prudent resume`, and how a run that was stopped goes on."""

from pathlib import Path

import pytest
from command_lines import prudent_command

from prudent.agent import Agent
from prudent.cli import resume as command_resume


def test_every_option_arrives(monkeypatch):
    resumed = []
    monkeypatch.setattr(
        command_resume, "go_on", lambda folder, **options: resumed.append((folder, options))
    )
    given = ("--log", "wandb", "--env", "m:f", "--steps", "9")
    prudent_command(monkeypatch, "resume", "a", "--quiet", *given)
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

    monkeypatch.setattr(Agent, "_begin", lambda *_: None)
    monkeypatch.setattr(Agent, "learn", stop)
    monkeypatch.setattr(command_resume, "go_on", stop)
    with pytest.raises(SystemExit) as error:
        prudent_command(monkeypatch, *command)
    assert error.value.code == 130
    assert words in capsys.readouterr().out
