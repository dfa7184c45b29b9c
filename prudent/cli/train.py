"""`prudent train` and `prudent semi-batch`.

Parsed in two passes: algorithm, task and preset decide the defaults of everything else.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NoReturn, TypeVar

import tyro

from prudent.agent import Agent
from prudent.algorithms import ALGORITHMS, find_algorithm
from prudent.algorithms.resolve import (
    in_deployments,
    preset_named,
    settings,
)
from prudent.cli.options import Limits, TaskName, note, parse, show_choices, without
from prudent.cli.resume import stopped
from prudent.runs.folder import default_folder
from prudent.settings import registration
from prudent.tasks import TASKS
from prudent.tasks.finding import unknown_task

Config = TypeVar("Config")
Schedule = TypeVar("Schedule")
PLACE = tyro.conf.create_mutex_group(required=True)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """With a task, --help shows every setting and its value there."""

    task: Annotated[TaskName | None, PLACE] = None
    """One of `prudent list`."""
    env: Annotated[str | None, PLACE] = None
    """A Gymnasium id or module:callable; it needs --budget."""
    preset: str | None = None
    """The values to begin with: `paper` as the paper states them, `head` as the official code has
    them now, `matched` a baseline with CAL's schedule, `million` on-policy for a million steps,
    `default` for an environment of your own."""


@dataclass(frozen=True, kw_only=True)
class TrainOptions(Problem, Generic[Config, Schedule]):
    seed: int = 0
    """Decides everything that is random."""
    limits: Limits = field(default_factory=Limits)
    out: Path | None = None
    """The run's folder (default: runs/TASK/ALGORITHM/PRESET-HASH/seed-N)."""
    warmup: Path | None = None
    """Logged transitions (.npz) to learn from instead of untrained first steps."""
    init_from: Path | None = None
    """A run's folder, whose policy is the first one of this run."""
    log: tuple[Literal["tensorboard", "wandb"], ...] = ()
    """Send progress there as well."""
    quiet: bool = False
    """Print nothing while training."""
    config: Config
    schedule: Schedule


def train(words: list[str]) -> None:
    train_as("train", words)


def semi_batch(words: list[str]) -> None:
    train_as("semi-batch", words)


def train_as(command: str, words: list[str]) -> None:
    algorithm, *others = words or [""]
    if algorithm not in ALGORITHMS:
        show_algorithms(command, words)
    prog = f"prudent {command} {algorithm}"
    named = not {"-h", "--help"} & set(others) or any(
        word.partition("=")[0] in ("--task", "--env") for word in others
    )
    problem, _ = parse(Problem, prog, others, return_unknown_args=True, add_help=not named)
    note(*ALGORITHMS.unused(algorithm), *TASKS.unused(problem.task or problem.env or ""))
    form, usual, preset, presets = options_at(command, algorithm, problem)
    options = parse(
        form,
        prog,
        others,
        description=(
            f"Every setting; the defaults are those of preset {preset}. There is here: "
            f"{', '.join(presets)}."
        ),
        default=usual,
    )
    agent = Agent(
        algorithm,
        out=options.out or default_folder,
        **without(options, "out", "limits", "config", "schedule"),
        **vars(options.limits),
        **vars(options.config),
        **vars(options.schedule),
    )
    try:
        agent.learn()
    except KeyboardInterrupt:
        stopped(agent.folder)


def show_algorithms(command: str, words: list[str]) -> NoReturn:
    about = "With an algorithm and a task, --help shows every setting and its value there."
    summaries = {name: summary_of(name) for name in ALGORITHMS}
    show_choices(f"prudent {command}", about, summaries, words)


def summary_of(algorithm: str) -> str:
    """Without importing anybody's package."""
    offers = registration.offers_in(ALGORITHMS.group).get(algorithm)
    if offers and not ALGORITHMS.unused(algorithm):
        return f"of {offers[0].package}"
    return ALGORITHMS.summary(algorithm)


class Form(NamedTuple):
    form: type[TrainOptions[Any, Any]]
    usual: TrainOptions[Any, Any]
    preset: str
    presets: tuple[str, ...]  # which there are


def options_at(command: str, algorithm: str, problem: Problem) -> Form:
    """The options of an algorithm on a task, with their defaults there."""
    entry, name = find_algorithm(algorithm), problem.task or problem.env or ""
    task = TASKS.get(name) or unknown_task(name)
    preset = preset_named(entry, task, problem.preset)
    usual = settings if command == "train" else in_deployments
    config, schedule = usual(entry, task, preset)
    form: Any = TrainOptions[type(config), type(schedule)]  # type: ignore[misc]
    default = TrainOptions(**vars(problem), config=config, schedule=schedule)
    return Form(form, default, preset, tuple(entry.presets(task)))
