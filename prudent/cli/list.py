"""`prudent list`."""

from dataclasses import dataclass

from prudent.algorithms import ALGORITHMS
from prudent.cli.options import note
from prudent.settings.registration import OURS
from prudent.tasks import TASKS


@dataclass(frozen=True)
class ListOptions:
    check: bool = False
    """Also import the algorithms of installed packages, which may take a while, and tell which of
    them cannot be used."""


def list(options: ListOptions) -> None:
    algorithms, tasks = ALGORITHMS.usable(load=options.check), TASKS.usable()
    print("algorithms")
    for name, source in algorithms.sources.items():
        summary = ALGORITHMS.summary(name) if options.check or source == OURS else ""
        print(f"  {name:<11} {summary}{from_package(source)}")
    print("\ntasks (budget: cost allowed per episode)")
    for name, source in tasks.sources.items():
        task = TASKS[name]
        budget = f"{task.constraint.budget:g} {task.constraint.unit}"
        about = f"{task.summary}{from_package(source)}"
        print(f"  {name:<24} {budget:<38} {task.horizon:>5} steps  {about}")
    note(*algorithms.complaints, *tasks.complaints)


def from_package(source: str) -> str:
    return "" if source == OURS else f" [{source}]"
