"""For the reference: a field's comment is its description where it has no docstring.

In the code `budget: float  # as the task states it` says what the field is, beside it.
"""

import tokenize
from functools import cache
from pathlib import Path
from typing import Any

import griffe


class CommentsAsDocstrings(griffe.Extension):
    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """The comment at the field's end, else the one above it."""
        if attr.docstring or attr.endlineno is None or not isinstance(attr.filepath, Path):
            return
        beside, above = comments(attr.filepath)
        text = beside.get(attr.endlineno) or block(above, attr.lineno or 0)
        if text:
            attr.docstring = griffe.Docstring(text[0].upper() + text[1:], parent=attr)


@cache
def comments(path: Path) -> tuple[dict[int, str], dict[int, str]]:
    """By line number: those after code, and those that have a line of their own."""
    beside: dict[int, str] = {}
    above: dict[int, str] = {}
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.COMMENT:
                alone = token.line.lstrip().startswith("#")
                (above if alone else beside)[token.start[0]] = token.string.lstrip("# ")
    return beside, above


def block(above: dict[int, str], line: int) -> str:
    lines: list[str] = []
    while line - 1 in above:
        line -= 1
        lines.insert(0, above[line])
    return " ".join(lines)
