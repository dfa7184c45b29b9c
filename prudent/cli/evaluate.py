"""`prudent evaluate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prudent import api
from prudent.cli.options import RunFolder, SameEnvironment, Snapshot, without
from prudent.files import to_json
from prudent.settings.checks import Count, CountOrZero


@dataclass(frozen=True)
class EvaluateOptions:
    run: RunFolder
    episodes: Count = 10
    step: Snapshot = None
    seed: CountOrZero | None = None
    """Start elsewhere than training's evaluations did."""
    env: SameEnvironment = None
    video: Path | None = None
    """Also write one episode as .mp4 or .gif."""
    json: bool = False


def evaluate(options: EvaluateOptions) -> None:
    from prudent.policies.video import VideoFailed

    try:
        results = api.evaluate(options.run, **without(options, "run", "json"))
    except VideoFailed as failure:
        show(failure.results or {}, options.json)
        raise
    show(results, options.json)
    if options.video and not options.json:
        print(f"video: {options.video}")


def show(results: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(to_json(results, indent=2))
        return
    print(f"policy of step {results['step']}, budget {results['budget']:g}")
    for name, title in (("evaluation", "greedy"), ("sampled_evaluation", "sampled")):
        if name in results:
            print(in_words(title, results[name]))


def in_words(title: str, part: dict[str, Any]) -> str:
    def with_interval(name: str) -> str:
        bounds = part[f"{name}_interval"]
        spread = f" [{bounds[0]:.4g}, {bounds[1]:.4g}]" if bounds else ""
        return f"{name} {part[name]:.4g}{spread}"

    count = len(part["returns"])
    return (
        f"{title}, {count} episode{'s' if count > 1 else ''}: {with_interval('return')}, "
        f"{with_interval('cost')}, length {part['length']:.4g}, "
        f"within budget {part['within_budget']:.0%}   (means with 95 % intervals)"
    )
