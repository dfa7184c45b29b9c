"""Command lines read into dataclasses. A mistake in one is told in one line, with exit code 2."""

import argparse
import io
import sys
from contextlib import redirect_stderr
from typing import Any, NoReturn, TypeVar

import tyro

from prudent.settings.checks import checked

Options = TypeVar("Options")


def read(form: type[Options], command: str, arguments: list[str]) -> Options:
    """The options of a command, each of its type and within its range."""
    return checked(parse(form, prog=command, args=arguments))


def parse(form: Any, prog: str, **how: Any) -> Any:
    complaints = io.StringIO()
    try:
        with redirect_stderr(complaints):
            return tyro.cli(form, prog=prog, **how)
    except SystemExit as stop:
        if not stop.code:  # help was asked for
            raise
        refuse(prog, first_complaint(complaints.getvalue()))


def first_complaint(text: str) -> str:
    """What tyro says inside its frame, up to the first rule."""
    words = []
    for line in text.splitlines()[1:]:
        inside = line.strip("│ ")
        if not inside.strip("─╰╯╭╮"):
            break
        words.append(inside)
    return " ".join(" ".join(words).split()) or "the command line cannot be read"


def refuse(prog: str, complaint: str) -> NoReturn:
    print(f"prudent: {complaint} (`{prog} --help` shows every option)", file=sys.stderr)
    sys.exit(2)


class OneLineParser(argparse.ArgumentParser):
    """Argparse without the usage above its complaints."""

    def error(self, message: str) -> NoReturn:
        refuse(self.prog, message)
