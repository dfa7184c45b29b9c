"""Words that complete a command line, for the shell."""

from dataclasses import fields
from typing import Any, Literal, get_args, get_origin
from typing import get_type_hints as type_hints

from prudent.algorithms import ALGORITHMS
from prudent.settings.checks import option
from prudent.settings.schedules import SemiBatchSchedule
from prudent.tasks import TASKS

COMMANDS = (
    *("train", "semi-batch", "resume", "evaluate", "certify", "export", "diagnose"),
    *("experiment", "sweep", "report", "seeds", "claims", "list", "bench", "completion"),
)
GRID = (
    *("--preset", "--scale", "--tasks", "--algorithms", "--seeds"),
    *("--jobs", "--out", "--dry-run", "--engine", "--address"),
)
OPTIONS = {
    "train": (
        *("--task", "--env", "--preset", "--seed", "--budget", "--negative-costs", "--cost"),
        *("--horizon", "--discounted", "--out", "--warmup", "--init-from", "--log", "--quiet"),
    ),
    "resume": ("--steps", "--env", "--warmup", "--log", "--quiet"),
    "evaluate": ("--episodes", "--step", "--seed", "--env", "--video", "--json"),
    "certify": (
        *("--budget", "--confidence", "--share", "--max-episodes", "--max-cost", "--min-cost"),
        *("--task", "--env", "--step", "--seed", "--out", "--json"),
    ),
    "export": ("--step", "--env"),
    "diagnose": ("--episodes", "--seed", "--env"),
    "experiment": (*GRID, "--records", "--until"),
    "sweep": (
        *(*GRID, "--file", "--env", "--budget", "--negative-costs", "--cost-range", "--cost"),
        *("--horizon", "--discounted"),
    ),
    "report": ("--out", "--log-steps", "--follow", "--every"),
    "seeds": ("--until",),
    "bench": (
        *("--algorithm", "--env", "--policy", "--batch-sizes", "--environments", "--epochs"),
        *("--core", "--json"),
    ),
}
SCRIPTS = {
    "bash": (
        "_prudent() {\n"
        '  mapfile -t COMPREPLY < <(prudent complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)\n'
        "}\n"
        "complete -o default -F _prudent prudent\n"
    ),
    "zsh": (
        "#compdef prudent\n"
        "_prudent() {\n"
        "  local -a found\n"
        '  found=("${(@f)$(prudent complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")\n'
        '  if [[ -n "$found" ]]; then compadd -a found; else _files; fi\n'
        "}\n"
        "compdef _prudent prudent\n"
    ),
    "fish": (
        "complete -c prudent -a '(prudent complete (commandline -opc)[2..-1] "
        "(commandline -ct) 2>/dev/null)'\n"
    ),
}


def candidates(words: list[str]) -> list[str]:
    """For the last of the words that follow `prudent`; none where a file may be meant."""
    *before, last = words or [""]
    found = _all(before)
    return sorted(word for word in found if word.startswith(last))


def _all(before: list[str]) -> list[str]:
    if not before:
        return [*COMMANDS, "--version", "--help", "--debug"]
    command, previous = before[0], before[-1]
    if command == "completion":
        return list(SCRIPTS)
    trains = command in ("train", "semi-batch")
    if (trains and len(before) == 1) or previous in ("--algorithm", "--algorithms"):
        return list(ALGORITHMS)
    if command == "experiment" and len(before) == 1:
        from prudent.experiments.figures import EXPERIMENTS

        return list(EXPERIMENTS)
    if previous in ("--task", "--env", "--tasks"):
        return list(TASKS)
    if not trains or len(before) < 2 or before[1] not in ALGORITHMS:
        return list(OPTIONS.get(command, ()))
    return _of_algorithm(before, previous)


def _of_algorithm(before: list[str], previous: str) -> list[str]:
    entry = ALGORITHMS[before[1]]
    if previous == "--preset":
        task = TASKS.get(before[before.index("--task") + 1]) if "--task" in before else None
        return list(entry.presets(task or TASKS["hopper-velocity"]))
    choices: dict[str, Any] = {}
    in_deployments = before[0] == "semi-batch"
    for kind in (entry.config, SemiBatchSchedule if in_deployments else entry.schedule):
        hints = type_hints(kind)
        choices |= {option(field.name): hints[field.name] for field in fields(kind)}
    if get_origin(choices.get(previous)) is Literal:
        return [str(choice) for choice in get_args(choices[previous])]
    return [*OPTIONS["train"], *choices]
