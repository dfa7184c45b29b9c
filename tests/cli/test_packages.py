"""Commands that installed packages offer."""

import sys
from collections import defaultdict
from importlib.metadata import EntryPoint

import pytest
from command_lines import prudent_command

from prudent.settings import registration
from prudent.settings.registration import Offer


@pytest.fixture
def offer(monkeypatch, tmp_path):
    """Offers commands as an installed package would; its modules are written by the test."""
    there = defaultdict(list)
    monkeypatch.setattr(registration, "offers_in", lambda group: there)
    monkeypatch.syspath_prepend(tmp_path)

    def add(name, value, code="", package="theirs 1.0"):
        module = value.partition(":")[0]
        (tmp_path / f"{module}.py").write_text(code)
        monkeypatch.delitem(sys.modules, module, raising=False)
        there[name].append(Offer(EntryPoint(name, value, "prudent.commands"), package))

    return add


CODE = '''\
def fly(arguments):
    """Fly somewhere.

    Not in the list of commands.
    """
    if arguments == ["down"]:
        raise ValueError("the ground is there")
    print(arguments)
'''


def test_the_example_s_command_says_what_the_best_policy_delivers(offer, monkeypatch, capsys):
    there = registration.offers_in("prudent.commands")
    entry_point = EntryPoint("pump", "prudent_td3.command:show_best", "prudent.commands")
    there["pump"].append(Offer(entry_point, "prudent-td3 0.1.0"))
    prudent_command(monkeypatch, "pump", "--budget", "25")
    assert capsys.readouterr().out == "within 25 of energy no policy delivers more than 37.5\n"


OPTIONS = """\
from dataclasses import dataclass

@dataclass(frozen=True)
class Options:
    speed: float = 1.0

def fly(options: Options):
    print(options.speed)
"""


def test_a_package_s_command_gets_the_options_that_it_declares(offer, monkeypatch, capsys):
    offer("fly", "flying:fly", OPTIONS)
    prudent_command(monkeypatch, "fly", "--speed", "3")
    assert capsys.readouterr().out == "3.0\n"
    with pytest.raises(SystemExit) as stop:
        prudent_command(monkeypatch, "fly", "--sped", "3")
    assert stop.value.code == 2
    assert "--sped" in capsys.readouterr().err


def test_a_package_s_command_gets_the_words_after_its_name(offer, monkeypatch, capsys):
    offer("fly", "flying:fly", CODE)
    prudent_command(monkeypatch, "fly", "to", "--the", "moon")
    assert capsys.readouterr().out == "['to', '--the', 'moon']\n"


def test_its_messages_are_written_for_people(offer, monkeypatch):
    offer("fly", "flying:fly", CODE)
    with pytest.raises(SystemExit) as stop:
        prudent_command(monkeypatch, "fly", "down")
    assert stop.value.code == "prudent: the ground is there"


def shown_help(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        prudent_command(monkeypatch, "--help")
    return capsys.readouterr()


def test_help_lists_it_with_its_summary_and_names_what_cannot_be_used(offer, monkeypatch, capsys):
    offer("fly", "flying:fly", CODE)
    offer("swim", "swimming:swim", "import no_such_module")
    shown = shown_help(monkeypatch, capsys)
    [line] = [line for line in shown.out.splitlines() if " fly " in line]
    assert "Fly somewhere." in line
    assert "theirs 1.0" in line
    assert "Not in the list" not in shown.out
    assert "swim" not in shown.out
    assert "'swim' of theirs 1.0" in shown.err


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import no_such_module", "ModuleNotFoundError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("", "AttributeError"),
        ("fly = 5", "TypeError"),
    ],
)
def test_a_command_that_cannot_be_used_is_refused_in_one_line(code, reason, offer, monkeypatch):
    offer("fly", "flying:fly", code)
    with pytest.raises(SystemExit) as stop:
        prudent_command(monkeypatch, "fly")
    text = str(stop.value.code)
    assert "'fly' of theirs 1.0" in text
    assert reason in text
    assert "\n" not in text


def test_one_name_in_two_packages_is_refused(offer, monkeypatch):
    offer("fly", "flying:fly", CODE)
    offer("fly", "flying:fly", CODE, "others 2.0")
    with pytest.raises(SystemExit) as stop:
        prudent_command(monkeypatch, "fly")
    assert "theirs 1.0 and others 2.0" in str(stop.value.code)


def test_a_name_of_ours_stays_ours(offer, monkeypatch, capsys):
    offer("list", "flying:fly", CODE)
    prudent_command(monkeypatch, "list")
    assert "sac-lag" in capsys.readouterr().out
    shown = shown_help(monkeypatch, capsys)
    assert "Fly somewhere." not in shown.out
    assert "command 'list' is prudent's" in shown.err
