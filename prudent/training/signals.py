"""Ctrl-C and SIGTERM as a request to stop, answered between two steps."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prudent.training.session import Session


@contextmanager
def stop_on_signal(session: Session[Any]) -> Iterator[None]:
    """The first finishes the step, saves, and stops; a second one stops at once."""

    def request(number: int, frame: Any) -> None:
        if session.stop_requested:
            raise KeyboardInterrupt
        session.stop_requested = True

    try:
        previous = {s: signal.signal(s, request) for s in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: signals are somebody else's
        yield
        return
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
