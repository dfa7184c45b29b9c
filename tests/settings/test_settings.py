"""Settings are held against what their fields declare, in one place."""

import math
from dataclasses import dataclass
from typing import Literal

import pytest

from prudent.settings.checks import (
    Count,
    CountOrZero,
    Finite,
    NotNegative,
    Positive,
    PositiveShare,
    Range,
    Share,
    checked,
)


@dataclass(frozen=True)
class Example:
    count: Count = 1
    count_or_zero: CountOrZero = 0
    finite: Finite = 0.0
    positive: Positive = 1.0
    not_negative: NotNegative = 0.0
    share: Share = 0.5
    positive_share: PositiveShare = 0.5
    choice: Literal["left", "right"] = "left"
    number: Literal[0, 1] = 0
    flag: bool = False
    maybe: Positive | None = None
    ratio: Count | Positive = 1
    sizes: tuple[Count, ...] = (4, 4)
    bounds: tuple[Finite | None, Positive] | None = None


GOOD = [
    ("count", 1), ("count_or_zero", 0), ("finite", -1e300), ("positive", 1e-300),
    ("not_negative", 0.0), ("share", 0.0), ("share", 1.0), ("positive_share", 1.0),
    ("choice", "right"), ("number", 1), ("flag", True), ("maybe", 2.0), ("maybe", None),
    ("ratio", 2), ("ratio", 0.5), ("sizes", (3,)), ("sizes", ()), ("bounds", (None, 1.0)),
    ("bounds", (-2.0, 1.0)), ("bounds", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), GOOD)
def test_what_a_field_takes(name, value):
    found = getattr(checked(Example(), **{name: value}), name)
    assert found == value
    assert type(found) is type(value)


BAD = [
    ("count", 0), ("count", 1.5), ("count", True), ("count", "3"), ("count_or_zero", -1),
    ("finite", math.inf), ("finite", math.nan), ("finite", "1"), ("finite", True),
    ("positive", 0.0), ("positive", math.inf), ("not_negative", -1e-9), ("share", 1.0001),
    ("share", -0.1), ("positive_share", 0.0), ("choice", "up"), ("number", 2), ("number", True),
    ("flag", 1), ("maybe", 0.0), ("maybe", "None"), ("ratio", 0), ("ratio", -0.5),
    ("sizes", 3), ("sizes", "44"), ("sizes", (0,)), ("sizes", (1.5,)),
    ("bounds", (1.0,)), ("bounds", (1.0, 2.0, 3.0)), ("bounds", ()), ("bounds", (1.0, -2.0)),
    ("bounds", (1.0, None)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD)
def test_what_a_field_refuses(name, value):
    with pytest.raises(ValueError, match=f"^--{name.replace('_', '-')} is .*; it must be "):
        checked(Example(), **{name: value})


def test_whole_numbers_become_real_where_these_are_meant():
    found = checked(Example(), positive=10, sizes=[2, 3])
    assert type(found.positive) is float
    assert found.sizes == (2, 3)
    assert found == checked(Example(), positive=10.0, sizes=(2, 3))


def test_errors_say_what_was_found_and_what_is_needed():
    with pytest.raises(ValueError, match=r"^--share is 2; it must be a number at least 0 and at"):
        checked(Example(), share=2)
    with pytest.raises(ValueError, match=r"must be a number above 0 or None$"):
        checked(Example(), maybe=0.0)
    with pytest.raises(ValueError, match=r"must be one of left, right$"):
        checked(Example(), choice="up")
    with pytest.raises(ValueError, match=r"must be a list, each item a whole number at least 1$"):
        checked(Example(), sizes=3)
    with pytest.raises(ValueError, match=r"^no setting named shares; there is: bounds, choice, "):
        checked(Example(), shares=0.1)
    assert str(Range(0, 1, open_high=True)) == "at least 0 and below 1"
    assert not Range(0, 1, open_high=True).holds(1.0)
