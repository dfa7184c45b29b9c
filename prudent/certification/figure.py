"""How the interval closed over episodes."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from prudent.files import write_atomically
from prudent.report.looks import COLOURS
from prudent.report.rendering import literally, rendered

COLOUR_OF = {"certified": COLOURS[2], "refuted": COLOURS[1], "undecided": COLOURS[5]}


def draw_interval(axes: Any, certificate: dict[str, Any], name: str, limit: float) -> None:
    trail, colour = certificate["trail"], COLOUR_OF[certificate["verdict"]]
    count = [point["episodes"] for point in trail]
    low, high = zip(*(point[f"{name}_interval"] for point in trail), strict=True)
    axes.fill_between(count, low, high, color=colour, alpha=0.25, linewidth=0, step="post")
    axes.plot(count, [point[name] for point in trail], color=colour, label="mean so far")
    axes.axhline(limit, color="black", linestyle="--", linewidth=1, label=f"limit {limit:g}")
    axes.set_xscale("log")
    axes.set_xlabel("episodes")
    axes.legend(fontsize=8)


def draw_certificate(certificate: dict[str, Any], path: Path) -> None:
    """Cost, and the share of episodes within the budget if that was asked."""
    share = certificate["share"]
    panels = 1 if share is None else 2
    figure, axes = plt.subplots(
        1, panels, figsize=(4.8 * panels, 3.4), layout="constrained", squeeze=False
    )
    try:
        draw_interval(axes[0, 0], certificate, "cost", certificate["budget"])
        axes[0, 0].set_title(f"mean cost ({certificate['unit']})")
        # What is possible can be far above what happens, and the figure is about the latter.
        last = certificate["cost_interval"]
        top = max(certificate["budget"], last[1], max(p["cost"] for p in certificate["trail"]))
        axes[0, 0].set_ylim(
            certificate["bound"]["low"], min(1.5 * top, certificate["bound"]["high"])
        )
        if share is not None:
            draw_interval(axes[0, 1], certificate, "within_budget", share)
            axes[0, 1].set_title("share within the budget")
        task = certificate["environment"]["task"]
        figure.suptitle(literally(f"{task}: {certificate['verdict']}"))
        write_atomically(path, rendered(figure, ".png", dpi=110))
    finally:
        plt.close(figure)
