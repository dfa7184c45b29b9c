"""Reports read run folders only; their numbers are worked out by hand here."""

import gzip
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from prudent.cli.main import main
from prudent.files import CannotWrite
from prudent.report.figures import (
    coloured,
    cost_label,
    draw_boxes,
    draw_budget,
    draw_cost,
    draw_training_boxes,
    learning_figure,
)
from prudent.report.groups import by_label, by_task
from prudent.report.pack import LARGE, compress, pack
from prudent.report.records import (
    GREEDY,
    SAMPLED,
    curve,
    kinds,
    read_record,
    training_costs_by_quarter,
)
from prudent.report.tables import final_table, share_over_budget, with_interval
from prudent.training.reporter import Reporter, describe, flatten, tensorboard


def write_folder(
    folder, seed, algorithm="cal", task="orbit", steps=(0, 10, 20), sampled=None, about=(), **run
):
    """Settings can be given by name; `about` is what run.json holds beside them."""
    folder.mkdir()
    run = {
        "algorithm": algorithm, "task": task, "preset": "default", "seed": seed, "budget": 5.0,
        "discounted": False,
    } | run  # fmt: skip
    (folder / "run.json").write_text(json.dumps({"run": run, **dict(about)}))
    progress = [
        {
            "step": step,
            "evaluation": {"return": step + seed, "cost": 4.0, "length": 7, "within_budget": 1.0},
            "window_seconds": 1800.0,
        }
        for step in steps
    ]
    if sampled is not None:
        for line in progress:
            line["sampled_evaluation"] = {**line["evaluation"], "cost": sampled}
    episodes = [{"step": -1, "phase": "warmup", "cost": 99.0}]
    episodes += [{"step": s, "phase": "training", "cost": float(s)} for s in range(8)]
    for name, entries in (("progress", progress), ("episodes", episodes)):
        text = "".join(json.dumps(entry) + "\n" for entry in entries)
        (folder / f"{name}.jsonl").write_text(text)
    return read_record(folder)


@pytest.fixture
def records(tmp_path):
    return [write_folder(tmp_path / "a", 0), write_folder(tmp_path / "b", 2, steps=(0, 10))]


def test_curves_meet_on_the_steps_all_seeds_have(records):
    found = curve(records, "return")
    np.testing.assert_array_equal(found.steps, [0, 10])
    np.testing.assert_array_equal(found.values, [[0, 10], [2, 12]])


def test_training_costs_leave_the_warmup_out(records):
    assert training_costs_by_quarter(records) == [[0, 1] * 2, [2, 3] * 2, [4, 5] * 2, [6, 7] * 2]
    assert share_over_budget(records[0]) == 2 / 8


def test_the_table_by_hand(records):
    row = final_table(by_label(records)).splitlines()[-1]
    # Seeds average 5 and 7: mean 6, half width t(0.975, 1) * sd / sqrt 2 = 12.706 * 1.
    assert "| cal (default) | 2 | 10 | 6.0 [-6.7, 18.7] | 4.0 [4.0, 4.0] | 100% | 7 |" in row
    assert row.endswith("| 25.0% | 1.25 |")


def test_sampled_evaluations_have_a_row_of_their_own(tmp_path):
    record = write_folder(tmp_path / "a", 0, sampled=8.5)
    greedy, sampled = final_table(by_label([record])).splitlines()[-2:]
    assert greedy.startswith("| cal (default) |")
    assert "| 4.0 (one seed) |" in greedy
    assert sampled.startswith("| cal (default), sampled |")
    assert "| 8.5 (one seed) |" in sampled


def test_the_interval_of_a_cost_ends_at_zero_unless_costs_can_be_below(tmp_path):
    def cell(name, change):
        seeds = [
            change(write_folder(tmp_path / f"{name}-{seed}", seed, sampled=float(1 + 4 * seed)))
            for seed in range(2)
        ]
        return final_table(by_label(seeds)).splitlines()[-1].split(" | ")[4]

    # Costs of 1 and 5: mean 3, half width 12.706 * 2.
    assert cell("usual", lambda record: record) == "3.0 [0.0, 28.4]"
    credit = {"step": 8, "phase": "training", "cost": -1.0}
    earning = cell("earned", lambda record: record._replace(episodes=[*record.episodes, credit]))
    assert earning == "3.0 [-22.4, 28.4]"
    below = cell("owed", lambda r: r._replace(run={**r.run, "budget": -1.0}))
    assert below == "3.0 [-22.4, 28.4]"


def test_every_group_is_drawn_however_many_there_are(tmp_path):
    names = [f"algorithm-{index}" for index in range(13)]
    groups = by_label([write_folder(tmp_path / name, 0, algorithm=name) for name in names])
    assert [label for _, label, _ in coloured(groups)] == list(groups)
    assert len(groups) == 13


def test_one_task_at_a_time(tmp_path):
    mixed = [write_folder(tmp_path / "a", 0), write_folder(tmp_path / "b", 0, task="other")]
    with pytest.raises(ValueError, match="one task at a time; these runs are of orbit, other"):
        by_label(mixed)


def test_the_figure_is_a_picture(records, tmp_path):
    learning_figure(by_label(records), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes()[:4] == b"\x89PNG"


@pytest.fixture
def axes():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


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


def test_a_kind_of_evaluation_counts_only_where_every_line_has_it(tmp_path):
    with_samples = write_folder(tmp_path / "a", 0, sampled=8.5)
    without = write_folder(tmp_path / "b", 1)
    assert kinds([with_samples]) == [GREEDY, SAMPLED]
    assert kinds([with_samples, without]) == [GREEDY]
    assert final_table(by_label([with_samples, without])).count("cal (default)") == 1


def test_other_settings_are_another_group(tmp_path):
    sets = [{"convexity": 10.0}, {"convexity": 100.0, "hidden": [64, 64]}]
    records = [
        write_folder(tmp_path / f"{index}-{seed}", seed, config={"hidden": [8, 8], **config})
        for seed in (0, 1)
        for index, config in enumerate(sets)
    ]
    groups = by_label(records)
    assert {label: [r.run["seed"] for r in group] for label, group in groups.items()} == {
        "cal (default, hidden=[8, 8], convexity=10)": [0, 1],
        "cal (default)": [0, 1],  # which has these of itself
    }


def test_what_is_the_presets_own_is_not_said_but_keeps_its_place(tmp_path):
    values = [10.0, 2.0, 0.5, 0.0]  # of these 2 is the preset's
    records = [
        write_folder(tmp_path / str(value), 0, config={"conservatism": value}) for value in values
    ]
    named = [f"cal (default{told})" for told in (
        ", conservatism=0", ", conservatism=0.5", "", ", conservatism=10",
    )]  # fmt: skip
    assert list(by_task(records)["orbit"]) == named


def test_labels_name_the_setting_in_full_where_its_last_word_is_not_enough(tmp_path):
    first = write_folder(tmp_path / "a", 0, config={"batch": 1}, schedule={"batch": 1})
    second = write_folder(tmp_path / "b", 0, config={"batch": 1}, schedule={"batch": 2})
    third = write_folder(tmp_path / "c", 0, config={"batch": 1}, algorithm="ppo")
    assert list(by_label([first, second, third])) == [
        "cal (default, schedule.batch=1)", "cal (default, schedule.batch=2)", "ppo (default)",
    ]  # fmt: skip


def test_another_problem_is_said_in_every_label(tmp_path, axes):
    records = [
        write_folder(tmp_path / "a", 0),
        write_folder(tmp_path / "b", 0, budget=20.0),
        write_folder(tmp_path / "c", 0, algorithm="ppo", budget=20.0, discounted=True),
    ]
    groups = by_label(records)
    assert list(groups) == [
        "cal (default, budget=5, discounted=false)",
        "cal (default, budget=20, discounted=false)",
        "ppo (default, budget=20, discounted=true)",
    ]
    draw_budget(axes, *(record.run for record in records))
    assert [line.get_ydata()[0] for line in axes.lines] == [5, 20]
    assert [line.get_label() for line in axes.lines] == ["budget 5", "budget 20"]
    assert cost_label(*(record.run for record in records)) == "cost"
    assert cost_label(records[2].run) == "discounted cost"


def test_one_budget_is_one_line(records, axes):
    draw_budget(axes, *(record.run for record in records))
    assert [line.get_label() for line in axes.lines] == ["budget"]


def test_presets_that_come_to_the_same_are_one_group(tmp_path):
    records = [write_folder(tmp_path / p, s, preset=p) for s, p in enumerate(["head", "paper"])]
    assert [(label, len(found)) for label, found in by_label(records).items()] == [
        ("cal (head/paper)", 2)
    ]


def test_settings_added_later_keep_old_records_with_new_ones(tmp_path):
    old = write_folder(tmp_path / "a", 0, schedule={"steps": 9})
    later = {"update_every": 1, "update_unit": "steps", "target_steps": 1}
    new = write_folder(tmp_path / "b", 1, schedule={"steps": 9.0, **later}, warmup="untrained")
    assert list(by_label([old, new])) == ["cal (default)"]
    other = write_folder(tmp_path / "c", 2, schedule={"steps": 9, "update_unit": "episodes"})
    assert list(by_label([old, new, other])) == [
        "cal (default)", "cal (default, update_unit=episodes)",
    ]  # fmt: skip


def test_formats_are_never_pooled(tmp_path, capsys):
    records = [
        write_folder(tmp_path / "a", 0, about={"format": 1}, config={"damping": 1, "clip": 2}),
        write_folder(tmp_path / "b", 1, about={"format": 2}, config={"damping": 1}),
        write_folder(tmp_path / "c", 2, about={"format": 2}, config={"damping": 3}),
        write_folder(tmp_path / "d", 3, about={"format": 2}, algorithm="ppo"),
    ]
    assert list(by_label(records)) == [
        "cal (default, format 1)", "cal (default, damping=1, format 2)",
        "cal (default, damping=3, format 2)", "ppo (default)",
    ]  # fmt: skip
    (said,) = capsys.readouterr().err.splitlines()
    assert "cal (default): records of formats 1, 2 are kept apart, since they store" in said


def test_a_run_given_twice_counts_once(tmp_path, capsys):
    first = write_folder(tmp_path / "a", 0)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    again = read_record(tmp_path / "copy")
    again.progress[-1] |= {"window_seconds": 7.0, "updates_per_second": 3.0}  # another clock
    folders = [tmp_path / "a" / ".." / "a", tmp_path / "link"]
    groups = by_label([first, *map(read_record, folders), again])
    assert list(groups.values()) == [[first]]
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3
    assert all(line.endswith(f"the same run as {tmp_path / 'a'}; counted once") for line in said)


def test_formats_are_kept_apart_also_where_all_settings_are_equal(tmp_path):
    later = {"update_every": 1, "update_unit": "steps", "target_steps": 1, "asynchronous": False}
    same = {"schedule": later, "warmup": "untrained"}
    records = [write_folder(tmp_path / str(f), f, about={"format": f}, **same) for f in (1, 2)]
    assert list(by_label(records)) == ["cal (default, format 1)", "cal (default, format 2)"]


def test_a_run_that_grows_while_it_is_read_is_still_one(tmp_path):
    first = write_folder(tmp_path / "a", 0)
    grown = first._replace(progress=[*first.progress, {**first.progress[-1], "step": 30}])
    assert by_label([first, grown]) == {"cal (default)": [first]}


def test_three_digits_without_a_point_behind_them():
    assert with_interval(np.array([-168.7]), digits="#.3g") == "-169 (one seed)"
    # 12.706 times the mean's error, which is 1.
    assert with_interval(np.array([1.0, 3.0]), digits="#.3g") == "2.00 [-10.7, 14.7]"


def test_one_seed_with_two_results_is_refused(tmp_path):
    first, second = write_folder(tmp_path / "a", 3), write_folder(tmp_path / "b", 3, steps=(0, 10))
    with pytest.raises(
        ValueError, match=r"a and .*b have the same settings and the same seed \(3\)"
    ):
        by_label([first, second])


def test_a_run_without_evaluation_is_said_and_left_out(tmp_path, capsys):
    first, early = write_folder(tmp_path / "a", 0), write_folder(tmp_path / "b", 1, steps=())
    assert by_label([first, early]) == {"cal (default)": [first]}
    assert "b: no evaluation yet; left out" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"no evaluation yet in .*b$"):
        by_label([early])


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


def test_a_bar_stays_in_its_cell(tmp_path):
    record = write_folder(tmp_path / "a", 0, algorithm="a|b")
    assert final_table(by_label([record])).splitlines()[-1].startswith(r"| a\|b (default) | 1 |")


GOOD = '{"step": 0, "window_seconds": 1.0, "evaluation": '
MEASURED = '{"return": 1, "cost": 1, "length": 1, "within_budget": 1}'


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("run.json", "[]", "run.json: not a JSON object (found list)"),
        ("run.json", '{\n"run": ', "run.json:2: not a JSON object (Expecting value)"),
        ("run.json", "\xff", "run.json: not a JSON object ('utf-8' codec"),
        ("run.json", "{}", "run.json: there is no 'run'"),
        ("run.json", '{"run": 3}', "run.json: 'run' is not an object"),
        ("run.json", '{"run": {"task": "x"}}', "run.json, 'run': there is no 'algorithm'"),
        ("run.json", '{"format": "1", "run": {}}', "run.json: 'format' is not a whole number"),
        ("progress.jsonl", GOOD + MEASURED + "}\n{\n", "progress.jsonl:2: not a JSON object"),
        ("progress.jsonl", "{}\n", "progress.jsonl:1: there is no 'step'"),
        ("progress.jsonl", GOOD + "3}\n", "progress.jsonl:1: 'evaluation' is not an object"),
        ("progress.jsonl", GOOD + "{}}\n", "progress.jsonl:1, 'evaluation': there is no 'return'"),
        ("progress.jsonl", (GOOD + MEASURED + "}\n") * 2, "jsonl:2: step 0 comes after step 0"),
        ("progress.jsonl", '{"step": NaN}\n', "progress.jsonl:1: not a JSON object (NaN is not"),
        ("progress.jsonl", "\n", "progress.jsonl:1: not a JSON object (Expecting value)"),
        ("episodes.jsonl", '{"phase": "training"}\n', "episodes.jsonl:1: there is no 'cost'"),
        ("episodes.jsonl", '{"phase": "a", "cost": 1e999}\n', "jsonl:1: 'cost' is not a number"),
        ("episodes.jsonl", "7\n", "episodes.jsonl:1: not a JSON object (found int)"),
    ],
)
def test_a_damaged_record_is_one_line_that_says_where(tmp_path, monkeypatch, name, text, fault):
    write_folder(tmp_path / "a", 0)
    (tmp_path / "a" / name).write_bytes(text.encode("latin-1"))
    monkeypatch.setattr(sys, "argv", ["prudent", "report", str(tmp_path / "a")])
    with pytest.raises(SystemExit) as stopped:
        main()
    said = str(stopped.value)
    assert fault in said
    assert said.startswith(f"prudent: {tmp_path / 'a' / name}")
    assert said.endswith("; restore the file or leave this run out")
    assert "\n" not in said


def test_a_last_line_cut_short_is_left_out_and_said(tmp_path, capsys):
    whole = write_folder(tmp_path / "a", 0)
    path = tmp_path / "a" / "progress.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert read_record(tmp_path / "a").progress == whole.progress[:-1]
    said = capsys.readouterr().err
    assert said == f"prudent: {path}:3: the last line is cut short; it is left out\n"


def test_packed_records_read_the_same(tmp_path):
    source, kept = tmp_path / "a", tmp_path / "kept" / "a"
    write_folder(source, 0)
    episode = {"step": 9, "phase": "training", "cost": 0.5}
    lines = (json.dumps(episode) + "\n") * 3000
    (source / "episodes.jsonl").write_text(lines)
    (source / "checkpoint-10.safetensors").write_bytes(b"large")
    assert len(lines) > LARGE
    pack(source, kept)
    names = ["episodes.jsonl.gz", "progress.jsonl", "run.json"]
    assert sorted(path.name for path in kept.iterdir()) == names
    assert read_record(kept) == read_record(source)._replace(folder=kept)
    pack(kept, tmp_path / "again")  # a packed record is a record
    for name in names:
        assert (tmp_path / "again" / name).read_bytes() == (kept / name).read_bytes()


def test_numbers_of_very_many_episodes_are_packed_short(tmp_path, monkeypatch):
    """Short numbers stay what they are when a packed record is packed again."""
    monkeypatch.setattr("prudent.report.pack.HUGE", 100)
    write_folder(tmp_path / "a", 0)
    lines = [
        {"step": 123456789, "phase": "training", "return": 1 / 3, "cost": 82.74849, "length": 7}
    ] * 3
    (tmp_path / "a" / "episodes.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    said = []
    pack(tmp_path / "a", tmp_path / "kept", said.append)
    kept = (tmp_path / "kept" / "episodes.jsonl").read_text().splitlines()
    short = {"step": 123456789, "phase": "training", "return": 0.33333, "cost": 82.748, "length": 7}
    assert list(map(json.loads, kept)) == [short] * 3
    assert said[-1] == f"{tmp_path / 'a'}: numbers of its episodes are kept to 5 digits"
    pack(tmp_path / "kept", tmp_path / "again", said.append)
    assert (tmp_path / "again" / "episodes.jsonl").read_text().splitlines() == kept


def test_packed_records_name_no_place_on_the_machine(tmp_path):
    write_folder(tmp_path / "a", 0)
    file = tmp_path / "a" / "run.json"
    about = json.loads(file.read_text())
    file.write_text(
        json.dumps(
            {**about, "command": ["run-one", "/home/me/job.json", "--out=/home/me/runs", "--x"]}
        )
    )
    pack(tmp_path / "a", tmp_path / "kept")
    kept = json.loads((tmp_path / "kept" / "run.json").read_text())
    assert kept == {**about, "command": ["run-one", "job.json", "--out=runs", "--x"]}


def test_what_was_cut_short_is_not_packed_and_said(tmp_path):
    write_folder(tmp_path / "a", 0)
    path = tmp_path / "a" / "progress.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"step": 99')
    about = json.loads((tmp_path / "a" / "run.json").read_text())
    about["run"]["schedule"] = {"steps": 1000}
    (tmp_path / "a" / "run.json").write_text(json.dumps(about))
    said = []
    pack(tmp_path / "a", tmp_path / "kept", said.append)
    assert (tmp_path / "kept" / "progress.jsonl").read_bytes() == whole
    assert any("cut short" in line for line in said)
    assert any("a is not finished" in line and "of 1000 steps" in line for line in said)


def test_damaged_diagnostics_are_not_packed_and_nothing_is_left(tmp_path, monkeypatch):
    write_folder(tmp_path / "a", 0)
    (tmp_path / "a" / "diagnostics.jsonl").write_text('{"step": "x"}\n')
    with pytest.raises(ValueError, match=r"diagnostics\.jsonl:1"):
        pack(tmp_path / "a", tmp_path / "kept")
    (tmp_path / "a" / "diagnostics.jsonl").unlink()

    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("prudent.report.pack.write_atomically", full)
    with pytest.raises(CannotWrite, match="kept cannot be written: No space left"):
        pack(tmp_path / "a", tmp_path / "kept")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_compressed_bytes_depend_on_the_content_only(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1e9)
    packed = compress(b"line\n" * 100)
    monkeypatch.undo()
    assert packed == compress(b"line\n" * 100)
    # Header: magic, deflate, no name, no time, slowest compression, system unknown.
    assert packed[:10] == b"\x1f\x8b\x08\x00" + b"\0" * 4 + b"\x02\xff"
    assert gzip.decompress(packed) == b"line\n" * 100


def test_packing_refuses_what_it_should(tmp_path):
    write_folder(tmp_path / "a", 0)
    (tmp_path / "there").mkdir()
    with pytest.raises(ValueError, match="there exists already; choose another name"):
        pack(tmp_path / "a", tmp_path / "there")
    with pytest.raises(ValueError, match="there holds no run"):
        pack(tmp_path / "there", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    command = [sys.executable, "-m", "prudent.report.pack", str(tmp_path), str(tmp_path / "new")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"prudent: {tmp_path} holds no run (there is no run.json)\n"


def test_plain_and_compressed_at_once_are_refused(tmp_path):
    write_folder(tmp_path / "a", 0)
    (tmp_path / "a" / "episodes.jsonl.gz").write_bytes(compress(b""))
    with pytest.raises(ValueError, match=r"holds both episodes.jsonl and episodes.jsonl.gz"):
        read_record(tmp_path / "a")


def test_a_damaged_archive_is_said(tmp_path):
    write_folder(tmp_path / "a", 0)
    plain, packed = (tmp_path / "a" / f"progress.jsonl{ending}" for ending in ("", ".gz"))
    content = compress(plain.read_bytes())
    plain.unlink()
    for damaged in (content[:-12], b"not gzip", content[:30] + b"\0\0\0" + content[33:]):
        packed.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"progress.jsonl.gz: cannot be read \(.*\); restore"):
            read_record(tmp_path / "a")


ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "results").glob("*.md"))
REPORTS = [
    (page, line) for page in PAGES for line in page.read_text().splitlines()
    if line.startswith("prudent report ")
]  # fmt: skip


@pytest.mark.parametrize(("page", "command"), REPORTS, ids=lambda part: str(part)[-30:])
def test_tables_on_the_pages_are_those_of_the_records(page, command, capsys):
    runs = command.removeprefix("prudent report ").split(" --")[0]
    expanded = ["bash", "-c", f"printf '%s\\n' {runs}"]
    found = subprocess.run(expanded, cwd=ROOT, check=True, capture_output=True, text=True)
    records = [read_record(ROOT / folder) for folder in found.stdout.split()]
    assert final_table(by_label(records)) + "\n" in page.read_text()
    assert capsys.readouterr().err == ""


LINE = {
    "step": 5, "evaluation": {"return": 1.5, "cost": 2.0, "within_budget": 0.5, "returns": [1.0]},
    "training": {"multiplier": 0.25}, "updates_per_second": 10.0, "probably_infeasible": True,
}  # fmt: skip


def test_a_line_in_words(capsys):
    words = "step 5  return 1.5  cost 2  within budget 50%  multiplier 0.25  10 updates/s"
    assert describe(LINE) == words
    reporter = Reporter()
    reporter.evaluated(LINE)
    reporter.evaluated(LINE)
    said = capsys.readouterr().out
    assert said.count("probably infeasible") == 1


def test_scalars_by_name():
    found = flatten(LINE)
    assert found["evaluation/return"] == 1.5
    assert found["training/multiplier"] == 0.25
    assert "evaluation/returns" not in found


def test_tensorboard_events_are_written(tmp_path):
    pytest.importorskip("tensorboardX")
    sink = tensorboard(tmp_path)
    sink(LINE)
    (file,) = (tmp_path / "tensorboard").glob("events.*")
    patience = 200  # another thread writes
    while b"evaluation/return" not in file.read_bytes() and patience:
        time.sleep(0.1)
        sink(LINE)
        patience -= 1
    assert b"evaluation/return" in file.read_bytes()
