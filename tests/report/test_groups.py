"""Which runs are seeds of the same settings, and what a group of them is called."""

import shutil

import pytest
from made import write_folder

from prudent.report.figures import (
    cost_label,
    draw_budget,
)
from prudent.report.groups import by_label, by_task
from prudent.report.records import (
    read_record,
)


def test_one_task_at_a_time(tmp_path):
    mixed = [write_folder(tmp_path / "a", 0), write_folder(tmp_path / "b", 0, task="other")]
    with pytest.raises(ValueError, match="orbit, other"):
        by_label(mixed)


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


def test_one_seed_with_two_results_is_refused(tmp_path):
    first, second = write_folder(tmp_path / "a", 3), write_folder(tmp_path / "b", 3, steps=(0, 10))
    with pytest.raises(ValueError, match=r"a and .*b .*\(3\)"):
        by_label([first, second])


def test_a_run_without_evaluation_is_said_and_left_out(tmp_path, capsys):
    first, early = write_folder(tmp_path / "a", 0), write_folder(tmp_path / "b", 1, steps=())
    assert by_label([first, early]) == {"cal (default)": [first]}
    assert "b: no evaluation yet; left out" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"/b$"):
        by_label([early])
