"""The paper's theory in three pictures, computed from formulas: it needs no runs.

`python -m prudent.experiments.figures.theory OUT` writes them into the folder OUT.
"""

import sys
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from prudent.experiments import theory
from prudent.report.looks import COLOURS

BLUE, ORANGE, GREY = COLOURS[0], COLOURS[1], COLOURS[5]
FORMATS = ("png", "svg")


class Stroke(NamedTuple):
    """Lines differ by more than their colour, which not everyone sees."""

    colour: str
    line: Any
    marker: str

    def drawn(self, **more: Any) -> dict[str, Any]:
        return {"color": self.colour, "linestyle": self.line, "linewidth": 1.8, **more}

    def marked(self) -> dict[str, Any]:
        return {"color": self.colour, "marker": self.marker, "linestyle": "none", "markersize": 5}


STROKES = (Stroke(BLUE, "-", "o"), Stroke(ORANGE, "--", "s"), Stroke(GREY, ":", "^"))


def three_panels(height: float = 3.8, **options: Any) -> tuple[Any, Any]:
    figure, panels = plt.subplots(1, 3, figsize=(13, height), layout="constrained", **options)
    figure.get_layout_engine().set(wspace=0.04)
    return figure, panels


def draw_against_actions(axes: Any, generator: np.random.Generator) -> None:
    actions = np.unique(np.geomspace(1, 200, 40).round().astype(int))
    for stroke, noise in zip(STROKES, (0.5, 1.0, 2.0), strict=True):
        exact = [theory.expected_minimum(int(count), noise) for count in actions]
        axes.plot(actions, exact, **stroke.drawn(label=rf"$\sigma$ = {noise:g}"))
        for count in (1, 2, 10, 100):
            simulated = theory.simulated_minimum(count, noise, 2000, generator).mean()
            axes.plot(count, simulated, **stroke.marked())
    axes.set_xscale("log")
    axes.set_xticks([1, 2, 10, 100, 200], ["1", "2", "10", "100", "200"])
    axes.set_xticks([], minor=True)
    axes.set(
        title="more actions", xlabel="number of actions N", ylabel="mean of the lowest estimate"
    )
    axes.legend(fontsize=8)


def draw_against_noise(axes: Any, generator: np.random.Generator) -> None:
    noises = np.linspace(0.0, 3.0, 7)
    for stroke, actions in zip(STROKES, (2, 10, 100), strict=True):
        exact = [theory.expected_minimum(actions, noise) for noise in noises]
        axes.plot(noises, exact, **stroke.drawn(label=f"N = {actions}"))
        for noise in noises:
            simulated = theory.simulated_minimum(actions, noise, 2000, generator).mean()
            axes.plot(noise, simulated, **stroke.marked())
    axes.set(title="more noise", xlabel=r"standard deviation $\sigma$ of an estimate")
    axes.set_ylabel("mean of the lowest estimate")
    axes.legend(fontsize=8)


def draw_bootstrapping(axes: Any, generator: np.random.Generator) -> None:
    steps, shown = 600, slice(0, None, 60)
    for stroke, actions in zip(STROKES, (2, 10, 100), strict=True):
        learning = theory.Learning(actions)
        axes.plot(theory.expected_bias(learning, steps), **stroke.drawn(label=f"N = {actions}"))
        simulated = theory.simulated_bias(learning, steps, 100, generator).mean(axis=1)
        axes.plot(np.arange(steps + 1)[shown], simulated[shown], **stroke.marked())
    axes.set(title=r"bootstrapping, $\sigma$ = 1, $\gamma$ = 0.9, rate 0.1", xlabel="TD updates")
    axes.set_ylabel("mean of the lowest value")
    axes.legend(fontsize=8)


def underestimation() -> Any:
    """What the minimum over actions makes of errors of mean 0: lines exact, markers simulated."""
    generator = np.random.default_rng(0)
    figure, (left, middle, right) = three_panels()
    draw_against_actions(left, generator)
    draw_against_noise(middle, generator)
    draw_bootstrapping(right, generator)
    for axes in (left, middle, right):
        axes.axhline(0.0, color="black", linewidth=0.8)
    figure.suptitle(
        "Underestimation of a minimum: every action truly costs 0 (lines exact, markers simulated)"
    )
    return figure


def named(convexity: float) -> str:
    return f"c = {convexity:g}" if convexity else "c = 0, plain"


def draw_penalty(left: Any, right: Any) -> None:
    """Against the violation: the penalty, and the price of cost that is its slope."""
    violation = np.linspace(-2.0, 1.0, 601)
    for stroke, convexity in zip(reversed(STROKES), (0.0, 1.0, 4.0), strict=True):
        drawn = stroke.drawn(label=named(convexity))
        left.plot(violation, theory.penalty(violation, 1.0, convexity), **drawn)
        right.plot(violation, theory.cost_weight(violation, 1.0, convexity), **drawn)
        if convexity:
            joint = -1.0 / convexity
            left.plot(joint, theory.penalty(joint, 1.0, convexity), **stroke.marked())
            right.plot(joint, 0.0, **stroke.marked())
    for axes in (left, right):
        axes.axvline(0.0, color="black", linewidth=0.8)
        axes.set_xlabel("violation g, in units of cost (safe below 0)")
    left.set_title(r"penalty, $\lambda$ = 1")
    left.set_ylabel(r"$-(\max\{0, \lambda + c g\}^2 - \lambda^2)\,/\,2c$, units of reward")
    left.set_ylim(-2.2, 2.2)
    right.set_title(r"minus its slope: the price of cost, $\lambda$ = 1")
    right.set_ylabel(r"$\tilde{\lambda} = \max\{0, \lambda + c g\}$, reward per cost")


def draw_convexified(axes: Any) -> None:
    """A problem whose optimum is no maximum of the plain Lagrangian."""
    x = np.linspace(-0.5, 2.5, 601)
    for stroke, convexity in zip(reversed(STROKES), (0.0, 1.0, 2.0), strict=True):
        height = x**2 / 2 + theory.penalty(x - 1.0, 1.0, convexity)
        axes.plot(x, height, **stroke.drawn(label=named(convexity)))
    axes.plot(1.0, 0.5, marker="*", color="black", markersize=12, linestyle="none")
    axes.annotate("optimum", (1.0, 0.5), (0.72, 0.9), fontsize=9, arrowprops={"arrowstyle": "-"})
    axes.set_title(r"maximise $x^2/2$ under $x \leq 1$: $L(x, \lambda = 1)$")
    axes.set(xlabel="x", ylabel="L, units of reward", ylim=(0.0, 1.2))


def augmented_lagrangian() -> Any:
    """The penalty, its slope, and a problem they make solvable."""
    figure, panels = three_panels()
    draw_penalty(*panels[:2])
    draw_convexified(panels[2])
    for axes in panels:
        axes.legend(fontsize=8)
    figure.suptitle("The augmented Lagrangian (markers: where its two cases meet)")
    return figure


ENERGIES = {  # by c; the critical value is 1
    0.5: Stroke(ORANGE, ":", ""),
    0.9: Stroke(ORANGE, "--", ""),
    1.1: Stroke(BLUE, "-", ""),
    2.0: Stroke(BLUE, "--", ""),
    5.0: Stroke(BLUE, ":", ""),
}
HALVED = r"$E = \frac{1}{2}\Vert\dot{x}\Vert^2 + \frac{1}{2}\dot{\lambda}^2$"
WHOLE = r"$E = \Vert\dot{x}\Vert^2 + \frac{1}{2}\dot{\lambda}^2$"
RISING, FALLING = r"$\dot{\lambda} = g + u$", r"$\dot{\lambda} = -(g + u)$"
FORMS = {
    f"repaired\n{HALVED}, {RISING}": theory.REPAIRED,
    f"energy as printed\n{WHOLE}, {RISING}": theory.ENERGY_AS_PRINTED,
    f"energy and multiplier as printed\n{WHOLE}, {FALLING}": theory.PRINTED,
}


def draw_energies(axes: Any, form: theory.Form) -> None:
    for convexity, stroke in ENERGIES.items():
        course = theory.course(convexity, form, step=0.05)
        axes.plot(course.times, course.energies, **stroke.drawn(label=f"c = {convexity:g}"))
        if convexity > 1.0:  # where theory promises that it only falls
            rising = np.append(np.diff(course.energies) > 0.0, False)
            risen = np.where(rising, course.energies, np.nan)
            axes.plot(course.times, risen, color="black", alpha=0.35, linewidth=6)
    axes.set_yscale("log")
    axes.set_ylim(1e-6, 1e2)
    axes.set_xlabel("time (in units of 1 / learning rate)")


def energies() -> Any:
    """Energy of learning beside the optimum, for c below and above its critical value 1."""
    figure, panels = three_panels(height=4.2, sharey=True)
    for axes, (title, form) in zip(panels, FORMS.items(), strict=True):
        draw_energies(axes, form)
        axes.set_title(title, fontsize=10)
    panels[0].set_ylabel("energy E")
    panels[0].plot([], [], color="black", alpha=0.35, linewidth=6, label="rises though c > 1")
    panels[0].legend(fontsize=8, loc="upper left", ncols=2)
    figure.suptitle(
        r"Energy over time: $f = x_1^2/2 - x_2^2/4$, $g = x_1 - 1$, critical value $c^* = 1$"
    )
    return figure


PICTURES = {
    "underestimation": underestimation,
    "augmented-lagrangian": augmented_lagrangian,
    "energy": energies,
}


def draw(folder: Path) -> list[Path]:
    """Write every picture, as PNG and as SVG, and say where."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, picture in PICTURES.items():
        figure = picture()
        for suffix in FORMATS:
            path = folder / f"{name}.{suffix}"
            figure.savefig(path, dpi=110)
            written.append(path)
        plt.close(figure)
    return written


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("which folder? python -m prudent.experiments.figures.theory OUT")
    for path in draw(Path(sys.argv[1])):
        print(path)
