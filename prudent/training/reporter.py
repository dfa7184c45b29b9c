"""What a person sees while a run trains: a bar on a terminal, plain lines elsewhere."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from prudent.settings.run import Run
from prudent.settings.schedules import OnPolicySchedule, SemiBatchSchedule

Sink = Callable[[dict[str, Any]], None]  # takes numbers and the step they are of


class Reporter:
    def __init__(self, quiet: bool = False, sinks: Sequence[Sink] = ()) -> None:
        self._console = Console(quiet=quiet, soft_wrap=True, highlight=False)
        self._sinks = sinks
        self._progress: Progress | None = None
        self._warned = False

    def say(self, text: str) -> None:
        self._console.print(text, markup=False)

    @contextmanager
    def following(self, step: int, steps: int, warmup_steps: int = 0) -> Iterator[None]:
        """Show a live bar while the block runs, if there is a terminal to show it on."""
        if not self._console.is_terminal:
            yield
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self._console, refresh_per_second=4) as progress:
            self._progress = progress
            self._offset = warmup_steps
            self._bar = progress.add_task("warm-up", total=self._offset + steps)
            self.advance(step)
            try:
                yield
            finally:
                self._progress = None

    def advance(self, step: int) -> None:
        if self._progress is not None:
            self._progress.update(self._bar, completed=self._offset + step)

    def evaluated(self, line: dict[str, Any]) -> None:
        text = describe(line)
        if self._progress is not None:
            self._progress.update(self._bar, description=text)
        else:
            self.say(text)
        if line.get("probably_infeasible") and not self._warned:
            self._warned = True
            self.say(
                f"step {line['step']}: the constraint has stayed broken while its multiplier kept "
                "growing. The budget is probably infeasible: check it against the cost of the "
                "safest behaviour you know, and the unit it is counted in."
            )
        for sink in self._sinks:
            sink(line)

    def episode_ended(self, line: dict[str, Any]) -> None:
        """A line of episodes.jsonl; those of the warm-up have no place on an axis of steps."""
        if line["phase"] == "training":
            numbers = {name: line[name] for name in ("return", "cost", "length")}
            for sink in self._sinks:
                sink({"step": line["step"], "training_episode": numbers})


def start_line(run: Run, folder: Path) -> str:
    schedule = run.schedule
    if isinstance(schedule, OnPolicySchedule):
        plan = f"{schedule.steps} steps in epochs of {schedule.epoch_steps}"
        seen = "compared with the mean cost of finished episodes"
    else:
        if isinstance(schedule, SemiBatchSchedule):
            plan = (
                f"{schedule.deployments} deployments of {schedule.steps_per_deployment} steps, "
                f"{schedule.updates_per_deployment} updates after each"
            )
        else:
            plan = f"{schedule.steps} steps after {schedule.warmup_steps} of warm-up"
        seen = (
            f"which the critic sees as {run.critic_budget():.6g} "
            f"(discounted by {run.config.cost_discount:g})"
        )
        if getattr(run.config, "calibration", "none") == "episodes":
            seen += ", calibrated by episodes" if run.budget else "; calibration has no effect on 0"
    _, largest = run.step_bounds()
    if largest is not None:
        bounds = 0.0, largest
        _, most = run.constraint.of_episode(bounds, run.config.cost_discount, run.horizon)
        if run.budget >= most:
            seen += f"; no episode can cost more than {most:g}, so it limits nothing"
    return (
        f"{run.algorithm} on {run.task}, preset {run.preset}, seed {run.seed}, {plan}\n"
        f"budget {run.budget:g} ({run.constraint.unit}, {run.horizon} steps), {seen}\n"
        f"into {folder}"
    )


def describe(line: dict[str, Any]) -> str:
    evaluation, training = line["evaluation"], line["training"]
    parts = [
        f"step {line['step']}",
        f"return {evaluation['return']:.4g}",
        f"cost {evaluation['cost']:.4g}",
        f"within budget {evaluation['within_budget']:.0%}",
    ]
    if "multiplier" in training:
        parts.append(f"multiplier {training['multiplier']:.3g}")
        for unit in ("updates", "steps"):
            if f"{unit}_per_second" in line:
                parts.append(f"{line[f'{unit}_per_second']:.0f} {unit}/s")
    return "  ".join(parts)


def flatten(line: dict[str, Any]) -> dict[str, float]:
    """Scalars of a progress line by name, such as `evaluation/cost`."""
    scalars: dict[str, float] = {}
    for name, value in line.items():
        if isinstance(value, dict):
            scalars |= {f"{name}/{k}": v for k, v in flatten(value).items()}
        elif isinstance(value, int | float):
            scalars[name] = float(value)
    return scalars


def tensorboard(folder: Path) -> Sink:
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ValueError(
            "--log tensorboard needs an extra: pip install 'prudent[tensorboard]'"
        ) from None
    writer = SummaryWriter(str(folder / "tensorboard"), flush_secs=5)

    def sink(line: dict[str, Any]) -> None:
        for name, value in flatten(line).items():
            writer.add_scalar(name, value, line["step"])
        writer.flush()

    return sink


def wandb(folder: Path) -> Sink:
    try:
        import wandb as service
    except ImportError:
        raise ValueError("--log wandb needs an extra: pip install 'prudent[wandb]'") from None
    settings = json.loads((folder / "run.json").read_text())["run"]
    service.init(project="prudent", dir=str(folder), config=settings, resume="allow")

    def sink(line: dict[str, Any]) -> None:
        service.log(flatten(line), step=line["step"])

    return sink


SINKS: dict[str, Callable[[Path], Sink]] = {"tensorboard": tensorboard, "wandb": wandb}
PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb"}


def check_log(names: Sequence[str]) -> None:
    for name in names:
        if name not in SINKS:
            raise ValueError(
                f"log: no place {name!r} to send progress to; there is: {', '.join(SINKS)}"
            )
        if find_spec(PACKAGES[name]) is None:
            raise ValueError(f"--log {name} needs an extra: pip install 'prudent[{name}]'")
