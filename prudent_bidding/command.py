"""`prudent bidding ...`: its commands, each imported when it is asked for."""

import os
import sys
import threading
import time
from importlib import import_module
from typing import NamedTuple


class Command(NamedTuple):
    place: str  # module:function, of the words that follow the command
    summary: str = ""


COMMANDS = {
    "simulate": Command(
        "simulate_command:main", "weeks of an advertising market, written as Parquet files"
    ),
    "calibrate": Command(
        "calibration:main", "what rule policies do in a world, against the targets it was set to"
    ),
    "run": Command(
        "run_command:main",
        "the semi-batch protocol: incumbent log, weekly updates, deployments, tables",
    ),
    "report": Command("run_command:report", "tables, figure and page of a run made anew"),
    "compare": Command(
        "comparison:main", "runs of one plan in several worlds: tables with intervals, and a figure"
    ),
    "import": Command("importing:main", "your own log, or AuctionNet's, as a data set"),
    "inspect": Command("inspection:main", "what a log can tell about its action"),
    "fit": Command(
        "fit_command:main", "learn once from logged weeks, your own or simulated; export the policy"
    ),
    "bench": Command("bench:main", "how fast this machine simulates, against what it could"),
}
USAGE = "\n".join(
    [
        "usage: prudent bidding COMMAND ...\n",
        *(f"  {name:<12} {command.summary}" for name, command in COMMANDS.items()),
    ]
)
INTERNAL = {"learn": Command("command:learn")}  # which `run` gives


def learn(arguments: list[str]) -> None:
    """For `run`: one algorithm's update of one week, in a process of its own."""
    from prudent import backend

    if len(arguments) < 4:
        raise ValueError("`prudent bidding learn` is for `prudent bidding run`; give that instead")
    threading.Thread(target=end_with, args=(int(arguments[3]),), daemon=True).start()
    backend.prepare()
    from prudent_bidding.arms import main as learn_one

    learn_one(arguments)


def end_with(parent: int) -> None:
    """End this process once the run that started it has ended: its result is no longer read."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def main(arguments: list[str]) -> None:
    """An advertising market: simulate it, learn from its logs."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return
    command = {**COMMANDS, **INTERNAL}.get(arguments[0])
    if command is None:
        raise ValueError(
            f"no command `prudent bidding {arguments[0]}`; there is: {', '.join(COMMANDS)}"
        )
    module, _, name = command.place.partition(":")
    try:
        getattr(import_module(f"prudent_bidding.{module}"), name)(arguments[1:])
    except KeyboardInterrupt:
        sys.exit("\nStopped; what was finished is kept. The same command goes on with the rest.")
