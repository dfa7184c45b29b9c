"""A proof as a JSON file."""

import json
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from prudent.certification.question import Point, Progress, Question, in_cost, of_share, statement
from prudent.certification.subject import Subject
from prudent.files import read_regular, status_of, to_json, write_atomically, writing
from prudent.tasks.episodes import episode_seed

FORMAT = 1
LARGEST = 2**30  # bytes of a certificate
PACKAGES = ("prudent", "numpy", "gymnasium", "mujoco", "jax", "jaxlib", "onnxruntime")


def certificate(
    subject: Subject,
    question: Question,
    progress: Progress,
    seed: int,
    stopped: bool,
    follows_seed: bool,
) -> dict[str, Any]:
    """All of it, for JSON."""
    constraint, discount, horizon = subject.accounting
    costs, last = progress.costs, progress.points[-1]
    content: dict[str, Any] = {
        "format": FORMAT,
        "verdict": progress.verdict,
        "statement": statement(question, progress.verdict, len(costs), constraint.unit),
        "budget": question.budget,
        "unit": constraint.unit,
        "confidence": question.confidence,
        "share": question.share,
        "episodes": len(costs),
        "max_episodes": question.max_episodes,
        "interrupted": stopped,
        "cost": float(np.mean(costs)),
        "cost_interval": in_cost(question, last.intervals[0]),
        "within_budget": float(np.mean(np.array(costs) <= question.budget)),
        "bound": {name: getattr(question.bound, name) for name in ("low", "high", "source")},
        "actions": "sampled" if subject.samples else "greedy",
        "identical_episodes": all_alike(progress),
        "policy": subject.about,
        "environment": {
            "task": subject.task.name,
            "cost_source": subject.task.cost_source,
            "horizon": horizon,
            "discounted": constraint.discounted,
            "cost_discount": discount if constraint.discounted else None,
            "deterministic_reset": subject.task.deterministic_reset,
            "follows_seed": follows_seed,
        },
        "seed": seed,
        "seeds": [episode_seed(seed, index) for index in range(len(costs))],
        "costs": costs,
        "returns": progress.returns,
        "trail": [trail_point(each, question) for each in progress.points],
        "versions": versions(),
    }
    if question.share is not None:
        content["within_budget_interval"] = of_share(last.intervals[1])
    return content


def all_alike(progress: Progress) -> bool:
    """Then nothing is random, and they say no more than one of them."""
    different = {*zip(progress.costs, progress.returns, strict=True)}
    return progress.episodes > 1 and len(different) == 1


def trail_point(each: Point, question: Question) -> dict[str, Any]:
    line: dict[str, Any] = {
        "episodes": each.episodes,
        "cost": each.cost,
        "cost_interval": in_cost(question, each.intervals[0]),
        "within_budget": each.within_budget,
    }
    if question.share is not None:
        line["within_budget_interval"] = of_share(each.intervals[1])
    return line


def versions() -> dict[str, str]:
    """Of what took part: packages that are not imported did not."""
    names = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            if package in sys.modules:
                names[package] = version(package)
        except PackageNotFoundError:
            continue
    return names


def check_out(path: Path) -> None:
    """Before any episode: a result that cannot be written is told at once."""
    if path.suffix != ".json":
        raise ValueError(f"--out is {path}; a certificate is JSON, name it {path.stem}.json")
    if not path.parent.is_dir():
        raise ValueError(f"--out is {path}, but there is no folder {path.parent}")
    with writing(path):
        with TemporaryFile(dir=path.parent):
            pass  # it can be written there
        before = status_of(path)
    if before is not None and not is_certificate(path):
        raise ValueError(f"--out is {path}, which is no certificate; it is not overwritten")


def is_certificate(path: Path) -> bool:
    try:
        content = json.loads(read_regular(path, LARGEST))
        return {"verdict", "statement", "seeds"} <= content.keys()
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def write_certificate(content: dict[str, Any], path: Path) -> None:
    write_atomically(path, (to_json(content, indent=2) + "\n").encode())
