"""`prudent completion`: what bash completes by the script."""

import shutil
import subprocess
import sys

import pytest
from command_lines import prudent_command


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """The words that bash offers for the last one of a command line."""
    if not shutil.which("bash"):
        pytest.skip("there is no bash")
    script = tmp_path_factory.mktemp("completion") / "prudent.bash"
    with pytest.MonkeyPatch.context() as patch, script.open("w") as file:
        patch.setattr(sys, "stdout", file)
        with pytest.raises(SystemExit):
            prudent_command(patch, "completion", "bash")

    def offered(*words):
        line = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; '
        line += 'COMP_POINT=${#COMP_LINE}; _tyro_prudent; printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(
            ["bash", "-c", line, script, "prudent", *words], capture_output=True, text=True
        )
        return done.stdout.split()

    return offered


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["tr"], ["train"]),
        (["run"], []),
        (["train", "sac-"], ["sac-lag", "sac-pid"]),
        (["train", "cal", "--task", "orb"], ["orbit"]),
        (["train", "cal", "--dual-states", ""], ["recent", "replay"]),
        (["train", "cal", "--convex"], ["--convexity"]),
        (["train", "ppo", "--convex"], []),
        (["semi-batch", "cal", "--deploy"], ["--deployments"]),
        (["semi-batch", "ppo"], []),
        (["resume", "--st"], ["--steps"]),
        (["sweep", "--algorithms", "cppo"], ["cppo-pid"]),
        (["sweep", "--tasks", "orb"], ["orbit"]),
    ],
)
def test_bash_completes(words, expected, complete):
    assert sorted(complete(*words)) == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_a_script_too(shell, monkeypatch, capsys):
    with pytest.raises(SystemExit) as stop:
        prudent_command(monkeypatch, "completion", shell)
    assert not stop.value.code
    assert "--convexity" in capsys.readouterr().out
