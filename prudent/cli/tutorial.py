"""`make train`: CAL learns to circle a fire, close but not too close, and draws what it learned.

The task is `prudent.tasks.orbit`, whose best return under the budget is known.
"""

import shutil
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle

import prudent
from prudent.report.figures import draw_budget, draw_curve
from prudent.report.records import read_record
from prudent.tasks.adapter import open_environment
from prudent.tasks.episodes import evaluation_seeds
from prudent.tasks.orbit import BUDGET, FIELD, FIRE_RADIUS, best_radius, best_return

EPISODES = 5  # drawn


FOLDER = Path("runs/tutorial")  # the tutorial's own, made anew each time


def main(folder: Path = FOLDER) -> None:
    if folder == FOLDER and (folder / "run.json").exists():
        shutil.rmtree(folder)
    result = prudent.train("cal", task="orbit", out=folder)
    print(
        f"\nlearned: return {result.evaluation['return']:.1f} at cost "
        f"{result.evaluation['cost']:.1f}; the best possible within the budget of {BUDGET:g} is "
        f"{best_return(BUDGET):.1f}"
    )
    draw(folder, folder / "tutorial.png")
    print(f"picture: {folder / 'tutorial.png'}")


def draw(folder: Path, path: Path) -> None:
    record = read_record(folder)
    groups = {"CAL": [record]}
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    draw_curve(left, groups, "return")
    left.axhline(best_return(BUDGET), color="black", linestyle=":", label="best within budget")
    left.set_title("test return")
    left.legend(fontsize=8)
    draw_curve(middle, groups, "cost")
    draw_budget(middle, record.run)
    middle.set_ylim(0, 4 * BUDGET)
    middle.set_title("test cost per episode")
    middle.legend(fontsize=8)
    draw_paths(right, folder)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_paths(axes: Axes, folder: Path) -> None:
    across = np.linspace(-FIELD, FIELD, 200)
    radius = np.maximum(np.hypot(*np.meshgrid(across, across)), FIRE_RADIUS)
    extent = (-FIELD, FIELD, -FIELD, FIELD)
    axes.imshow((FIRE_RADIUS / radius) ** 2, extent=extent, cmap="Oranges", vmax=0.5)
    axes.add_patch(
        Circle((0, 0), best_radius(BUDGET), fill=False, linestyle="--", label="best orbit")
    )
    policy, environment = prudent.load(folder), open_environment(prudent.TASKS["orbit"])
    for seed in evaluation_seeds(EPISODES):
        path = [environment.reset(seed)]
        for _ in range(150):
            path.append(environment.step(policy.unit_action(path[-1])).observation)
        axes.plot(*np.array(path).T, color="#1b6ca8", linewidth=0.8, alpha=0.8)
        axes.plot(*path[0], "o", color="#1b6ca8", markersize=4)
    axes.set_title("what the policy does")
    axes.legend(fontsize=8, loc="upper right")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
