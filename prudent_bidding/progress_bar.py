"""A bar on the terminal, where there is one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def bar(title: str, total: int, silent: bool) -> Iterator[Callable[[int, str], None]]:
    """Yields a function of how much is done, and of words to show beside it."""
    console = Console(stderr=True)
    columns = (
        *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
        *(TextColumn("{task.fields[words]}"), TimeRemainingColumn()),
    )
    hidden = silent or not console.is_terminal
    with Progress(*columns, console=console, disable=hidden) as progress:
        task = progress.add_task(title, total=total, words="")
        yield lambda done, words: progress.update(task, completed=done, words=words)
