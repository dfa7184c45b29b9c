"""`prudent completion`: tyro's script for all commands, with the settings of each algorithm."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro
from tyro.extras import SubcommandApp

from prudent.algorithms import ALGORITHMS
from prudent.cli.main import COMMANDS, HIDDEN, function_of
from prudent.cli.options import FLAT, NAMES, nothing, options_of
from prudent.cli.packages import package_commands
from prudent.cli.train import Problem, options_at


@dataclass(frozen=True)
class CompletionOptions:
    shell: Annotated[Literal["bash", "zsh", "fish"], tyro.conf.Positional]
    """Whose script to print; it knows what is installed now."""


def completion(options: CompletionOptions) -> None:
    app = SubcommandApp()
    for name, command in COMMANDS.items():
        if name in ("train", "semi-batch"):
            app.command(algorithms(name), name=name, help=command.summary)
        else:
            add(app, name, command.summary, function_of(name, command))
    for name, theirs in package_commands(COMMANDS | HIDDEN)[0].items():
        add(app, name, theirs.summary, theirs.run)
    words = ["--tyro-print-completion", options.shell]
    app.cli(prog="prudent", args=words, config=FLAT, registry=NAMES)


def add(app: SubcommandApp, name: str, summary: str, function: Callable[..., object]) -> None:
    app.command(name=name, help=summary)(options_of(function)[0] or nothing)


def algorithms(command: str) -> SubcommandApp:
    """Those that can be trained by this command, with their options."""
    app = SubcommandApp()
    for name in ALGORITHMS.usable().sources:
        with suppress(ValueError):  # an algorithm that does not learn in deployments
            form = options_at(command, name, Problem()).form
            app.command(name=name, help=ALGORITHMS.summary(name))(form)
    return app
