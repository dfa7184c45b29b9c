"""Names to which others can add: algorithms and tasks of ours, of a script, of installed packages.

A package offers what is its own by entry points: the group says what it is, the name is the name it
gets, and the object is what a script would register. These names are known without importing the
package; that happens when the first of them is used. So `--help` stays quick, and a package that
cannot be imported spoils nothing but its own names.
"""

import re
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # it becomes a word of a command and a folder

OURS = "prudent"
SCRIPT = "this script"


class Named(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def summary(self) -> str: ...


Thing = TypeVar("Thing", bound=Named)


class NotKnown(ValueError):
    """A name that stands for nothing in this process."""


class Unusable(ValueError):
    """A name that an installed package offers and that cannot be used; the message says why."""


class Registered(NamedTuple):
    thing: Any
    source: str  # OURS, SCRIPT, or a package and its version


class Usable(NamedTuple):
    """Whose each name is that can be used, and a line for each name of a package that cannot."""

    sources: dict[str, str]
    complaints: list[str]


class Home(NamedTuple):
    """Where one of ours is, so that it is imported only when it is used."""

    place: str  # module:NAME, which is the thing itself or a mapping that has it by its name
    summary: str = ""  # where it is wanted before the import


class Registry(Mapping[str, Thing]):
    """Things by name. Looking for a name imports nothing; a thing of ours or of a package is
    imported when it is taken. `Unusable` is raised where that fails for a package's.
    """

    def __init__(
        self,
        what: str,
        group: str,
        check: Callable[[Any], None],
        ours: Mapping[str, Home] = MappingProxyType({}),
        *,
        prepare: Callable[[], None] | None = None,
        others: Mapping[str, Container[str]] = MappingProxyType({}),
    ) -> None:
        self.what = what  # one of them is called this
        self.group = group  # of entry points
        self._check = check  # refuses with a ValueError what cannot be one of them
        self._ours = ours  # a test checks what they lead to
        self._prepare = prepare  # before one of them is imported
        self._others = others  # names that stand for something else, by what that is
        self._known: dict[str, Registered] = {}  # what has been imported or registered

    def register(self, thing: Thing, source: str = SCRIPT, replace: bool = False) -> Thing:
        """Make it known by its name, of which there must be no other.

        With `replace` it may take the place of one that a script has registered (in a notebook, of
        a cell that was run before).
        """
        self._check(thing)
        name = thing.name
        if complaint := self._name_complaint(name):
            raise ValueError(f"{self.what} {name!r}: {complaint}")
        summary: Any = thing.summary
        if not (isinstance(summary, str) and summary.isprintable()):
            raise ValueError(
                f"{self.what} {name!r}: its summary is {summary!r}; one line is needed"
            )
        if name in self._ours:
            raise ValueError(f"there is {self.what} {name!r} already, of {OURS}")
        before = self._known.get(name)
        if before is not None and before.thing is thing:
            return thing
        if before is not None and not (replace and before.source == source == SCRIPT):
            raise ValueError(f"there is {self.what} {name!r} already, of {before.source}")
        if source == SCRIPT and name in self._offered():
            with suppress(Unusable):
                if self[name] is thing:
                    return thing
            raise ValueError(
                f"{self.what} {name!r} is there already: {self._offered()[name][0].package} offers "
                "it by an entry point, which needs no registering besides"
            )
        self._known[name] = Registered(thing, source)
        return thing

    def forget(self, name: str) -> None:
        """Undo what a script has registered."""
        if name in self._known and self._known[name].source == SCRIPT:
            del self._known[name]

    def find(self, name: str) -> Thing:
        if name not in self:
            raise NotKnown(f"no {self.what} {name!r}; there is: {', '.join(self)}")
        return self[name]

    def source(self, name: str) -> str:
        """Whose it is."""
        if name in self._ours:
            return OURS
        self.find(name)
        return self._known[name].source

    def summary(self, name: str) -> str:
        known = self._ours.get(name)
        return known.summary if known and known.summary else self.find(name).summary

    def check_installed(self, name: str) -> None:
        """Refuse what other processes would not find."""
        if self.source(name) == SCRIPT:
            raise ValueError(
                f"{self.what} {name!r} is known to this script alone, and these runs have "
                f"processes of their own; {self.how_to_install()}"
            )

    def how_to_install(self) -> str:
        return f"install it as a package with an entry point in {self.group} (docs/extending.md)"

    def unused(self, name: str) -> list[str]:
        """What to tell whoever takes the name for that of a package's, while it is ours."""
        offers = self._offered().get(name, [])
        if name not in self._ours:
            return []
        return [f"{self.what} {name!r} is ours; that of {o.package} is unused" for o in offers]

    def usable(self, load: bool = True) -> Usable:
        """Nothing of ours is imported; what packages offer is, unless told not to: then each name
        counts as usable.
        """
        complaints = [
            f"{self.what} {name!r} of {offer.package} cannot be used: {complaint}"
            for name, offers in offers_in(self.group).items()
            if (complaint := self._name_complaint(name))
            for offer in offers
        ]
        others = {name: known.source for name, known in self._known.items() if known.source != OURS}
        for name, offers in self._offered().items():
            complaints += self.unused(name)
            if name in self._ours:
                continue
            try:
                if load:
                    self[name]
                others[name] = offers[0].package
            except Unusable as error:
                complaints.append(str(error))
        return Usable(dict.fromkeys(self._ours, OURS) | others, complaints)

    def __getitem__(self, name: str) -> Thing:
        if name not in self._known and name in self._ours:
            self._import(name)
        elif name not in self._known:
            self._load(name, self._offered()[name])
        thing: Thing = self._known[name].thing
        return thing

    def __contains__(self, name: object) -> bool:
        return name in self._ours or name in self._known or name in self._offered()

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys([*self._ours, *self._known, *self._offered()])

    def __len__(self) -> int:
        return len(self._ours.keys() | self._known.keys() | self._offered().keys())

    def _import(self, name: str) -> None:
        """One of ours."""
        if self._prepare:
            self._prepare()
        module, _, attribute = self._ours[name].place.partition(":")
        found = getattr(import_module(module), attribute)
        thing = found[name] if isinstance(found, Mapping) else found
        self._known[name] = Registered(thing, OURS)

    def _name_complaint(self, name: Any) -> str:
        """What keeps this from being a name, if anything does."""
        if not isinstance(name, str) or not NAME.fullmatch(name):
            return "a name is letters, digits, '-', '_' and '.', the first a letter or digit"
        taken = [what for what, names in self._others.items() if name in names]
        return f"it is that of {taken[0]}; a name of its own is needed" if taken else ""

    def _offered(self) -> dict[str, "list[Offer]"]:
        """What is offered under something else than a name takes nothing away from anybody."""
        found = offers_in(self.group)
        return {name: offers for name, offers in found.items() if not self._name_complaint(name)}

    def _load(self, name: str, offers: "list[Offer]") -> None:
        offer, *others = offers
        if others:
            packages = " and ".join(each.package for each in offers)
            raise Unusable(f"{self.what} {name!r} is offered by {packages}; uninstall all but one")
        if self._prepare:
            self._prepare()
        try:
            thing = offer.entry_point.load()
            if getattr(thing, "name", name) != name:
                raise ValueError(f"the entry point leads to one that is named {thing.name!r}")
            self.register(thing, offer.package)
        except (Exception, SystemExit) as error:  # whatever somebody's code does when imported
            said = " ".join(f"{type(error).__name__}: {error}".split())
            raise Unusable(
                f"{self.what} {name!r} of {offer.package} cannot be used ({said}{outdated(error)})"
            ) from error


RENAMED = "it was written for a version before 0.5; docs/extending.md has old and new names"


def outdated(error: BaseException) -> str:
    """What to add to an error about a name of ours that is gone."""
    module = error.name if isinstance(error, ImportError) else None
    if isinstance(error, AttributeError):
        module = getattr(error.obj, "__name__", None)
    return f"; {RENAMED}" if f"{module}".startswith("prudent.") else ""


class Offer(NamedTuple):
    entry_point: EntryPoint
    package: str  # with its version


@cache
def offers_in(group: str) -> dict[str, list[Offer]]:
    """What the installed packages offer, by name."""
    found: dict[str, list[Offer]] = {}
    for entry_point in entry_points(group=group):
        package = entry_point.dist
        offer = Offer(entry_point, f"{package.name} {package.version}" if package else "a package")
        found.setdefault(entry_point.name, []).append(offer)
    return found
