"""The paper's figures from made-up records: which panels, which lines, which numbers."""

import importlib.util
import json
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from command_lines import prudent_command
from test_claims import BUDGET, FALLING, shorten, write

from prudent.experiments import drawing
from prudent.experiments.figures import FIGURES
from prudent.experiments.grid import expand
from prudent.report.folders import collect
from prudent.report.looks import COLOURS

ROOT = Path(__file__).parents[2]
COST = np.linspace(0.0, 20.0, 41)


def picture(folder, name):
    """The figure itself, of all runs in the folder."""
    layout = FIGURES[name].layout
    labelled = drawing.by_task(collect([folder]), layout)
    return drawing.picture(labelled, layout)


def titles(figure):
    return [axes.get_title() for axes in figure.axes if axes.axison]


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize("name", FIGURES)
def test_every_line_of_a_grid_has_a_label_of_its_own(name):
    from prudent.settings.run import run_to_json

    found = {}
    for planned in expand(FIGURES[name].grid):
        run = run_to_json(planned.run)
        label = FIGURES[name].layout.label(run)
        place = FIGURES[name].layout.place(run, "return")
        assert label is not None
        found.setdefault((run["task"], place, label), set()).add(planned.variant)
    assert all(len(variants) == 1 for variants in found.values())


def test_underestimation_has_a_row_of_three_for_each_task(tmp_path):
    for task in ("hopper-velocity", "point-button2"):
        write(tmp_path, "sac-lag", 0, task, cost=COST, gap=-1.0)
        write(tmp_path, "ucb", 0, task, cost=COST, gap=1.0, conservatism=2.0)
        write(tmp_path, "cup", 0, task, cost=COST)  # none of the figure's lines
    figure = picture(tmp_path, "underestimation")
    assert titles(figure) == [
        f"{task}: {panel}"
        for task in ("hopper-velocity", "point-button2")
        for panel in ("test return", "test cost per episode", "estimate - oracle")
    ]
    assert legend(figure) == ["SAC-Lag", "UCB, k = 2", "budget"]
    gap = figure.axes[2]
    drawn = {line.get_label(): line.get_ydata() for line in gap.get_lines()}
    assert np.all(drawn["SAC-Lag"] == -1.0)
    assert np.all(drawn["UCB, k = 2"] == 1.0)


def tasks_by_place(figure):
    """Of the panels of each column, from above."""
    shown = {}
    for axes in figure.axes:
        if axes.axison:
            column = axes.get_subplotspec().colspan.start
            shown.setdefault(column, []).append(axes.get_title().partition(":")[0])
    return list(shown.values())


def test_comparison_has_a_half_for_each_family(tmp_path):
    for task in ("point-button1", "car-button1", "car-button2", "hopper-velocity"):
        write(tmp_path, "cal", 0, task, cost=COST, training=[1.0, 2.0, 3.0, 4.0])
    assert tasks_by_place(picture(tmp_path, "off-policy")) == [
        ["car-button1"] * 3 + ["hopper-velocity"] * 3, ["car-button2"] * 3, ["point-button1"] * 3
    ]  # fmt: skip


def test_a_few_tasks_stand_side_by_side_whatever_their_family(tmp_path):
    for task in ("point-button1", "hopper-velocity"):
        write(tmp_path, "cal", 0, task, cost=COST, training=[1.0, 2.0, 3.0, 4.0])
    assert tasks_by_place(picture(tmp_path, "off-policy")) == [
        ["hopper-velocity"] * 3, ["point-button1"] * 3
    ]  # fmt: skip


def test_a_single_task_lies_on_its_side(tmp_path):
    write(tmp_path, "cal", 0, "hopper-velocity", cost=COST, training=[1.0, 2.0, 3.0, 4.0])
    figure = picture(tmp_path, "off-policy")
    assert titles(figure) == [
        f"hopper-velocity: {panel}"
        for panel in ("test return", "test cost per episode", "cost of training episodes")
    ]
    assert [axes.get_subplotspec().rowspan.start for axes in figure.axes] == [0, 0, 0]
    assert {axes.get_xscale() for axes in figure.axes} == {"linear"}


def test_five_panels_of_one_task_are_two_rows(tmp_path):
    write(tmp_path, "cal", 0, "hopper-velocity", cost=COST, spread=FALLING, gap=FALLING)
    figure = picture(tmp_path, "convexification")
    shown = [axes.get_subplotspec().rowspan.start for axes in figure.axes if axes.axison]
    assert shown == [0, 0, 0, 1, 1]


def test_lines_of_very_different_length_have_steps_by_magnitude(tmp_path):
    write(tmp_path, "cal", 0, "hopper-velocity", cost=COST)
    figure = picture(tmp_path, "on-policy")
    assert {axes.get_xscale() for axes in figure.axes} == {"log"}
    (curve,) = (line for line in figure.axes[1].get_lines() if line.get_label() == "CAL")
    assert curve.get_xdata()[0] == 0
    drawn = curve.get_transform().transform(curve.get_xydata())
    assert not np.isfinite(drawn[0, 0])  # where no line leads to
    assert np.isfinite(drawn[1:]).all()


def test_a_step_axis_has_few_numbers(tmp_path):
    """Of up to six digits each, which would meet."""
    folder = write(tmp_path, "cal", 0, cost=COST, conservatism=0.5)
    lines = [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]
    longer = [{**line, "step": 15 * line["step"]} for line in lines]
    (folder / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in longer))
    figure = picture(tmp_path, "conservatism")
    figure.canvas.draw()  # before that nobody knows how much room there is
    for axes in figure.axes[:2]:
        low, high = axes.get_xlim()
        assert [x for x in axes.get_xticks() if low <= x <= high] == [0, 20_000, 40_000, 60_000]


def test_a_long_title_has_two_lines(tmp_path):
    spiky = np.where(np.arange(len(COST)) == 3, 377.0, COST)
    write(tmp_path, "cal", 0, cost=spiky, updates_per_step=20)
    assert titles(picture(tmp_path, "update-ratio")) == [
        "point-button2: 20 per step: test return",
        "point-button2: 20 per step\ntest cost per episode, at most 377",
    ]


def test_ratios_stand_side_by_side(tmp_path):
    for ratio in (1, 10, 20):
        for algorithm in ("cal", "wcsac"):
            write(tmp_path, algorithm, 0, cost=COST, updates_per_step=ratio)
    assert titles(picture(tmp_path, "update-ratio")) == [
        f"point-button2: {ratio} per step: {panel}"
        for panel in ("test return", "test cost per episode")
        for ratio in (1, 10, 20)
    ]


def test_lines_are_named_by_what_is_varied(tmp_path):
    for value in (0.0, 0.5, 2.0):
        write(tmp_path, "cal", 0, cost=COST, conservatism=value)
    assert legend(picture(tmp_path, "conservatism")) == ["k = 0", "k = 0.5", "k = 2", "budget"]


def test_runs_of_two_settings_are_not_one_line(tmp_path):
    first = write(tmp_path, "cal", 0, cost=COST, conservatism=0.5, rate=10.0)
    second = write(tmp_path, "cal", 0, cost=COST, conservatism=0.5, rate=100.0)
    with pytest.raises(ValueError, match=r"\brate\b") as refused:
        picture(tmp_path, "conservatism")
    assert str(first) in str(refused.value)
    assert str(second) in str(refused.value)


def test_runs_that_were_evaluated_at_other_intervals_are_one_line(tmp_path):
    for seed, every in enumerate((1, 2)):
        folder = write(tmp_path, "cal", seed, cost=COST + seed, conservatism=0.5)
        content = json.loads((folder / "run.json").read_text())
        content["run"].setdefault("schedule", {})["evaluate_every"] = every
        (folder / "run.json").write_text(json.dumps(content))
        kept = (folder / "progress.jsonl").read_text().splitlines(keepends=True)[::every]
        (folder / "progress.jsonl").write_text("".join(kept))
    figure = picture(tmp_path, "conservatism")
    (mean,) = (line for line in figure.axes[1].get_lines() if line.get_label() == "k = 0.5")
    np.testing.assert_allclose(mean.get_ydata(), COST[::2] + 0.5)


def test_an_ablation_of_one_setting_leaves_those_of_others_out(tmp_path):
    for value in (0.0, 0.5):
        write(tmp_path, "cal", 0, cost=COST, conservatism=value, convexity=10.0)
    write(tmp_path, "cal", 0, cost=COST, conservatism=0.5, convexity=100.0)
    assert legend(picture(tmp_path, "conservatism")) == ["k = 0", "k = 0.5", "budget"]
    assert legend(picture(tmp_path, "convexity")) == ["c = 10", "c = 100", "budget"]


def test_lines_are_in_the_order_of_their_values(tmp_path):
    for value in (8, 2, 10):  # folders are read as 10, 2, 8
        write(tmp_path, "cal", 0, cost=COST, cost_critics=value)
    assert legend(picture(tmp_path, "ensemble-size")) == ["E = 2", "E = 8", "E = 10", "budget"]


def test_columns_are_in_the_order_of_their_values(tmp_path):
    ratios = (1, 5, 10, 20)  # folders are read as 1, 10, 20, 5
    for ratio in ratios:
        write(tmp_path, "wcsac", 0, cost=COST, updates_per_step=ratio)
    found = titles(picture(tmp_path, "update-ratio"))[: len(ratios)]
    assert [title.split(": ")[1] for title in found] == [f"{ratio} per step" for ratio in ratios]


def test_only_what_a_figure_is_about_is_varied_in_it(tmp_path):
    write(tmp_path, "cal", 0, cost=COST)
    write(tmp_path, "cal", 0, cost=COST, conservatism=0.0)
    write(tmp_path, "sac-pid", 0, "hopper-velocity", cost=COST, updates_per_step=20)
    labelled = drawing.by_task(collect([tmp_path]), FIGURES["off-policy"].layout)
    assert [list(groups) for groups in labelled["point-button2"]] == [["CAL"]]
    assert "hopper-velocity" not in labelled


def draw(folder, name, out):
    layout = FIGURES[name].layout
    said = []
    drawing.draw(collect([folder]), layout, out, name, said.append)
    return said, (out / f"{name}.md").read_text()


def test_a_run_counts_once_and_a_seed_too(tmp_path):
    runs, out = tmp_path / "runs", tmp_path / "out"
    runs.mkdir()
    first = write(runs, "sac-lag", 0, cost=COST)
    shutil.copytree(first, runs / "zcopy")
    said, table = draw(runs, "underestimation", out)
    assert any("counted once" in line for line in said)
    assert "| SAC-Lag | 1 |" in table
    lines = (runs / "zcopy/progress.jsonl").read_text().replace('"length": 1', '"length": 2')
    (runs / "zcopy/progress.jsonl").write_text(lines)
    with pytest.raises(ValueError, match="seed"):
        draw(runs, "underestimation", out)
    with_format(runs / "zcopy", 1)
    with pytest.raises(ValueError, match="seed 0 of 'SAC-Lag'"):
        draw(runs, "underestimation", out)


def test_what_is_missing_in_a_figure_is_said(tmp_path):
    runs, out = tmp_path / "runs", tmp_path / "out"
    runs.mkdir()
    for seed in range(2):
        write(runs, "sac-lag", seed, cost=COST, gap=float(seed))
    bare = write(runs, "sac-lag", 2, cost=COST)
    lines = (bare / "progress.jsonl").read_text().splitlines(keepends=True)
    (bare / "progress.jsonl").write_text("".join(lines[:5]))
    said, table = draw(runs, "underestimation", out)
    assert any("seed 2 has 400 of 4,000 steps" in line for line in said)
    assert any("`prudent diagnose` was not there" in line and str(bare) in line for line in said)
    assert "| SAC-Lag | 2 | 41 | 0.500 " in table


def test_runs_of_different_length_are_seeds_of_one_line_up_to_a_step(tmp_path, monkeypatch):
    shorten(write(tmp_path, "sac-lag", 0, cost=COST), 20)
    write(tmp_path, "sac-lag", 1, cost=COST)
    words = ("experiment", "underestimation", "--records", tmp_path, "--out", tmp_path / "out")
    with pytest.raises(SystemExit, match=r"\bsteps\b"):
        prudent_command(monkeypatch, *words)
    prudent_command(monkeypatch, *words, "--until", "2000")
    assert "| SAC-Lag | 2 | 2,000 |" in (tmp_path / "out/underestimation.md").read_text()


def test_records_are_chosen_by_task_and_seed_and_nothing_is_run(tmp_path, monkeypatch):
    for task in ("hopper-velocity", "point-button2"):
        for seed in range(2):
            write(tmp_path, "sac-lag", seed, task, cost=COST)
    words = ("experiment", "underestimation", "--records", tmp_path, "--out", tmp_path / "out")
    prudent_command(monkeypatch, *words, "--tasks", "hopper-velocity", "--seeds", "1")
    text = (tmp_path / "out/underestimation.md").read_text()
    assert "## hopper-velocity" in text
    assert "## point-button2" not in text
    assert "| SAC-Lag | 1 |" in text
    with pytest.raises(SystemExit, match=r"--scale .*--records"):
        prudent_command(monkeypatch, *words, "--scale", "0.5")
    with pytest.raises(SystemExit, match="underestimation"):
        prudent_command(monkeypatch, *words, "--tasks", "ant-velocity")


def test_gap_table_has_the_halves_of_training(tmp_path):
    for seed, shift in enumerate((0.0, 1.0, 2.0)):
        gap = np.where(np.arange(41) < 20, -4.0 + shift, 10.0 + shift)
        write(tmp_path, "sac-lag", seed, cost=COST, gap=gap)
    layout = FIGURES["underestimation"].layout
    text = drawing.tables(drawing.by_task(collect([tmp_path]), layout), layout)
    # Three seeds one apart: the mean's interval is 4.303 / sqrt(3) = 2.48 to each side.
    assert "| SAC-Lag | 3 | 41 | -3.00 [-5.48, -0.516] | 11.0 [8.52, 13.5] | - | - | - |" in text


def test_what_was_diagnosed_is_in_the_tables_of_other_figures_too(tmp_path):
    write(tmp_path, "cal", 0, cost=COST, conservatism=0.5)
    layout = FIGURES["conservatism"].layout

    def text():
        return drawing.tables(drawing.by_task(collect([tmp_path]), layout), layout)

    assert "gap (A)" not in text()
    write(tmp_path, "cal", 0, cost=COST, conservatism=2.0, gap=1.0)
    assert "| k = 2 | 1 | 41 | 1.00 (one seed) | 1.00 (one seed) |" in text()
    assert "| k = 0.5 | 0 | 0 | - | - |" in text()


def with_format(folder, number, **fields):
    content = json.loads((folder / "run.json").read_text())
    run = {**content["run"], **fields}
    if number == 1:  # which lacked some names and had others to which nobody listened
        for name in ("warmup", "cost_source", "init_from"):
            run.pop(name, None)
        run["config"]["unread"] = 7
    (folder / "run.json").write_text(json.dumps({"format": number, "run": run}))


@pytest.mark.parametrize(("start", "together"), [("none", True), ("policy-1", False)])
def test_a_line_may_have_runs_of_both_formats(start, together, tmp_path):
    """If what both store is equal, and the newer ones began as the older did."""
    schedule = dict.fromkeys(("update_every", "target_steps"), 1)
    schedule |= {"steps": 40, "update_unit": "steps", "asynchronous": False, "updates_per_step": 10}
    new = {"cost_source": 'info["cost"]', "init_from": start, "warmup": "untrained"}
    for seed, number in ((0, 1), (1, 2)):
        folder = write(tmp_path, "cal", seed, cost=COST)
        with_format(folder, number, schedule=schedule, **new)
    layout = FIGURES["dual"].layout
    if together:
        found = drawing.by_task(collect([tmp_path]), layout)
        assert "| none | 2 |" in drawing.tables(found, layout)
    else:
        with pytest.raises(ValueError, match="init_from"):
            drawing.by_task(collect([tmp_path]), layout)


def test_only_the_first_steps(tmp_path, monkeypatch, capsys):
    """COST is 0 to 20 over 41 evaluations; the last ten of the first 21 are 5.5 to 10."""
    folder = write(tmp_path, "cal", 0, cost=COST)
    progress = (folder / "progress.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in progress]
    training = ({"step": s, "phase": "training", "cost": float(s)} for s in steps)
    (folder / "episodes.jsonl").write_text("".join(json.dumps(e) + "\n" for e in training))
    words = ("experiment", "dual", "--records", tmp_path, "--out", tmp_path / "out")
    prudent_command(monkeypatch, *words, "--until", steps[20])
    mean = np.mean(np.array_split(steps[:21], 4)[-1])
    row = f"| none | 1 | {BUDGET:g} | {mean:.1f} (one seed) | "
    assert row in (tmp_path / "out/dual.md").read_text()
    assert "| 7.8 (one seed) |" in (tmp_path / "out/dual.md").read_text()
    with pytest.raises(SystemExit, match=r"--until .*--records"):
        prudent_command(monkeypatch, "experiment", "dual", "--until", 5)


def test_half_of_the_cost_beside_the_budget(tmp_path):
    write(tmp_path, "ppo", 0, cost=np.full(41, 30.0))
    layout = FIGURES["thresholds"].layout
    text = drawing.tables(drawing.by_task(collect([tmp_path]), layout), layout)
    assert f"| PPO | 1 | 30.0 (one seed) | 15.0 (one seed) | {BUDGET:g} |" in text


def test_kinds_have_their_order_and_colours(tmp_path):
    for options in ({}, {"dual_states": "recent"}, {"calibration": "episodes"}):
        write(tmp_path, "cal", 0, cost=COST, **options)
    figure = picture(tmp_path, "dual")
    assert legend(figure) == ["none", "recent states", "calibrated", "budget"]
    named = legend(figure)[:3]
    colours = {
        line.get_label(): line.get_color()
        for line in figure.axes[0].get_lines()
        if line.get_label() in named
    }
    assert list(colours.values()) == list(COLOURS[:3])


def test_the_grid_of_the_dual_makes_the_runs_that_are_kept():
    """Whatever the default of a task becomes: what is not named must stay off."""
    planned = expand(FIGURES["dual"].grid)
    assert len(planned) == 4 * 6 * 3
    runs = {(run.task, run.seed, run.identity()) for run, _ in planned}
    kept = [json.loads(path.read_text()) for path in ROOT.glob("results/dual/*/run.json")]
    found = {
        (each["run"]["task"], each["run"]["seed"], each["identity"])
        for each in kept
        if each["run"]["schedule"]["evaluate_every"] == 1000  # not as navigation's, for its third
    }
    assert len(found) > 20
    assert found <= runs


def test_the_last_quarter_of_training_beside_the_budget(tmp_path):
    options = {"dual_states": "recent", "calibration": "none", "cost_bounds": "none"}
    for seed, last in enumerate((8.0, 12.0)):
        training = [*[0.0] * 6, last - 1.0, last + 1.0]
        write(tmp_path, "cal", seed, cost=COST, training=training, **options)
    layout = FIGURES["dual"].layout
    text = drawing.tables(drawing.by_task(collect([tmp_path]), layout), layout)
    # Seeds of 8 and 12: mean 10, half width 12.706 * 2, cut at 0. Episodes 7, 9, 11, 13. The last
    # ten of COST are 15.5 to 20 in steps of 0.5, of both seeds; they return 0.
    row = f"| recent states | 2 | {BUDGET:g} | 10.0 [0.0, 35.4] | 50% "
    assert row + "| 17.8 [17.8, 17.8] | 0.0 [0.0, 0.0] |" in text


def test_the_command_draws_what_is_there_and_the_same_bytes_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for seed in range(2):
        write(tmp_path, "cal", seed, cost=COST, spread=FALLING, gap=FALLING, conservatism=0.5)
    written = []
    for out in ("one", "two"):
        words = ("experiment", "convexification", "--records", ".", "--out", out)
        prudent_command(monkeypatch, *words)
        said = capsys.readouterr().out.splitlines()
        assert said == [f"{out}/convexification{suffix}" for suffix in (".png", ".svg", ".md")]
        written.append([(tmp_path / line).read_bytes() for line in said])
    assert written[0] == written[1]


def test_nothing_to_draw_is_said(tmp_path, monkeypatch):
    write(tmp_path, "ppo", 0, cost=COST)
    with pytest.raises(SystemExit, match="conservatism"):
        prudent_command(monkeypatch, "experiment", "conservatism", "--records", tmp_path)


DOCUMENTED = [
    (page, line)
    for page in sorted((ROOT / "docs" / "results").glob("*.md"))
    for line in page.read_text().splitlines()
    if line.startswith("prudent experiment ") and "--records" in line
]


@pytest.mark.parametrize(("page", "command"), DOCUMENTED)
def test_tables_on_the_pages_are_those_of_the_records(page, command, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    _, *words = shlex.split(command)
    words[words.index("--out") + 1] = tmp_path
    prudent_command(monkeypatch, *words)
    (written,) = tmp_path.glob("*.md")
    text = written.read_text()
    found = [part for part in text.split("\n\n") if part.startswith("|")]
    assert found
    assert all(table.rstrip() in page.read_text() for table in found)


def test_pages_have_such_tables():
    assert DOCUMENTED


def redraw():
    spec = importlib.util.spec_from_file_location("redraw", ROOT / "results" / "redraw.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_picture_of_results_is_drawn_again_by_one_command():
    """`make figures` runs what stands on the pages; no picture may be without a line there."""
    commands = redraw().drawing_commands()
    drawn = {word for command in commands for word in command.split() if word.endswith(".png")}
    for command in commands:
        _, kind, name, *_ = command.split()
        if kind == "experiment":
            drawn.add(f"docs/results/figures/{name}.png")
        elif kind == "bidding":
            drawn.add("docs/results/figures/bidding-frontier.png")
    kept = {str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "results").rglob("*.png")}
    assert kept == drawn


def table(*rows):
    return "".join(f"| {row} |\n" for row in ("k", "---", *rows))


def test_a_page_gets_its_tables_by_title_and_heading():
    module = redraw()
    page = "\n".join(
        ["**b** (one)", "", table(1), "| other |", "", "**a**", "", table(2), "text", "", table(3)]
    )
    # Those of a page come in any order; what has been put in is not taken for what stood there.
    written = "\n".join(["## a", "", table(1), table(4), "## b", "", table(2), ""])
    found = module.with_tables(page, module.tables_in(written))
    assert found == "\n".join(
        ["**b** (one)", "", table(2), "| other |", "", "**a**", "", table(1), "text", "", table(4)]
    )
    more = module.tables_in(written + "## c\n\n" + table(5))
    with pytest.raises(ValueError, match=r"of c\b"):
        module.with_tables(page, more)


def test_without_titles_tables_come_in_order():
    module = redraw()
    page = f"## First\n\n{table(1)}\n## Second\n\n{table(2)}"
    found = module.with_tables(page, module.tables_in(f"{table(3)}\n{table(4)}"))
    assert found == f"## First\n\n{table(3)}\n## Second\n\n{table(4)}"
    with pytest.raises(ValueError, match=r"\| k \|"):
        module.with_tables("", module.tables_in(table(1)))


def test_a_table_below_no_title_is_the_next_whether_that_has_one_or_not():
    module = redraw()
    page = f"# Page\n\n{table(1)}\n## Second\n\n{table(2)}"
    found = module.with_tables(
        page, module.tables_in(f"## a\n\n{table(3)}\n") + module.tables_in(table(4))
    )
    assert found == f"# Page\n\n{table(3)}\n## Second\n\n{table(4)}"


def test_a_page_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["redraw.py", "claims", "gapp"])
    with pytest.raises(SystemExit, match="gapp"):
        redraw().main()
