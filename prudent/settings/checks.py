"""Settings that are checked: a field's type and range stand beside its default and its meaning.

A settings class is a frozen dataclass whose every field has a default. `checked` is the one place
where values are held against what their fields declare, however they arrive: from the command line,
from Python or from a run's own record.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin
from typing import get_type_hints as type_hints

Settings = TypeVar("Settings")
Values = Mapping[str, Any]  # settings by name


class Range(NamedTuple):
    """Bounds of a number, which it may reach unless `open_low` or `open_high` say otherwise."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def holds(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below and math.isfinite(value)

    def __str__(self) -> str:
        low = f"{'above' if self.open_low else 'at least'} {self.low:.15g}"
        high = f"{'below' if self.open_high else 'at most'} {self.high:.15g}"
        bounds = [text for text, at in ((low, self.low), (high, self.high)) if math.isfinite(at)]
        return " and ".join(bounds) or "that is finite"


class StoredIfChanged(NamedTuple):
    """Marks a setting that came after runs were stored without it.

    At its default, which changes nothing, it is not stored: so runs that do not use it keep the
    identity, and the folder, that they always had.
    """


STORED_IF_CHANGED = StoredIfChanged()
Finite = Annotated[float, Range()]
Positive = Annotated[float, Range(0, open_low=True)]
NotNegative = Annotated[float, Range(0)]
Share = Annotated[float, Range(0, 1)]  # both ends included
PositiveShare = Annotated[float, Range(0, 1, open_low=True)]
Count = Annotated[int, Range(1)]
CountOrZero = Annotated[int, Range(0)]
Seed = Annotated[int, Range(0, 2**32 - 1)]


def unstored(settings: Any) -> set[str]:
    """The fields of a settings class that came later and are at their default."""
    hints = type_hints(type(settings), include_extras=True)
    return {
        field.name
        for field in fields(settings)
        if STORED_IF_CHANGED in getattr(hints[field.name], "__metadata__", ())
        and getattr(settings, field.name) == field.default
    }


def field_names(*settings: Any) -> set[str]:
    return {field.name for each in settings for field in fields(each)}


def fitting(values: Values, *settings: Any) -> dict[str, Any]:
    """Those of the values that one of the settings classes has a field for."""
    known = field_names(*settings)
    return {name: value for name, value in values.items() if name in known}


def option(name: str) -> str:
    """The name as the command line has it."""
    return f"--{name.replace('_', '-')}"


def checked(settings: Settings, **values: Any) -> Settings:
    """The settings with these values, each of its field's type and within its range."""
    hints = type_hints(type(settings), include_extras=True)
    known = field_names(settings)
    unknown = sorted(values.keys() - known)
    if unknown:
        raise ValueError(
            f"no setting named {', '.join(unknown)}; there is: {', '.join(sorted(known))}"
        )
    sound = {
        name: conform(name, values.get(name, getattr(settings, name)), hints[name])
        for name in sorted(known)
    }
    return replace(settings, **sound)  # type: ignore[type-var]


def check(settings: Any) -> None:
    """Hold the values of a class that no command line has against its fields, as it is made."""
    for name, hint in type_hints(type(settings), include_extras=True).items():
        value = getattr(settings, name)
        if _match(value, hint) is _WRONG:
            raise ValueError(f"{name} is {value!r}; it must be {_describe(hint)}")


def conform(name: str, value: Any, hint: Any) -> Any:
    """The value as its field stores it, or an error that names option, value and range.

    A whole number where a real one is meant becomes real: 10 and 10.0 are one setting.
    """
    stored = _match(value, hint)
    if stored is _WRONG:
        raise ValueError(f"{option(name)} is {value!r}; it must be {_describe(hint)}")
    return stored


_WRONG = object()


def _match(value: Any, hint: Any) -> Any:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        found = _match(value, parts[0])
        ranges = [bounds for bounds in parts[1:] if isinstance(bounds, Range)]
        within = found is _WRONG or all(bounds.holds(found) for bounds in ranges)
        return found if within else _WRONG
    if origin in (Union, UnionType):
        return next((f for f in (_match(value, part) for part in parts) if f is not _WRONG), _WRONG)
    if origin is Literal:
        return next((c for c in parts if value == c and type(value) is type(c)), _WRONG)
    if origin is tuple:
        if not isinstance(value, Sequence) or isinstance(value, str):
            return _WRONG
        hints = parts[:1] * len(value) if parts[1:] == (...,) else parts
        if len(hints) != len(value):
            return _WRONG
        items = tuple(_match(*pair) for pair in zip(value, hints, strict=True))
        return _WRONG if any(item is _WRONG for item in items) else items
    if origin is Callable:
        return value if callable(value) else _WRONG
    return _match_plain(value, hint)


def _match_plain(value: Any, kind: Any) -> Any:
    if kind in (int, float) and isinstance(value, bool | str):
        return _WRONG
    try:
        if kind is int:
            return operator.index(value)
        if kind is float:
            return float(value)
    except (TypeError, ValueError, OverflowError):
        return _WRONG
    return value if isinstance(value, kind) else _WRONG


NAMES = {int: "a whole number", float: "a number", bool: "True or False", NoneType: "None"}


def _describe(hint: Any) -> str:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        ranges = [str(bounds) for bounds in parts[1:] if isinstance(bounds, Range)]
        return " ".join([_describe(parts[0]), *ranges])
    if origin in (Union, UnionType):
        return " or ".join(map(_describe, parts))
    if origin is Literal:
        return "one of " + ", ".join(map(str, parts))
    if origin is tuple and parts[1:] == (...,):
        return f"a list, each item {_describe(parts[0])}"
    if origin is tuple:
        return f"{len(parts)} items: {', '.join(map(_describe, parts))}"
    if origin is Callable:
        return "a function"
    return NAMES.get(hint, getattr(hint, "__name__", str(hint)))
