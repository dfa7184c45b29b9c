"""Which colour and marker stand for which runs: an algorithm has one colour in every figure.

Several settings of one algorithm are shades of its colour, from light to dark. Markers differ too,
for readers who cannot tell the colours apart and for black-and-white prints.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

from prudent.algorithms import OURS
from prudent.report.records import Record

# Of figures whose lines have no algorithm of their own.
COLOURS = (
    *("#1b6ca8", "#d1603d", "#4b9b61", "#7d5ba6", "#8c7a3d"),
    *("#444444", "#c8418c", "#2bb1b8", "#e3a51a", "#8b1e3f"),
)
# Middle tones, which can be read on white and on black, in the order of `algorithms.OURS`;
# those of the off-policy algorithms after Okabe and Ito.
ALGORITHM_COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#808080", "#cc79a7", "#d99100", "#7f4fc9"),
    *("#a6563a", "#1799a8", "#c2255c", "#5f8f1f", "#4c6ef5", "#9c7a00", "#b04fc0", "#5c7080"),
)
SPARE_COLOURS = ("#2f9e8f", "#e8590c", "#6741d9", "#66a80f", "#d6336c", "#1c7ed6", "#8d6e63")
MARKERS = "osD^vPX"


class Look(NamedTuple):
    colour: str
    marker: str  # matplotlib's name of it


def looks_of(
    groups: Mapping[str, Sequence[Record]], algorithms: Iterable[str] = ()
) -> dict[str, Look]:
    """A look for each label. Name all `algorithms` of a report: unknown ones share the spare ones
    in the order of their names.
    """
    of = {label: str(records[0].run["algorithm"]) for label, records in groups.items()}
    colours = algorithm_colours([*algorithms, *of.values()])
    looks = {}
    for label, algorithm in of.items():
        siblings = [other for other in of if of[other] == algorithm]
        place, index = siblings.index(label), list(colours).index(algorithm)
        colour = shade(colours[algorithm], place, len(siblings))
        looks[label] = Look(colour, MARKERS[(index + place) % len(MARKERS)])
    return looks


def algorithm_colours(algorithms: Iterable[str]) -> dict[str, str]:
    """Of our own, and of these."""
    known = dict(zip(OURS, ALGORITHM_COLOURS, strict=False))
    others = sorted(set(algorithms) - set(known))
    return known | dict(zip(others, cycle(SPARE_COLOURS), strict=False))


def shade(colour: str, place: int, count: int) -> str:
    """One of `count` tones from light to dark; the colour itself if it is the only one."""
    if count == 1:
        return colour
    lightness = 0.4 - 0.8 * place / (count - 1)  # share of the way to white, or below 0 to black
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    towards = 255 if lightness > 0 else 0
    mixed = (round(part + abs(lightness) * (towards - part)) for part in parts)
    return "#" + "".join(f"{part:02x}" for part in mixed)
