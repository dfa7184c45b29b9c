"""The commands, and what a person is told where one fails."""

import foreign
import pytest
from command_lines import prudent_command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import prudent
from prudent.algorithms import ALGORITHMS
from prudent.cli.main import COMMANDS, HIDDEN
from prudent.settings.checks import field_names, option


def test_help_names_every_command(monkeypatch, capsys):
    for words in ([], ["--help"]):
        with pytest.raises(SystemExit) as stop:
            prudent_command(monkeypatch, *words)
        assert not stop.value.code
        shown = capsys.readouterr().out
        assert all(f" {name} " in shown for name in COMMANDS)
        assert not any(f" {name} " in shown for name in HIDDEN)


@pytest.mark.parametrize("name", [*COMMANDS, *HIDDEN])
def test_every_command_has_help(name, monkeypatch, capsys):
    with pytest.raises(SystemExit) as stop:
        prudent_command(monkeypatch, name, "--help")
    assert not stop.value.code
    assert capsys.readouterr().out.startswith(f"usage: prudent {name} ")


def test_the_version(monkeypatch, capsys):
    prudent_command(monkeypatch, "--version")
    assert capsys.readouterr().out == f"prudent {prudent.__version__}\n"


@pytest.mark.parametrize("words", [["fly"], ["semi_batch"], ["list", "fly"], ["seeds", "--fly"]])
def test_a_word_that_stands_for_nothing_is_named(words, monkeypatch, capsys):
    with pytest.raises(SystemExit) as stop:
        prudent_command(monkeypatch, *words)
    assert stop.value.code == 2
    assert words[-1] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "offending"),
    [
        (["train", "cal", "--env", "Pendulum-v1"], "budget"),
        (["train", "cal", "--task", "orbit", "--discount", "2"], "--discount is 2.0"),
        (["sweep", "--tasks", "orbit", "--algorithms", "cal", "--jobs", "0"], "--jobs is 0"),
        (["resume", "nowhere"], "nowhere"),
        (["evaluate", "nowhere"], "nowhere"),
    ],
)
def test_errors_are_one_line(words, offending, monkeypatch):
    with pytest.raises(SystemExit) as stop:
        prudent_command(monkeypatch, *words)
    assert offending in str(stop.value.code)
    assert "\n" not in str(stop.value.code)


def test_debug_shows_the_trace(monkeypatch):
    with pytest.raises(ValueError, match=r"--discount is 2\.0"):
        prudent_command(
            monkeypatch, "--debug", "train", "cal", "--task", "orbit", "--discount", "2"
        )


VALUES = ["-1", "0", "nan", "inf", "1e400", "abc", "", "1.5", "7", "-0.5", "None", "True", "none"]
WORDS = st.sampled_from([
    *VALUES, "train", "resume", "evaluate", "export", "report", "list", "cal", "ppo", "cvpo",
    "--task", "orbit", "--env", "foreign:make", "foreign:nothing", "--preset", "paper", "--out",
    "/nowhere/at/all", "--seed", "--budget", "--horizon", "--json", "--steps", "--hidden", "--log",
    "wandb", "--warmup", "--cost", "speed", "--init-from", "--episodes", "--video", "x.avi", "\0",
])  # fmt: skip


@pytest.fixture
def no_training(monkeypatch, tmp_path):
    """Everything up to the first step of training."""
    from prudent.agent import Agent

    monkeypatch.setattr(Agent, "_train", lambda agent, stored, parts: None)
    monkeypatch.chdir(tmp_path)


def told(monkeypatch, capsys, words):
    """What a command line that may be wrong makes of it, which is never a traceback."""
    code = 0
    try:
        prudent_command(monkeypatch, *words)
    except SystemExit as stop:
        code = stop.code
    shown = capsys.readouterr()
    text = shown.err + (code if isinstance(code, str) else "")
    assert "Traceback" not in text + shown.out
    if code not in (0, 2):  # by 2 tyro tells of words that it cannot read, with help
        assert text.strip().count("\n") == 0, text
        assert text.startswith("prudent: ")
    return code, text


QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@settings(max_examples=60, suppress_health_check=QUIET)
@given(words=st.lists(WORDS, max_size=6))
def test_no_command_line_ends_in_a_traceback(words, no_training, monkeypatch, capsys):
    told(monkeypatch, capsys, [word for word in words if word != "bench"])


@st.composite
def settings_words(draw):
    algorithm = draw(st.sampled_from(sorted(ALGORITHMS)))
    entry = ALGORITHMS[algorithm]
    names = sorted(field_names(entry.config, entry.schedule))
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
    values = [word for name in chosen for word in (option(name), draw(st.sampled_from(VALUES)))]
    return ["train", algorithm, "--task", "orbit", *values]


@settings(max_examples=60, suppress_health_check=QUIET)
@given(words=settings_words())
def test_no_setting_ends_in_a_traceback_or_is_taken_outside_its_range(
    words, no_training, monkeypatch, capsys
):
    code, _ = told(monkeypatch, capsys, words)
    if not code:
        taken = words[5::2]
        assert not {"nan", "inf", "1e400", "-1", "-0.5"} & set(taken) or set(words[4::2]) & SIGNED


SIGNED = {"--target-entropy", "--initial-log-std", "--tolerance"}  # may be negative


@pytest.mark.parametrize("how", foreign.WAYS)
def test_an_environment_that_misbehaves_is_told_in_one_line(how, monkeypatch, capsys, tmp_path):
    words = ["train", "cal", "--env", f"foreign:broken_{how.replace(' ', '_')}"]
    words += ["--out", tmp_path / "run", "--horizon", "10", "--budget", "1", "--hidden", "4"]
    words += ["--warmup-steps", "12", "--batch-size", "8", "--steps", "4"]
    if how == "raises":
        with pytest.raises(SystemExit) as stop:
            prudent_command(monkeypatch, *words)
        assert "the environment raised KeyError (foreign.py, line" in str(stop.value.code)
        shown = capsys.readouterr().err
        assert 'raise KeyError("sensor")' in shown
        assert "adapter.py" not in shown  # only what is theirs
        return
    code, text = told(monkeypatch, capsys, words)
    assert code
    named = f"foreign:broken_{how.replace(' ', '_')}" in text or "is not finite" in text
    assert named, text
