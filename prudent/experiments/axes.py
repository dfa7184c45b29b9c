"""Axes of a grid from words: each setting with the values that it has in turn."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from typing import get_type_hints as type_hints

from prudent.algorithms import find_algorithm
from prudent.experiments.grid import Variant, over
from prudent.settings.checks import conform, option


def with_axes(
    algorithms: Sequence[str], given: Mapping[str, Sequence[str]], say: Callable[[str], None]
) -> tuple[Variant, ...]:
    """Each algorithm with every combination of the values. An axis that an algorithm lacks is left
    out for it, so that it stands beside the others once; a value that is set must be everyone's.
    """
    hints = {name: hints_of(name) for name in algorithms}
    for setting, words in given.items():
        lacking = [name for name in algorithms if setting not in hints[name]]
        if lacking and (len(words) == 1 or len(lacking) == len(algorithms)):
            raise ValueError(f"{', '.join(lacking)} has no setting {setting!r} ({option(setting)})")
        for name in lacking:
            say(f"{name} has no setting {setting!r}: it is run once, without")
    return tuple(
        variant
        for name, known in hints.items()
        for variant in over(
            name,
            **{
                setting: [value_of(setting, word, known[setting]) for word in words]
                for setting, words in given.items()
                if setting in known
            },
        )
    )


def hints_of(algorithm: str) -> dict[str, Any]:
    entry = find_algorithm(algorithm)
    return {
        **type_hints(entry.config, include_extras=True),
        **type_hints(entry.schedule, include_extras=True),
    }


CONSTANTS = {"None": None, "True": True, "true": True, "False": False, "false": False}


def value_of(name: str, word: str, hint: Any) -> Any:
    """What the word says, of the kinds that the setting can be."""
    for value in (plain(word), tuple(map(plain, word.split(","))), word):
        try:
            return conform(name, value, hint)
        except ValueError:
            continue
    return conform(name, plain(word), hint)


def plain(word: str) -> Any:
    if word in CONSTANTS:
        return CONSTANTS[word]
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word
