"""`prudent list`."""

from command_lines import prudent_command

from prudent.algorithms import ALGORITHMS
from prudent.tasks import TASKS


def test_list_shows_algorithms_and_budgets(monkeypatch, capsys):
    prudent_command(monkeypatch, "list")
    shown = capsys.readouterr().out
    for name in (*ALGORITHMS, *TASKS):
        assert f"  {name} " in shown
    assert "82.748 discounted sum per episode" in shown
    assert "16 sum per episode" in shown
