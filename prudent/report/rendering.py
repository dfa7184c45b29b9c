"""Matplotlib figures as files: equal figures give equal bytes. No window is ever opened."""

import io
import warnings
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from prudent.files import write_atomically
from prudent.report.stored import printable


def literally(text: str) -> str:
    """Text that matplotlib shows as it is: a `$` begins no formula."""
    return printable(text).replace("$", r"\$")


def save(figure: Any, path: Path, dpi: int = 110) -> None:
    """In the format of the name's ending, and gone from memory. Equal figures give equal bytes."""
    write_atomically(path, rendered(figure, path.suffix, dpi))
    plt.close(figure)


def rendered(figure: Any, suffix: str, dpi: int, packing: int = 6) -> bytes:
    """`packing`: how hard PNG is compressed, 0 to 9."""
    content = io.BytesIO()
    options: dict[str, Any] = {}
    if suffix == ".svg":  # which would otherwise hold today's date and random names
        options = {"metadata": {"Date": None}}
    elif suffix == ".png":
        options = {"pil_kwargs": {"compress_level": packing}}
    with warnings.catch_warnings(), matplotlib.rc_context({"svg.hashsalt": "prudent"}):
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in a script it lacks
        figure.savefig(content, dpi=dpi, format=suffix.removeprefix(".") or None, **options)
    return content.getvalue()
