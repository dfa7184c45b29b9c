"""What a person sees when a command fails: one line, or the traceback of code that is theirs."""

import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

OURS = Path(__file__).parents[1]
# Where an environment, its cost function or a warm-up policy is called: the user's code.
CALLERS = tuple(
    str(OURS / name)
    for name in ("tasks/adapter.py", "tasks/custom.py", "tasks/costs.py", "training/warmup.py")
)


def last_words(error: BaseException, home: Path = OURS) -> str:
    """The line to end with. Where the user's own code raised, its traceback stands above it.

    `home` is the folder or file of the command's code, whose messages are written for people.
    """
    theirs = users_traceback(error)
    if theirs is None:
        return f"prudent: {one_line(error, home)}"
    traceback.print_exception(type(error), error, theirs, file=sys.stderr)
    place = traceback.extract_tb(theirs)[-1]
    where = f"{Path(place.filename).name}, line {place.lineno}"
    return f"prudent: the environment raised {type(error).__name__} ({where}; traceback above)"


def one_line(error: BaseException, home: Path = OURS) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return (
            f"not enough memory ({text or 'an array could not be allocated'}); choose smaller sizes"
        )
    if is_written_for_people(error, (OURS, home)):
        return text
    hint = "--debug before the command shows where"
    return f"{type(error).__name__}: {text or 'no message'} ({hint})"


def is_written_for_people(error: BaseException, homes: Iterable[Path]) -> bool:
    """Whether the error was raised, with a message of its own, in one of these places."""
    if not isinstance(error, ValueError | RuntimeError | OSError):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return not frames or any(Path(frames[-1].filename).is_relative_to(home) for home in homes)


def users_traceback(error: BaseException) -> TracebackType | None:
    """From where a user's own code was entered, if the error was raised in there."""
    step, entered, callable_here = error.__traceback__, None, False
    while step is not None:
        name = step.tb_frame.f_code.co_filename
        if Path(name).is_relative_to(OURS):
            callable_here, entered = name in CALLERS, None
        elif callable_here and entered is None:
            entered = step
        step = step.tb_next
    return entered
