"""What the reader of a report is warned of."""

from made import found_below, write_run

from prudent.report.cautions import cautions

FORMATS = "records of formats 1 and 2, which store different settings"


def test_what_a_reader_is_warned_of(tmp_path):
    write_run(tmp_path / "1", 0, planned=30)
    write_run(tmp_path / "2", 1, planned=30, steps=(0, 10))
    write_run(tmp_path / "3", 0, "ppo", budget=9.0, format=1)
    for seed in range(5):
        write_run(tmp_path / f"4-{seed}", seed, task="point-goal1")
    write_run(tmp_path / "5", 0, task="point-goal1-random")
    tasks, said = found_below(tmp_path)
    found = [
        (c.kind, c.task, c.text.partition(":")[0]) for c in cautions(tasks, ["x: gone", *said])
    ]
    assert found == [
        ("folders", "", "x"),
        ("different problems", "orbit", "the budget is not the same everywhere"),
        ("mixed layouts", "", "point-goal1 is here with layouts fixed, random"),
        ("mixed record formats", "orbit", FORMATS),
        ("unfinished runs", "orbit", "cal (default, budget=5)"),
        ("different lengths", "orbit", "final numbers are not of the same number of steps"),
        ("too few seeds", "orbit", "fewer than 5 seeds"),
        ("too few seeds", "point-goal1-random", "fewer than 5 seeds"),
    ]  # fmt: skip
    (unfinished,) = (c.text for c in cautions(tasks) if c.kind == "unfinished runs")
    assert "seed 0 has 20 of 30 steps, seed 1 has 10 of 30 steps; all its curves end" in unfinished


def test_finished_runs_of_enough_seeds_need_no_warning(tmp_path):
    for seed in range(5):
        write_run(tmp_path / str(seed), seed)
    assert cautions(*found_below(tmp_path)) == []
