"""`prudent certify`: what it is asked, what a person sees, and how it ends."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from prudent.certification import certifying
from prudent.certification.certificate import check_out, write_certificate
from prudent.certification.certifying import Watch
from prudent.certification.question import (
    Progress,
    Question,
    in_cost,
    needed_at_least,
    of_share,
)
from prudent.cli.options import SameEnvironment, Snapshot, without
from prudent.files import to_json
from prudent.settings.checks import Count, CountOrZero, Finite

EXIT_CODES = {"certified": 0, "refuted": 1, "undecided": 3}  # 2: it could not be tried


@dataclass(frozen=True)
class CertifyOptions:
    policy: Annotated[Path, tyro.conf.Positional]
    """A run's folder or an exported policy."""
    budget: Finite | None = None
    """The mean cost of an episode to prove (default: the budget it was trained for)."""
    confidence: float = 0.95
    """A false certificate and a false refutation each have at most the rest for a probability."""
    share: float | None = None
    """Prove as well that at least this share of episodes is within the budget."""
    max_episodes: Count = 1000
    """Stop undecided after so many."""
    max_cost: Finite | None = None
    """The most one episode can cost, in the budget's unit, where the task does not say."""
    min_cost: Finite | None = None
    """The least one episode can cost (default: what the task says, else 0)."""
    task: str | None = None
    """Of an exported policy, instead of the task it was trained on."""
    env: SameEnvironment = None
    step: Snapshot = None
    seed: CountOrZero | None = None
    """Of the episodes (default: drawn, and recorded)."""
    out: Path | None = None
    """The certificate, which replaces an older one of that name; a picture stands beside it
    (default: certificate.json, or the first of certificate-2.json ... that is free)."""
    json: bool = False
    """Print the certificate instead of a summary."""


def certify(options: CertifyOptions) -> None:
    """Ends the process with the verdict's code."""
    out = first_free() if options.out is None else options.out
    picture = out.with_suffix(".png")
    check_picture(out, picture)
    check_out(out)
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    try:
        with terminated_like_interrupted(), watching(console, options.max_episodes) as watch:
            asked = without(options, "policy", "out", "json")
            found = certifying.certify(options.policy, **asked, watch=watch)
    except SystemExit as stop:  # of somebody's code: no verdict of ours
        raise RuntimeError(f"the environment ended the process (code {stop.code})") from None
    # Whichever of the two cannot be written, the other has the verdict.
    try:
        print(to_json(found, indent=2) if options.json else verdict_in_words(found), flush=True)
    finally:
        write_certificate(found, out)
    told = f"certificate: {out}, picture: {picture}"
    try:
        from prudent.certification.figure import draw_certificate

        draw_certificate(found, picture)
    except Exception as error:  # the verdict stands without it
        told = f"certificate: {out}; there is no picture ({error})"
    if not options.json:
        print(told, flush=True)
    sys.exit(EXIT_CODES[found["verdict"]])


def first_free() -> Path:
    """A name for a certificate and its picture that nothing has yet."""
    path, number = Path("certificate.json"), 1
    while path.exists() or path.with_suffix(".png").exists():
        number += 1
        path = Path(f"certificate-{number}.json")
    return path


def check_picture(out: Path, picture: Path) -> None:
    """That no picture of somebody else's is in the way: ours stand beside a certificate."""
    if picture.exists() and not (picture.is_file() and out.exists()):
        raise ValueError(f"--out is {out}, and its picture would replace {picture}; name another")


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM, as `timeout` sends it, ends a proof like Ctrl-C: with what is known by then."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def watching(console: Console, most: int) -> Iterator[Watch]:
    """A bar on a terminal, elsewhere a line whenever there are twice as many episodes."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("episodes at most"),
        TimeElapsedColumn(),
    )
    bar = Bar(*columns, console=console, disable=not console.is_terminal, transient=True)
    task, told, heard = bar.add_task("", total=most), 0, True

    def show(question: Question, progress: Progress) -> None:
        nonlocal told
        number, text = progress.episodes, state(question, progress)
        if number == 1:
            console.print(outlook(question), markup=False)
        bar.update(task, completed=number, description=text)
        if not console.is_terminal and number >= 2 * told:
            told = number
            console.print(f"{number} episode{'s' if number > 1 else ''}: {text}", markup=False)

    def watch(question: Question, progress: Progress) -> None:
        nonlocal heard
        if not heard:
            return
        try:
            show(question, progress)
        except (OSError, SystemExit):  # Rich leaves by the latter where nobody reads any more
            heard = False

    with bar:
        yield watch


def outlook(question: Question) -> str:
    low, high, source, _ = question.bound
    least = needed_at_least(question)
    text = (
        f"an episode costs between {low:g} and {high:g} ({source}); "
        f"to certify takes {least} episodes if none costs more than {low:g}, else more"
    )
    return text if least <= question.max_episodes else f"{text}: --max-episodes allows fewer"


def state(question: Question, progress: Progress) -> str:
    last = progress.points[-1]
    low, high = in_cost(question, last.intervals[0])
    text = f"mean cost {last.cost:.4g} [{low:.4g}, {high:.4g}], budget {question.budget:g}"
    if question.share is not None:
        low, high = of_share(last.intervals[1])
        text += f", within it {last.within_budget:.1%} [{low:.1%}, {high:.1%}]"
    return text


def verdict_in_words(found: dict[str, Any]) -> str:
    count, (low, high) = found["episodes"], found["cost_interval"]
    lines = [
        f"{found['verdict']}: {found['statement']}",
        f"{count} episode{'s' if count > 1 else ''}, {found['actions']} actions: mean cost "
        f"{found['cost']:.6g} [{low:.6g}, {high:.6g}] ({found['unit']}), "
        f"within budget {found['within_budget']:.1%}",
    ]
    if "within_budget_interval" in found:
        low, high = found["within_budget_interval"]
        lines[-1] += f" [{low:.1%}, {high:.1%}]"
    if found["actions"] == "sampled":
        lines.append(
            "every episode of this task starts alike, so actions were sampled as in training; "
            "greedy ones would repeat one episode, of which this says nothing"
        )
    if found["identical_episodes"]:
        lines.append("all episodes were the same: nothing here is random, and one would have done")
    if not found["environment"]["follows_seed"]:
        lines.append(
            "the environment begins differently each time it is reset with one seed: these "
            "episodes cannot be repeated, and nothing tells whether training had the same ones"
        )
    if found["interrupted"]:
        lines.append("stopped by Ctrl-C or SIGTERM")
    lines.append(f"seed {found['seed']}, policy {found['policy']['checksum'][:16]}")
    return "\n".join(lines)
