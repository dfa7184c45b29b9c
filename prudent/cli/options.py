"""Options as several commands have them, and command lines read into dataclasses by tyro.

tyro tells of a mistake in the words, and ends the process with code 2. A value outside its range is
a `ValueError`, as it is from Python.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar
from typing import get_type_hints as type_hints

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo
from tyro.extras import SubcommandApp

from prudent.algorithms import ALGORITHMS
from prudent.settings.checks import CountOrZero, checked
from prudent.tasks import TASKS

Options = TypeVar("Options")
FLAT = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)


class AlgorithmName(str):
    """One that is known when the command is given."""


class TaskName(str):
    """The same of tasks."""


NAMES = ConstructorRegistry()


@NAMES.primitive_rule
def name_rule(option: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    if option.type is AlgorithmName:
        return one_of(ALGORITHMS, "ALGORITHM", AlgorithmName)
    if option.type is TaskName:
        return one_of(TASKS, "TASK", TaskName)
    return None


def one_of(
    names: Iterable[str], metavar: str, kind: type[str] = str
) -> PrimitiveConstructorSpec[Any]:
    """A word that is one of these, which complaints and completion list and help does not."""
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda words: kind(words[0]),
        is_instance=lambda value: isinstance(value, str),
        str_from_instance=lambda value: [value],
        choices=tuple(names),
    )


RunFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(help="The run's folder.")]
Folders = Annotated[
    tuple[Path, ...],
    tyro.conf.Positional,
    tyro.conf.arg(help="Folders with runs in them, at any depth."),
]
Snapshot = Annotated[
    CountOrZero | None,
    tyro.conf.arg(help="Take the run's snapshot of this step instead of the newest checkpoint."),
]
SameEnvironment = Annotated[
    str | None,
    tyro.conf.arg(help="The environment, named again where it is code (module:callable)."),
]


@dataclass(frozen=True)
class Limits:
    """What an episode may cost, and how its cost is counted."""

    budget: float | None = None
    """Cost allowed per episode (default: the task's)."""
    negative_costs: bool = False
    """Costs can be negative, and so may the budget."""
    cost_range: tuple[float, float] | None = None
    """Least and largest cost of a step, which may be inf (default: the task's, if it knows)."""
    cost: str | None = None
    """With --env: the entry of `info` that is the cost (default: cost)."""
    horizon: int | None = None
    """Steps after which an episode is cut (default: the task's)."""
    discounted: bool | None = None
    """Whether an episode's cost is its discounted sum (default: the task's; else a plain sum)."""


def without(options: Any, *names: str) -> dict[str, Any]:
    """The other options, as keywords."""
    return {name: value for name, value in vars(options).items() if name not in names}


def parse(form: Any, command: str, words: Sequence[str], **how: Any) -> Any:
    return tyro.cli(form, prog=command, args=words, config=FLAT, registry=NAMES, **how)


def read(form: type[Options], command: str, words: Sequence[str]) -> Options:
    """The options of a command, each of its type and within its range."""
    return within_ranges(parse(form, command, words))


def within_ranges(options: Options) -> Options:
    inner = {name: checked(value) for name, value in vars(options).items() if is_dataclass(value)}
    return checked(options, **inner)


def call(function: Callable[..., object], command: str, words: list[str]) -> None:
    """With the options that the function's first parameter declares as a dataclass, and, if it has
    a second one, the words that are none of them. Without a dataclass it gets all words.
    """
    form, *more = options_of(function)
    if form is None:
        function(words)
    elif more:
        options, others = parse(form, command, words, return_unknown_args=True)
        function(within_ranges(options), others)
    else:
        function(read(form, command, words))


def options_of(function: Callable[..., object]) -> list[Any]:
    """The types of a function's parameters; None first where that is no dataclass."""
    hints = type_hints(function, include_extras=True)
    kinds = [hint for name, hint in hints.items() if name != "return"]
    return kinds if kinds and is_dataclass(kinds[0]) else [None]


def show_choices(
    command: str, about: str, summaries: Mapping[str, str], words: Sequence[str]
) -> NoReturn:
    """Help, or what is wrong, where the next word is none of these."""
    app = SubcommandApp()
    for name, summary in summaries.items():
        app.command(name=name, help=summary)(nothing)
    app.cli(prog=command, description=about, args=words[:1])
    note(f"{command}: no {words[0]!r}")  # which tyro takes for one of them in another spelling
    sys.exit(2)


def nothing() -> None:
    pass


def note(*lines: str) -> None:
    for line in lines:
        print(f"prudent: {line}", file=sys.stderr)
