"""The command line: each command is a function in a module of its own, imported when it is given.

JAX is imported only by what computes; `--help` and `list` stay quick.
"""

import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pkgutil import resolve_name
from typing import NamedTuple, NoReturn

from prudent import __version__
from prudent.cli.failures import OURS, last_words
from prudent.cli.options import call, note, show_choices
from prudent.cli.packages import find_package_command, package_commands


class Command(NamedTuple):
    summary: str
    module: str = ""  # of prudent.cli, where it has not the command's name
    failed: int = 1  # the exit code where it cannot do what it was asked


# Each is the function of its name in the module of its name.
COMMANDS = {
    "train": Command("train; `prudent train cal --task orbit --help` shows every option"),
    "semi-batch": Command("deploy a fixed policy, learn from its log, and so on", "train"),
    "resume": Command("go on with a run that was stopped, or to more --steps"),
    "evaluate": Command("fresh episodes of a run's policy, and a video"),
    # Whose exit code 1 says that a limit is refuted.
    "certify": Command("prove that a policy keeps its budget, or that it does not", failed=2),
    "export": Command("a run's policy as one file that acts without JAX"),
    "diagnose": Command("how wrong the cost estimates at a run's snapshots are"),
    "experiment": Command("the missing runs of one of the paper's figures"),
    "sweep": Command("a grid of your own: settings with several values are its axes"),
    "report": Command("figures, tables and a page to explore, of all runs in folders"),
    "seeds": Command("what each run in folders did, one by one"),
    "claims": Command("what runs in folders say of the paper's claims"),
    "list": Command("algorithms, and tasks with their budgets"),
    "bench": Command("how fast this machine learns"),
    "completion": Command("a script that completes these words in your shell"),
}
HIDDEN = {"run-one": Command("the run that a file describes, for the engines of grids")}
ABOUT = (
    "COMMAND --help says more. `prudent --version` says which version this is; --debug before a "
    "command shows the whole traceback of a failure."
)


def main() -> None:
    words = sys.argv[1:]
    debug = words[:1] == ["--debug"]
    name, *others = words[debug:] or ["--help"]
    failed, home = 1, OURS
    try:
        if name == "--version":
            print(f"prudent {__version__}")
        elif command := (COMMANDS | HIDDEN).get(name):
            failed = command.failed
            call(function_of(name, command), f"prudent {name}", others)
        elif theirs := find_package_command(name):
            home = theirs.home
            call(theirs.run, f"prudent {name}", others)
        else:
            show_commands(name)
    except BrokenPipeError:  # whoever read our output has seen enough
        sys.stderr.close()
        sys.exit(failed)
    except Exception as error:
        if failed == 1 and debug:
            raise
        if failed == 1:
            sys.exit(last_words(error, home))
        with suppress(OSError):  # nobody may be listening; the code is not lost for that
            print(traceback.format_exc() if debug else last_words(error, home), file=sys.stderr)
        sys.exit(failed)


def function_of(name: str, command: Command) -> Callable[..., object]:
    function = name.replace("-", "_")
    found: Callable[..., object] = resolve_name(
        f"prudent.cli.{command.module or function}:{function}"
    )
    return found


def show_commands(word: str) -> NoReturn:
    usable, complaints = package_commands(COMMANDS | HIDDEN)
    note(*complaints)
    ours = {name: command.summary for name, command in COMMANDS.items()}
    theirs = {name: f"{command.summary} [{command.package}]" for name, command in usable.items()}
    show_choices("prudent", ABOUT, ours | theirs, [word])
