"""The command line: each command is a function in a module of its own, imported when it is given.

JAX is imported only by what computes; `--help` and `list` stay quick.
"""

import sys
import traceback
from contextlib import suppress
from pkgutil import resolve_name
from typing import NamedTuple, NoReturn

from prudent import __version__
from prudent.cli.failures import OURS, last_words
from prudent.cli.options import call, note, show_choices
from prudent.cli.packages import find_package_command, package_commands


class Command(NamedTuple):
    place: str  # module:function
    summary: str = ""  # none: other processes of ours give it
    failed: int = 1  # the exit code where it cannot do what it was asked


COMMANDS = {
    "train": Command(
        "prudent.cli.train:train",
        "train; `prudent train cal --task orbit --help` shows every option",
    ),
    "semi-batch": Command(
        "prudent.cli.train:semi_batch", "deploy a fixed policy, learn from its log, and so on"
    ),
    "resume": Command(
        "prudent.cli.resume:resume", "go on with a run that was stopped, or to more --steps"
    ),
    "evaluate": Command(
        "prudent.cli.evaluate:evaluate", "fresh episodes of a run's policy, and a video"
    ),
    "certify": Command(
        "prudent.cli.certify:certify",
        "prove that a policy keeps its budget, or that it does not",
        failed=2,  # 1 says that a limit is refuted
    ),
    "export": Command(
        "prudent.cli.export:export", "a run's policy as one file that acts without JAX"
    ),
    "diagnose": Command(
        "prudent.cli.diagnose:diagnose", "how wrong the cost estimates at a run's snapshots are"
    ),
    "experiment": Command(
        "prudent.cli.experiment:experiment", "the missing runs of one of the paper's figures"
    ),
    "sweep": Command(
        "prudent.cli.sweep:sweep",
        "a grid of your own: settings with several values are its axes",
    ),
    "report": Command(
        "prudent.cli.report:report", "figures, tables and a page to explore, of all runs in folders"
    ),
    "seeds": Command("prudent.cli.seeds:seeds", "what each run in folders did, one by one"),
    "claims": Command(
        "prudent.cli.claims:claims", "what runs in folders say of the paper's claims"
    ),
    "list": Command("prudent.cli.list:list_all", "algorithms, and tasks with their budgets"),
    "bench": Command("prudent.cli.bench:bench", "how fast this machine learns"),
    "completion": Command(
        "prudent.cli.completion:completion", "a script that completes these words in your shell"
    ),
    "run-one": Command("prudent.cli.run_one:run_one"),
}
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
        elif name in COMMANDS:
            failed = COMMANDS[name].failed
            call(resolve_name(COMMANDS[name].place), f"prudent {name}", others)
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


def show_commands(word: str) -> NoReturn:
    usable, complaints = package_commands(COMMANDS)
    note(*complaints)
    ours = {name: command.summary for name, command in COMMANDS.items() if command.summary}
    theirs = {name: f"{command.summary} [{command.package}]" for name, command in usable.items()}
    show_choices("prudent", ABOUT, ours | theirs, [word])
