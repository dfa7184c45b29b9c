"""Weeks on disk: the same bytes however they are made, and nothing lost or written twice."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support import need_ray

from prudent.files import checksum
from prudent.runs.lock import FolderInUse, only_writer
from prudent_bidding import policies, schema
from prudent_bidding.command import main
from prudent_bidding.engines import in_this_process, make_engine
from prudent_bidding.metrics import read_days
from prudent_bidding.shards import OracleFile, read_note, read_oracle, read_table, write_table
from prudent_bidding.simulate import make_order, simulate_week
from prudent_bidding.tasks import Task, run_task, task_key
from prudent_bidding.world import PRESETS, world_hash

TINY = replace(PRESETS["smoke"], advertisers=40, block_size=20, volume=15.0)


def simulated(folder, world=TINY, week=0, policies=("incumbent",), engine=in_this_process, **how):
    order = make_order(folder, world, 0, week, policies, **how)
    return simulate_week(order, engine)


def contents(folder):
    """Every file but the lock, by its path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): checksum(path.read_bytes()) for path in files}


@pytest.fixture(scope="module")
def week(tmp_path_factory):
    folder = tmp_path_factory.mktemp("week")
    simulated(folder)
    return folder


def test_a_week_has_its_files_and_a_manifest_that_fits_them(week):
    manifest = json.loads((week / "week-0/manifest.json").read_text())
    assert manifest["world_sha256"] == world_hash(TINY)
    assert manifest["policies"] == [{"arm": 0, "policy": "incumbent", "sha256": None}]
    assert len(manifest["shards"]) == 14
    for shard in manifest["shards"]:
        path = week / shard["file"]
        assert path == week / schema.rows_file(0, shard["day"], shard["block"])
        assert checksum(path.read_bytes()) == shard["sha256"]
        assert path.stat().st_size == shard["bytes"]
        assert len(read_table(path, "rows")["t"]) == shard["rows"]
        assert shard["seed"] == [0, 0, shard["day"], shard["block"]]
        ledger = week / shard["ledger"]["file"]
        assert checksum(ledger.read_bytes()) == shard["ledger"]["sha256"]
    assert manifest["rows"] == sum(shard["rows"] for shard in manifest["shards"])
    assert manifest["row_bytes"] == sum(shard["bytes"] for shard in manifest["shards"])


def test_files_have_the_columns_of_the_schema(week):
    rows = read_table(week / schema.rows_file(0, 1, 1), "rows")
    assert {name: str(column.dtype) for name, column in rows.items()} == dict(schema.ROWS)
    people = read_table(week / schema.advertisers_file(0), "advertisers")
    assert {name: str(column.dtype) for name, column in people.items()} == dict(schema.ADVERTISERS)
    oracle = read_oracle(week / schema.oracle_file(schema.rows_file(0, 1, 1)), "oracle-rows")
    assert {name: str(column.dtype) for name, column in oracle.items()} == dict(schema.ORACLE_ROWS)
    assert len(oracle["exp_gmv"]) == len(rows["adv"])


def test_rows_ledgers_and_budgets_agree(week):
    """What the files of rows, of days and of what is carried on say of pay and GMV is one thing."""
    people = read_table(week / schema.advertisers_file(0), "advertisers")
    carried = read_table(week / schema.carried_file(0), "carried")
    discounted = np.zeros(40)
    for day in range(7):
        for block in range(2):
            rows = read_table(week / schema.rows_file(0, day, block), "rows")
            ledger = read_table(week / schema.ledger_file(0, day, block), "ledger")
            owner = np.searchsorted(ledger["adv"], rows["adv"])
            for name in ("pay", "gmv"):
                total = np.bincount(owner, rows[name], 20)
                assert np.allclose(total, ledger[name], rtol=1e-12)
            slots = people["slot"][people["block"] == block]
            assert np.all(ledger["pay"] <= people["budget"][slots])
            discounted[slots] += 0.9 ** (6 - day) * ledger["pay"]
    assert np.allclose(discounted, carried["pay"])


def test_expected_gmv_adds_up_and_stays_with_the_oracle(week):
    place = schema.rows_file(0, 2, 0), schema.ledger_file(0, 2, 0)
    rows, ledger = (week / schema.oracle_file(path) for path in place)
    by_row = read_oracle(rows, "oracle-rows")["exp_gmv"].astype(float)
    by_day = read_oracle(ledger, "oracle-ledger")["exp_gmv"]
    assert by_row.sum() == pytest.approx(by_day.sum(), rel=1e-3)


def test_learners_cannot_open_the_oracle(week, tmp_path):
    hidden = week / schema.oracle_file(schema.rows_file(0, 0, 0))
    with pytest.raises(OracleFile, match="holds what no learner may know"):
        read_table(hidden, "rows")
    with pytest.raises(OracleFile, match="no learner may know"):
        read_table(hidden, "oracle-rows")
    elsewhere = tmp_path / "block-0.parquet"  # moved and renamed, it still is what it is
    elsewhere.write_bytes(hidden.read_bytes())
    with pytest.raises(OracleFile):
        read_table(elsewhere, "rows")
    linked = tmp_path / "linked.parquet"
    linked.symlink_to(hidden)
    with pytest.raises(OracleFile):
        read_table(linked, "rows")
    assert not set(schema.ORACLE_ROWS) & set(schema.ROWS)


def test_a_data_set_may_lie_below_any_folder(week, tmp_path):
    """What a file is, it says itself; the name of a folder says nothing."""
    shutil.copytree(week, tmp_path / "oracle" / "mine")
    assert len(read_days(tmp_path / "oracle" / "mine", 0).pay) == 7 * 40


def test_other_files_are_refused_in_one_line(week, tmp_path):
    with pytest.raises(ValueError, match="holds ledger, not rows"):
        read_table(week / schema.ledger_file(0, 0, 0), "rows")
    broken = tmp_path / "cut.parquet"
    broken.write_bytes((week / schema.rows_file(0, 0, 0)).read_bytes()[:1000])
    with pytest.raises(ValueError, match="no Parquet file that can be read"):
        read_table(broken, "rows")


def test_two_processes_write_the_same_bytes_as_one(week, tmp_path):
    simulated(tmp_path, engine=make_engine("local", 2))
    assert contents(tmp_path) == contents(week)


@pytest.mark.slow
def test_ray_writes_the_same_bytes(week, tmp_path):
    need_ray()
    script = (
        "from pathlib import Path\nimport sys\n"
        "from prudent_bidding.engines import make_engine\n"
        "from test_simulate import TINY, simulated\n"
        "simulated(Path(sys.argv[1]), engine=make_engine('ray', 1))\n"
    )
    path = os.pathsep.join([*sys.path, str(Path(__file__).parent)])
    environment = {**os.environ, "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, env=environment)
    assert contents(tmp_path) == contents(week)


def test_a_second_time_nothing_is_written(week):
    before = {path: path.stat().st_mtime_ns for path in week.rglob("block-*.parquet")}
    told = []
    order = make_order(week, TINY, 0, 0, ["incumbent"])
    simulate_week(order, in_this_process, told.append)
    assert all(result.skipped for result in told)
    assert {path: path.stat().st_mtime_ns for path in week.rglob("block-*.parquet")} == before


KILLED = """
import sys, time
from pathlib import Path
from prudent_bidding import simulate
from prudent_bidding.engines import in_this_process
from prudent_bidding.world import PRESETS
from dataclasses import replace
world = replace(PRESETS["smoke"], advertisers=40, block_size=20, volume=15.0)
order = simulate.make_order(Path(sys.argv[1]), world, 0, 0, ["incumbent"])
def tell(done):
    print("task", flush=True)
    time.sleep(0.3)
simulate.simulate_week(order, in_this_process, tell)
"""


def test_after_a_kill_the_rest_is_made_and_the_bytes_are_the_same(week, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    for _ in range(4):
        assert process.stdout.readline() == "task\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not (tmp_path / "week-0/manifest.json").exists()
    ledgers = len(list(tmp_path.glob("week-0/*/ledger-*.parquet")))
    # As if it had died between a file of rows and its ledger, and in the middle of a write.
    next_rows = tmp_path / schema.rows_file(0, 6, 1)
    next_rows.parent.mkdir(parents=True, exist_ok=True)
    next_rows.write_bytes(b"half a file")
    told = []
    simulate_week(make_order(tmp_path, TINY, 0, 0, ["incumbent"]), in_this_process, told.append)
    assert sum(result.skipped for result in told) == ledgers >= 4
    assert contents(tmp_path) == contents(week)


def test_damaged_files_are_made_again(week, tmp_path):
    simulated(tmp_path)
    rows, ledger = schema.rows_file(0, 3, 1), schema.ledger_file(0, 6, 0)
    for path in (rows, ledger, schema.oracle_file(schema.rows_file(0, 2, 0))):
        whole = (tmp_path / path).read_bytes()
        (tmp_path / path).write_bytes(whole[:-10])
    simulated(tmp_path)
    assert contents(tmp_path) == contents(week)


def test_files_that_were_altered_and_can_be_read_are_made_again(week, tmp_path):
    """A ledger with other numbers names the same task; the manifest knows its checksum."""
    simulated(tmp_path)
    for kind, place, column in (
        ("ledger", schema.ledger_file(0, 3, 1), "pay"),
        ("advertisers", schema.advertisers_file(0), "budget"),
    ):
        path = tmp_path / place
        table = read_table(path, kind)
        write_table(path, kind, {**table, column: 2 * table[column]}, read_note(path))
        with pytest.raises(ValueError, match=f"{place} was altered since its week was finished"):
            read_days(tmp_path, 0)
        simulated(tmp_path)
        assert contents(tmp_path) == contents(week)


def test_older_weeks_whose_manifest_has_no_advertisers_are_read(week, tmp_path):
    shutil.copytree(week, tmp_path / "old")
    path = tmp_path / "old/week-0/manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["advertisers"]
    path.write_text(json.dumps(manifest))
    assert len(read_days(tmp_path / "old", 0).pay) == 7 * 40


def test_other_policies_and_worlds_are_not_mixed_in(week):
    with pytest.raises(ValueError, match="belongs to another simulation"):
        simulated(week, policies=["constant:0.85"])
    with pytest.raises(ValueError, match="another world or seed"):
        simulated(week, world=replace(TINY, bias_sd=0.3))


@pytest.mark.parametrize(
    ("policy", "name", "value"),
    [("incumbent", "INCUMBENT_LEVEL", 0.9), ("feedback:0.9", "FEEDBACK_BOUNDS", (0.4, 1.9))],
)
def test_a_week_is_not_finished_by_a_rule_of_other_numbers(
    tmp_path, monkeypatch, policy, name, value
):
    """A constant has no numbers but its own, so its weeks go on."""
    tasks = [Task(make_order(tmp_path, TINY, 0, 0, [p]), 0, 0) for p in (policy, "constant:0.9")]
    run_task(tasks[0])
    before = [task_key(task) for task in tasks]
    monkeypatch.setattr(policies, name, value)
    with pytest.raises(ValueError, match=r"another simulation .*numbers of a rule"):
        run_task(tasks[0])
    assert [task_key(task) == key for task, key in zip(tasks, before, strict=True)] == [False, True]


@pytest.mark.parametrize(("rows", "how"), [(True, "--oracle-rows"), (False, "--no-oracle-rows")])
def test_a_week_with_or_without_the_rows_of_the_oracle_is_named(tmp_path, rows, how):
    run_task(Task(make_order(tmp_path, TINY, 0, 0, ["incumbent"], oracle_rows=rows), 0, 0))
    other = make_order(tmp_path, TINY, 0, 0, ["incumbent"], oracle_rows=not rows)
    with pytest.raises(ValueError, match=rf"another simulation \(written with {how}\); choose"):
        run_task(Task(other, 0, 0))


def test_one_writer_at_a_time(tmp_path):
    with only_writer(tmp_path), pytest.raises(FolderInUse, match="is writing into this folder"):
        simulated(tmp_path)


def test_a_week_in_isolation_is_the_week_after_its_forerunners(tmp_path):
    """With a policy that looks back at no other week."""
    alone, after = tmp_path / "alone", tmp_path / "after"
    simulated(alone, week=2, policies=["constant:0.9"])
    for number in range(3):
        simulated(after, week=number, policies=["constant:0.9"])
    for day in range(7):
        place = schema.rows_file(2, day, 0)
        first, second = (read_table(folder / place, "rows") for folder in (alone, after))
        assert all(np.array_equal(first[name], second[name]) for name in schema.ROWS)
    people = schema.advertisers_file(2)
    assert (alone / people).read_bytes() == (after / people).read_bytes()


def test_controllers_remember_the_week_before(tmp_path):
    first = simulated(tmp_path, policies=["feedback:0.9"])
    second = simulated(tmp_path, week=1, policies=["feedback:0.9"])
    assert first["carried_in"] is None
    assert second["carried_in"] == first["carried_out"]
    k = read_table(tmp_path / schema.rows_file(1, 0, 0), "rows")["k"]
    assert len(np.unique(k)) > 5  # on its first day already
    early = read_table(tmp_path / schema.rows_file(0, 0, 0), "rows")["k"]
    assert np.all(early == np.float16(0.9))


def test_arms_share_the_advertisers_of_a_day(tmp_path):
    manifest = simulated(tmp_path, policies=["constant:0.6", "constant:0.8", "constant:1.2"])
    assert [entry["policy"] for entry in manifest["policies"]][2] == "constant:1.2"
    days = []
    for day in range(7):
        rows = read_table(tmp_path / schema.rows_file(0, day, 0), "rows")
        expected = np.array([0.6, 0.8, 1.2], np.float16)[rows["arm"]]
        assert np.array_equal(rows["k"], expected)
        days.append(read_table(tmp_path / schema.ledger_file(0, day, 0), "ledger")["arm"])
    assert all(set(arms) == {0, 1, 2} for arms in np.array(days).T)


def test_prices_answer_to_yesterday_in_the_mean_field(tmp_path):
    """At k = 1.5 every category's log price rises by 0.5 log 1.5 from the second day on."""
    answering = replace(TINY, market="meanfield", log_budget_mean=20.0)
    for name, world in (("still", replace(answering, market="exogenous")), ("field", answering)):
        simulated(tmp_path / name, world=world, policies=["constant:1.5"])
    for day, shift in ((0, 0.0), (1, 0.5 * np.log(1.5)), (6, 0.5 * np.log(1.5))):
        path = schema.oracle_file(schema.rows_file(0, day, 1))
        still, field = (
            read_oracle(tmp_path / name / path, "oracle-rows")["log_p0"].astype(float)
            for name in ("still", "field")
        )
        assert np.allclose(field - still, shift, atol=0.02)


def test_mean_field_days_wait_for_each_other_in_two_processes(tmp_path):
    world = replace(TINY, market="meanfield", delay_hours=2.0)
    simulated(tmp_path / "one", world=world)
    simulated(tmp_path / "two", world=world, engine=make_engine("local", 2))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_a_task_needs_nothing_but_its_folder(tmp_path):
    """As on another machine: the task alone says what to do."""
    simulated(tmp_path / "all")
    order = make_order(tmp_path / "some", TINY, 0, 0, ["incumbent"])
    done = run_task(Task(order, 0, 1))
    place = schema.rows_file(0, 0, 1)
    assert (tmp_path / "some" / place).read_bytes() == (tmp_path / "all" / place).read_bytes()
    assert done.rows.sha256 == checksum((tmp_path / "all" / place).read_bytes())


def test_rows_are_small(tmp_path):
    """At most 22 bytes each, in files of some size."""
    world = replace(PRESETS["smoke"], advertisers=250)
    order = make_order(tmp_path, world, 0, 0, ["incumbent"])
    written = run_task(Task(order, 0, 0)).rows
    assert written.bytes / written.rows <= 22.0


def test_the_command_simulates_and_says_what_it_did(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(PRESETS, "smoke", TINY)
    arguments = ["simulate", "--preset", "smoke", "--processes", "1", "--weeks", "2", "--json"]
    main([*arguments, "--out", str(tmp_path)])
    first, second = json.loads(capsys.readouterr().out)
    assert (first["week"], second["week"]) == (0, 1)
    assert first["rows"] == first["simulated_rows"] > 1000
    main([*arguments, "--out", str(tmp_path)])
    assert all(entry["simulated_rows"] == 0 for entry in json.loads(capsys.readouterr().out))


def test_isolated_arms_have_a_data_set_each(tmp_path, monkeypatch):
    monkeypatch.setitem(PRESETS, "smoke", TINY)
    arguments = ["simulate", "--preset", "smoke", "--processes", "1", "--quiet"]
    policies = ["--policy", "constant:0.7", "constant:1.0", "--assignment", "isolated"]
    main([*arguments, *policies, "--out", str(tmp_path)])
    for arm, k in ((0, 0.7), (1, 1.0)):
        rows = read_table(tmp_path / f"arm-{arm}" / schema.rows_file(0, 0, 0), "rows")
        assert np.all(rows["k"] == np.float16(k))


def test_wrong_requests_are_refused_in_one_line(tmp_path):
    with pytest.raises(ValueError, match="a policy is needed"):
        make_order(tmp_path, TINY, 0, 0, [])
    with pytest.raises(ValueError, match="no world named"):
        main(["simulate", "--preset", "huge", "--out", str(tmp_path)])
    with pytest.raises(
        ValueError, match="no command `prudent bidding fly`; there is: simulate"
    ) as no:
        main(["fly"])
    assert "learn" not in str(no.value)  # `run` alone gives it
    with pytest.raises(ValueError, match="`prudent bidding learn` is for `prudent bidding run`"):
        main(["learn"])
    with pytest.raises(ValueError, match="--seeds has no value; at least one is needed"):
        main(["calibrate", "--preset", "smoke", "--seeds"])
    assert not list(tmp_path.iterdir())


def test_a_write_that_fails_leaves_no_file(tmp_path):
    target = tmp_path / "rows.parquet"
    target.mkdir()
    with pytest.raises(OSError, match="cannot be written"):
        write_table(target, "carried", {n: np.zeros(2, t) for n, t in schema.CARRIED.items()}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]
