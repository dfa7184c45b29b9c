"""`prudent evaluate`."""

import json
from pathlib import Path

from command_lines import prudent_command

from prudent import api


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
    prudent_command(monkeypatch, "evaluate", "run", "--episodes", "5", "--step", "8", "--seed", "9")
    assert asked == [
        (Path("run"), {"episodes": 5, "step": 8, "seed": 9, "env": None, "video": None})
    ]
    shown = capsys.readouterr().out
    assert "policy of step 7, budget 4" in shown
    assert "greedy, 2 episodes: return 1 [0.5, 1.5], cost 2 [1.5, 2.5], length 3" in shown
    assert "within budget 50%" in shown
    prudent_command(monkeypatch, "evaluate", "run", "--json")
    assert json.loads(capsys.readouterr().out)["evaluation"]["cost"] == 2.0
    assert asked[1][1] == {"episodes": 10, "step": None, "seed": None, "env": None, "video": None}


def test_train_evaluate_and_film(monkeypatch, tmp_path, capsys):
    folder = tmp_path / "run"
    prudent_command(
        monkeypatch, "train", "sac-lag", "--task", "orbit", "--steps", "30", "--warmup-steps", "30",
        "--hidden", "8", "8", "--evaluation-episodes", "2", "--out", folder, "--quiet",
    )  # fmt: skip
    record = json.loads((folder / "run.json").read_text())
    assert "cost_critics" not in record["run"]["config"]  # it has one, and no choice
    assert record["versions"]["jax"]
    capsys.readouterr()
    prudent_command(
        monkeypatch, "evaluate", folder, "--episodes", "3", "--json", "--video", tmp_path / "a.gif"
    )
    found = json.loads(capsys.readouterr().out)
    assert len(found["evaluation"]["returns"]) == 3
    low, high = found["evaluation"]["cost_interval"]
    assert low <= found["evaluation"]["cost"] <= high
    assert (tmp_path / "a.gif").read_bytes()[:3] == b"GIF"
    prudent_command(monkeypatch, "evaluate", folder, "--video", tmp_path / "a.mp4")
    assert b"ftyp" in (tmp_path / "a.mp4").read_bytes()[:12]
    assert "within budget" in capsys.readouterr().out
