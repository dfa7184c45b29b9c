"""Commands of installed packages: an entry point in the group `prudent.commands` is one.

The entry point's name is the command's, its object a function. Where the function's parameter is
declared as a dataclass, it gets these options, else the words that follow its name on the command
line. Its summary in `prudent --help` is the first line of its docstring.
"""

import sys
from collections.abc import Callable, Container
from pathlib import Path
from typing import NamedTuple

from prudent.settings import registration
from prudent.settings.registration import Offer, Unusable

GROUP = "prudent.commands"


class PackageCommand(NamedTuple):
    run: Callable[..., object]
    summary: str
    package: str  # with its version
    home: Path  # the folder, or the file, that the package's code is in


def find_package_command(name: str) -> PackageCommand | None:
    """The command of that name; `Unusable` is raised where its package cannot be used."""
    offers = registration.offers_in(GROUP).get(name)
    return load_command(name, offers) if offers else None


def load_command(name: str, offers: list[Offer]) -> PackageCommand:
    if len(offers) > 1:
        packages = " and ".join(offer.package for offer in offers)
        raise Unusable(f"command {name!r} is offered by {packages}; uninstall all but one")
    entry_point, package = offers[0]
    try:
        run = entry_point.load()
        if not callable(run):
            raise TypeError(f"{entry_point.value} is no function")
    except (Exception, SystemExit) as error:  # whatever somebody's code does when imported
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise Unusable(f"command {name!r} of {package} cannot be used ({reason})") from error
    summary = (run.__doc__ or "").strip().partition("\n")[0]
    return PackageCommand(run, summary, package, home_of(entry_point.module))


def home_of(module: str) -> Path:
    """The folder of the package that a module belongs to; a module that is in none is its own."""
    file = Path(getattr(sys.modules[module.partition(".")[0]], "__file__", None) or "")
    return file.parent if file.name == "__init__.py" else file


def package_commands(ours: Container[str]) -> tuple[dict[str, PackageCommand], list[str]]:
    """Those that can be used, by name, and a line for each that cannot."""
    usable, complaints = {}, []
    for name, offers in registration.offers_in(GROUP).items():
        if name in ours:
            complaints += [
                f"command {name!r} is prudent's; that of {o.package} is unused" for o in offers
            ]
            continue
        try:
            usable[name] = load_command(name, offers)
        except Unusable as error:
            complaints.append(str(error))
    return usable, complaints
