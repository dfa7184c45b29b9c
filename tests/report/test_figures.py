"""Panels of figures: what is drawn, where, and how it looks."""

import numpy as np
import pytest
from made import found_below, write_folder, write_run

from prudent.report.contents import contents
from prudent.report.figures import (
    arrangement,
    coloured,
    draw_boxes,
    draw_budget,
    draw_cost,
    draw_gap,
    draw_return,
    draw_spread,
    draw_training_boxes,
    in_words,
    learning_figure,
)
from prudent.report.groups import by_label
from prudent.report.records import (
    curve,
    kinds,
    training_costs_by_quarter,
)
from prudent.report.tables import final_table, share_over_budget


def test_every_group_is_drawn_however_many_there_are(tmp_path):
    names = [f"algorithm-{index}" for index in range(13)]
    groups = by_label([write_folder(tmp_path / name, 0, algorithm=name) for name in names])
    assert [label for _, label, _ in coloured(groups)] == list(groups)
    assert len(groups) == 13


def test_the_figure_is_a_picture(records, tmp_path):
    learning_figure(by_label(records), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes()[:4] == b"\x89PNG"


def test_boxes_stand_in_the_order_of_training(tmp_path, axes):
    first = write_folder(tmp_path / "a", 0)
    second = write_folder(tmp_path / "b", 0, algorithm="sac-lag")
    dearer = [{**episode, "cost": episode["cost"] + 10} for episode in second.episodes]
    draw_boxes(axes, by_label([first, second._replace(episodes=dearer)]))
    corners = [box.get_path().vertices[:4] for box in axes.patches]
    found = sorted((c[:, 0].mean().round(6), c[:, 1].mean()) for c in corners)
    # Episodes cost 0 to 7 in time order, two a quarter: the boxes' middles are 0.5, 2.5, ...
    assert found == [
        (0.8, 0.5), (1.2, 10.5), (1.8, 2.5), (2.2, 12.5),
        (2.8, 4.5), (3.2, 14.5), (3.8, 6.5), (4.2, 16.5),
    ]  # fmt: skip
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1st", "2nd", "3rd", "4th"]
    assert axes.get_xticks().tolist() == [1, 2, 3, 4]


def with_costs(record, spike):
    """Evaluations and training episodes that cost 4, but one of each, which costs `spike`."""
    progress = [
        {**line, "evaluation": {**line["evaluation"], "cost": spike if at == 3 else 4.0}}
        for at, line in enumerate(record.progress)
    ]
    costs = [4.0, 3.0, 2.0, 1.0, spike, 4.0, 3.0, 2.0, 1.0, *[4.0, 3.0] * 13]
    episodes = [{"step": 1, "phase": "training", "cost": cost} for cost in costs]
    return record._replace(progress=progress, episodes=episodes)


@pytest.mark.parametrize("draw", [draw_cost, draw_training_boxes])
def test_one_spike_does_not_press_a_panel_flat_and_is_said(tmp_path, axes, draw):
    record = write_folder(tmp_path / "a", 0, steps=range(0, 410, 10))
    draw(axes, by_label([with_costs(record, 321.0)]))
    assert axes.get_title().endswith(", at most 321")
    low, high = axes.get_ylim()
    assert low < 4.0
    assert 5.0 < high < 6.0, "all but the spike, and the budget of 5"
    axes.clear()
    draw(axes, by_label([with_costs(record, 7.0)]))
    assert "at most" not in axes.get_title()
    assert axes.get_ylim()[1] > 7.0


def test_one_budget_is_one_line(records, axes):
    draw_budget(axes, *(record.run for record in records))
    assert [line.get_label() for line in axes.lines] == ["budget"]


def test_what_is_not_there_yet_is_not_made_up(tmp_path):
    early = write_folder(tmp_path / "a", 0, steps=())._replace(episodes=[])
    begun = write_folder(tmp_path / "b", 1, steps=(0,))._replace(episodes=[])
    assert kinds([early]) == []
    found = curve([early, begun], "cost")
    assert (found.steps.shape, found.values.shape) == ((0,), (2, 0))
    assert training_costs_by_quarter([early]) == [[], [], [], []]
    assert share_over_budget(early) is None
    table = final_table({"early": [early], "both": [early, begun], "begun": [begun]})
    assert table.splitlines()[2:] == [
        "| early | 1 | no evaluation yet | - | - | - | - | no episode yet | 0.00 |",
        "| both | 2 | no evaluation yet | - | - | - | - | no episode yet | 0.25 |",
        "| begun | 1 | 0 | 1.0 (one seed) | 4.0 (one seed) | 100% | 7 | no episode yet | 0.50 |",
    ]
    for log_steps in (False, True):
        learning_figure({"early": [early], "begun": [begun]}, tmp_path / "a.png", log_steps)


def test_a_dollar_is_a_dollar(tmp_path):
    # As a formula this would not even parse.
    strange = r"$\nothing{$"
    record = write_folder(tmp_path / "a", 0, algorithm=strange, task=strange, sampled=1.0)
    learning_figure(by_label([record]), tmp_path / "figure.png")


def test_seeds_are_drawn_each_until_there_are_five(tmp_path, axes):
    for seed in range(5):
        write_run(tmp_path / "five" / str(seed), seed)
    for seed in range(3):
        write_run(tmp_path / "three" / str(seed), seed, "ppo")
    groups = found_below(tmp_path)[0]["orbit"]
    draw_return(axes, groups)
    assert [len(line.get_xdata()) for line in axes.lines] == [3] * 5  # mean; three seeds, mean
    (shade,) = axes.collections
    corners = shade.get_paths()[0].vertices
    # Seeds 0 to 4 at step 20: mean 22, sample deviation sqrt(10 / 4).
    assert corners[:, 1].max() == pytest.approx(22 + np.sqrt(2.5))
    words = in_words(groups)
    assert "Thin: each seed, where there are fewer than 5." in words
    assert "Shade: one standard deviation over seeds." in words


def test_gap_and_spread_where_they_were_measured(tmp_path, axes):
    write_run(tmp_path / "a", 0, gap=-3.0, spread=0.5)
    write_run(tmp_path / "b", 1, gap=-1.0, spread=1.5)
    write_run(tmp_path / "c", 0, "ppo")
    groups = found_below(tmp_path)[0]["orbit"]
    draw_gap(axes, groups)
    (mean,) = (line for line in axes.lines if line.get_label() == "cal (default)")
    assert mean.get_ydata().tolist() == [-2, 8, 18]
    axes.clear()
    draw_spread(axes, groups)
    labelled = [line for line in axes.lines if line.get_label() == "cal (default)"]
    assert [line.get_ydata().tolist() for line in labelled] == [[0, 10, 20]]
    assert not any(line.get_label() == "ppo (default)" for line in axes.lines)  # all 0: none
    (task,) = contents({"orbit": groups})
    assert [panel["name"] for panel in task["panels"]] == [
        "return", "cost", "boxes", "gap", "spread",
    ]  # fmt: skip


def test_panels_in_rows():
    assert arrangement(["a", "b"], wide_boxes=False) == [["a", "b", "boxes"]]
    assert arrangement(["a", "b", "c"], wide_boxes=False) == [["a", "b"], ["boxes", "c"]]
    four = ["a", "b", "c", "d"]
    assert arrangement(four, wide_boxes=False) == [["a", "b", "boxes"], ["c", "d", "."]]
    assert arrangement(four, wide_boxes=True) == [["a", "b"], ["c", "d"], ["boxes", "boxes"]]
