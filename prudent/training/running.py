"""What stands around both training loops: one writer, signals, a progress bar, an orderly end."""

from collections.abc import Callable
from typing import Any

from prudent.files import only_writer
from prudent.training.session import C, Place, Session, close_session
from prudent.training.signals import stop_on_signal


def run_session(
    place: Place,
    open_one: Callable[[], Session[C]],
    run_to_end: Callable[[Session[C]], dict[str, Any]],
    warmup_steps: int = 0,
) -> dict[str, Any]:
    """Train until the schedule ends, going on from the folder's newest checkpoint if it has one.

    Returns the last line of `progress.jsonl`.
    """
    with only_writer(place.folder):
        session = open_one()
        try:
            bar = place.reporter.following(session.step, place.run.schedule.steps, warmup_steps)
            with stop_on_signal(session), bar:
                return run_to_end(session)
        finally:
            close_session(session)
