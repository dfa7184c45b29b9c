"""How long something takes at best, with others at work on the same machine."""

from collections.abc import Callable, Sequence
from time import perf_counter

PIECE_SECONDS = 0.02  # about ten updates at batch 12, or one at batch 256
ROUNDS = 40


def best_seconds(action: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        began = perf_counter()
        action()
        best = min(best, perf_counter() - began)
    return best


class Piece:
    """An action repeated for about as long as every other piece takes, and its best time so far.

    A busy neighbour then slows all of them alike; a short piece would find the
    quiet moments that a long one cannot.
    """

    def __init__(self, action: Callable[[], object], piece_seconds: float) -> None:
        self.action = action
        self.repeats = max(1, round(piece_seconds / best_seconds(action, 3)))
        self.seconds = float("inf")

    def measure(self) -> None:
        began = perf_counter()
        for _ in range(self.repeats):
            self.action()
        self.seconds = min(self.seconds, (perf_counter() - began) / self.repeats)


def best_in_turns(actions: Sequence[Callable[[], object]], finer: int = 1) -> list[float]:
    """The best seconds of each, measured in turns so that noise meets all; in pieces so many times
    `finer`, and as many more of them, where all actions are short.
    """
    pieces = [Piece(action, PIECE_SECONDS / finer) for action in actions]
    for _ in range(finer * ROUNDS):
        for piece in pieces:
            piece.measure()
    return [piece.seconds for piece in pieces]
