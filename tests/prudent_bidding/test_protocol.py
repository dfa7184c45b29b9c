"""The semi-batch protocol: what it computes, that a kill changes nothing, and what it refuses."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from prudent_td3.td3_lag import TD3_LAG
from safetensors.numpy import load_file

from prudent.algorithms import ALGORITHMS
from prudent.cli import main as cli
from prudent.policies.exported import load_exported
from prudent_bidding import (
    arms,
    command,
    dataset,
    learners,
    plan,
    protocol,
    updates,
    world,
)
from prudent_bidding.dataset import HistoricalDataset
from prudent_bidding.plan import CLONING, INCUMBENT, Plan, make_plan
from prudent_bidding.records import write_plan
from prudent_bidding.schema import OBSERVATION_SIZE, rows_file
from prudent_bidding.shards import OracleFile, read_table

TINY = replace(world.preset("smoke"), advertisers=42, block_size=21, volume=12.0, most_volume=40)
GIVEN = {
    "algorithms": ("cal", "cup"), "references": ("constant:0.7", "constant:0.9", CLONING),
    "weeks": 2, "updates": 70, "batch_size": 8, "hidden": (8, 8),
}  # fmt: skip


@pytest.fixture(autouse=True)
def tiny_world(monkeypatch):
    patch(monkeypatch)


def patch(patched):
    """A world of a few advertisers, and learners in this process."""
    patched.setitem(world.PRESETS, "tiny", TINY)
    patched.setitem(plan.SIZES, "tiny", {})
    patched.setattr(arms, "CLONING_UPDATES", 20)
    patched.setattr(protocol, "learn_in_process", learn_here)


def learn_here(folder, name, week, calibrating):
    work = arms.calibrate if calibrating else arms.learn_week
    work(folder, Plan.read(folder), name, week)


def quietly(text):
    pass


def carry_out(folder, **given):
    made = make_plan("tiny", {**GIVEN, **given})
    protocol.run_protocol(folder, made, processes=1, say=quietly)
    return made


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One run that nobody interrupted; its settings are those of `carry_out`."""
    folder = tmp_path_factory.mktemp("protocol") / "whole"
    with pytest.MonkeyPatch.context() as patched:
        patch(patched)
        carry_out(folder)
    return folder


def timeless(value):
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if not k.endswith("seconds")}
    return value


def results(folder, week):
    return timeless(json.loads((folder / "results" / f"week-{week}.json").read_text()))


def test_every_week_has_results_of_arms_and_references(whole):
    for week in (1, 2):
        found = results(whole, week)
        assert set(found["arms"]) == {"cal", "cup", INCUMBENT}
        assert set(found["references"]) == set(GIVEN["references"])
        assert found["training"]["cal"]["updates"] == 70 * week
        assert found["training"]["cup"]["updates"] == week
        for metrics in (*found["arms"].values(), *found["references"].values()):
            assert {"pay", "pay_per_day", "vio_week", "vio_exp", "win_rate"} <= set(metrics)
    assert results(whole, 1)["references"]["constant:0.7"]["mean_k"]["value"] == pytest.approx(
        0.7, abs=1e-3
    )


def test_pay_in_the_results_is_pay_in_the_rows(whole):
    """Conserved from shards to ledgers to metrics."""
    history = HistoricalDataset(whole / "data", [1], cache=whole / "cache")
    rows, found = history.weeks[0].rows, results(whole, 1)["arms"]
    for arm, name in enumerate(("cal", "cup", INCUMBENT)):
        pay = rows["pay"][rows["arm"] == arm].sum(dtype=float)
        assert found[name]["pay"]["value"] == pytest.approx(pay, rel=1e-6)


def test_what_was_deployed_is_what_was_exported(whole):
    """Every week another policy, and the data set keeps the very file."""
    for name in ("cal", "cup"):
        files = [plan.policy_file(whole, name, week).read_bytes() for week in (1, 2)]
        assert files[0] != files[1]
    manifest = json.loads((whole / "data/week-1/manifest.json").read_text())
    kept = whole / "data" / manifest["policies"][0]["policy"]
    assert kept.read_bytes() == plan.policy_file(whole, "cal", 1).read_bytes()
    assert manifest["policies"][2]["policy"] == INCUMBENT


def test_the_exported_policy_sees_on_the_scale_of_week_0(whole):
    """Raw observations in; the scale stands in the file and is the same in both weeks."""
    scale = arms.scale_of(whole)
    for week in (1, 2):
        arrays = load_file(plan.policy_file(whole, "cal", week))
        np.testing.assert_array_equal(arrays["observation/mean"], scale.mean)
        np.testing.assert_array_equal(arrays["observation/deviation"], scale.deviation)
        assert arrays["observation/largest"] == scale.largest


def test_history_is_shared_or_own_and_cup_has_its_newest_week(whole):
    made = Plan.read(whole)
    shared = arms.history_of(made, whole, "cal", 2)
    own = arms.history_of(replace(made, history="own"), whole, "cal", 2)
    cup = arms.history_of(made, whole, "cup", 2)
    first, second = (len(HistoricalDataset(whole / "data", [w])) for w in (0, 1))
    arm = [len(HistoricalDataset(whole / "data", [1], arms={1: [a]})) for a in range(3)]
    assert len(shared) == first + second
    assert len(own) == first + arm[0]
    assert len(cup) == arm[1]


def test_modes_can_be_deployed_instead_of_samples(whole):
    """The simulator is told so, and then acts without noise."""
    from prudent_bidding.policies import make_policy
    from prudent_bidding.schema import View

    made = Plan.read(whole)
    view = View(3, observations=np.zeros((3, OBSERVATION_SIZE), np.float32))
    generator = np.random.default_rng(0)
    sampled, greedy = (
        make_policy(plan.deployed_policy(whole, replace(made, deployed=how), "cal", 1))
        for how in ("sampled", "greedy")
    )
    assert len(set(sampled.act(view, generator).tolist())) == 3
    assert len(set(greedy.act(view, generator).tolist())) == 1


def test_a_clone_acts_as_its_data_did(whole):
    """Maximum likelihood on the incumbent's week brings the mean action close to its mean."""
    history = HistoricalDataset(whole / "data", [0], cache=whole / "cache")
    made = replace(Plan.read(whole), updates=400)
    built = learners.build(made, CLONING, arms.scale_of(whole))
    import jax

    state = built.algorithm.init(jax.random.key(0))
    monkey = pytest.MonkeyPatch()
    monkey.setattr(arms, "CLONING_UPDATES", 400)
    fitted = arms.cloned(made, built, history, state)
    monkey.undo()
    rows = history.weeks[0]
    seen = rows.observations(rows.rows)
    actions = 2.0 * (rows.rows["k"].astype(float) - 1.0)
    before, after = (
        np.asarray(built.algorithm.act_greedily(each, seen))[:, 0] for each in (state, fitted)
    )
    assert np.mean((after - actions) ** 2) < 0.8 * np.mean((before - actions) ** 2)
    assert abs(after.mean() - actions.mean()) < 0.1


def test_critics_are_compared_with_what_days_cost(whole):
    for week in (1, 2):
        found = json.loads(plan.calibration_file(whole, "cal", week).read_text())
        assert found["days"] > 0
        assert np.isfinite([found["realised"], found["estimate"], found["conservative"]]).all()
        assert json.loads(plan.calibration_file(whole, "cup", week).read_text()) == {}


def test_tables_figure_and_page_say_that_it_is_simulated(whole):
    text = (whole / "tables.md").read_text()
    assert text.count("imulated") >= 2
    assert "Not comparable in units" in text
    page = (whole / "index.html").read_text()
    assert "simulated" in page
    assert "http" not in page  # self-contained
    assert (whole / "frontier.png").read_bytes()[:4] == b"\x89PNG"
    head = (whole / "table-paper.csv").read_text().splitlines()
    assert head[0] == "week,CAL,CUP"
    assert len(head) == 3
    lowest = min(float(cell.split(" / ")[0]) for row in head[1:] for cell in row.split(",")[1:])
    assert lowest == 0.0  # affine: less the least


def report(monkeypatch, *paths):
    monkeypatch.setattr(sys, "argv", ["prudent", "bidding", "report", *map(str, paths)])
    cli.main()


def test_report_makes_the_page_of_a_bidding_run_anew(whole, tmp_path, monkeypatch, capsys):
    """In the run's folder, from what is kept of it."""
    folder = tmp_path / "kept"
    for name in plan.kept_files(whole, Plan.read(whole)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(whole / name, folder / name)
    monkeypatch.chdir(tmp_path)
    report(monkeypatch, folder)
    assert capsys.readouterr().out == f"page: {folder / 'index.html'}\n"
    for name in ("index.html", "tables.md", "table-paper.csv"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
    shutil.rmtree(folder / "results")
    with pytest.raises(SystemExit, match="no deployment of this bidding run is finished yet"):
        report(monkeypatch, folder)


def test_a_reference_has_one_name():
    made = make_plan("tiny", {**GIVEN, "references": ("constant:1.0", "dual:1e-1", CLONING)})
    assert made.references == ("constant:1", "dual:0.1", CLONING)
    with pytest.raises(ValueError, match="reference constant:1 is named twice"):
        make_plan("tiny", {**GIVEN, "references": ("constant:1", "constant:1.0")})


SLOW = [
    pytest.param(step, marks=pytest.mark.slow)
    for step in ("draw", "export_policy", "save", "write_report")
]


@pytest.mark.parametrize("step", ["evaluate_week", *SLOW])
def test_stopped_anywhere_the_same_command_comes_to_the_same_results(
    whole, tmp_path, monkeypatch, step
):
    """Stopped once in each kind of step, in the second week, and begun again."""
    folder = tmp_path / "run"
    home = {
        "draw": HistoricalDataset, "save": updates, "export_policy": learners,
        "evaluate_week": protocol.metrics, "write_report": protocol,
    }[step]  # fmt: skip
    original, calls = getattr(home, step), []

    def stops(*arguments, **names):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(*arguments, **names)

    monkeypatch.setattr(home, step, stops)
    with pytest.raises(KeyboardInterrupt):
        carry_out(folder)
    monkeypatch.setattr(home, step, original)
    carry_out(folder)
    for week in range(3):
        assert results(folder, week) == results(whole, week)
    for week in (1, 2):
        for name in ("cal", "cup"):
            one, other = (plan.policy_file(f, name, week).read_bytes() for f in (folder, whole))
            assert one == other


def test_stopped_amid_updates_it_goes_on_from_the_checkpoint(whole, tmp_path, monkeypatch):
    """With a checkpoint after every call, the second attempt makes only what is left."""
    folder = tmp_path / "run"
    monkeypatch.setattr(updates, "CHECKPOINT_SECONDS", 0.0)
    original, sizes = HistoricalDataset.draw, []

    def stops(self, updates, *rest):
        sizes.append(updates)
        if sizes == [1, 64, 1]:
            raise KeyboardInterrupt
        return original(self, updates, *rest)

    monkeypatch.setattr(HistoricalDataset, "draw", stops)
    with pytest.raises(KeyboardInterrupt):
        carry_out(folder, weeks=1)
    sizes.clear()
    sizes.append(0)
    carry_out(folder, weeks=1)
    assert sizes[1:4] == [1, 1, 1]  # an example for its shape, then updates 65 and 66
    one, other = (plan.policy_file(f, "cal", 1) for f in (folder, whole))
    seen = np.ones(OBSERVATION_SIZE)
    assert load_exported(one)(seen) == load_exported(other)(seen)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"algorithms": ("dqn",)}, "no algorithm 'dqn'; there is"),
        ({"algorithms": ()}, "at least one algorithm"),
        ({"algorithms": ("cal", "cal")}, "algorithm cal is named twice"),
        ({"algorithms": ("ppo",)}, "only cup is set up for logged days"),
        ({"form": "ratio"}, "--form ratio is for cal and ucb; cup has no such setting"),
        ({"multiplier_scope": "group"}, "--multiplier-scope group is for cal and ucb"),
        ({"constraint_at": "accumulated"}, "--constraint-at accumulated is for cal and ucb"),
        (
            {"algorithms": ("cal",), "form": "ratio", "constraint_at": "accumulated"},
            "adds to a sum; --form ratio has none",
        ),
        ({"weeks": 0}, "--weeks is 0"),
        ({"updates": -1}, "--updates is -1"),
        ({"references": ("constnat:0.7",)}, "no reference 'constnat:0.7'; there is: constant:NUM"),
        ({"references": ("constant:9",)}, "'9' must be a number from 0.5 to 1.5"),
        ({"references": ("constant",)}, "'' must be a number from 0.5 to 1.5"),
        ({"references": ("../data",)}, "no reference '../data'"),
        ({"references": ("dual:../../data",)}, "must be a number from 0 to 1000"),
        ({"strategy": "sometimes"}, "no strategy 'sometimes'; there is: uniform"),
        ({"strategy": "recent(1.2.3)"}, r"recent\(1.2.3\): the half-life must be above 0"),
        ({"seed": 2**32}, "--seed is 4294967296; it must be a whole number at least 0 and at most"),
        ({"world_seed": 2**32}, "--world-seed is 4294967296"),
    ],
)
def test_plans_that_cannot_be_carried_out_are_refused(given, complaint):
    with pytest.raises(ValueError, match=complaint):
        make_plan("tiny", {**GIVEN, **given})


def test_a_wrong_reference_is_told_before_anything_is_written(tmp_path):
    words = ["run", "--preset", "tiny", "--references", "../data", "--out", str(tmp_path / "run")]
    with pytest.raises(ValueError, match="no reference"):
        command.main(words)
    assert not (tmp_path / "run").exists()


def test_an_outside_policy_is_sampled_only_if_it_says_how(tmp_path, monkeypatch):
    monkeypatch.setattr(ALGORITHMS, "_known", dict(ALGORITHMS._known))
    cal = ALGORITHMS["cal"]
    for entry in (TD3_LAG, cal._replace(name="theirs")):
        ALGORITHMS.register(entry)
    protocol.check_sampled(make_plan("tiny", {**GIVEN, "algorithms": ("theirs",)}))
    with pytest.raises(ValueError, match=r"td3-lag does not say how .* choose --deployed greedy"):
        carry_out(tmp_path / "run", algorithms=("cal", "td3-lag"))
    assert not (tmp_path / "run").exists()
    protocol.check_sampled(make_plan("tiny", {"algorithms": ("td3-lag",), "deployed": "greedy"}))


def test_what_the_plan_says_reaches_every_algorithm_that_has_it(whole):
    made, scale = make_plan("tiny", {**GIVEN, "target_rate": 0.5}), arms.scale_of(whole)
    configs = {name: learners.build(made, name, scale).run.config for name in plan.PAPER_COLUMNS}
    for name in ("wcsac", "cvpo", "sac-pid", "cal", "sac-lag"):
        assert configs[name].target_rate == 0.5
        assert (configs[name].hidden, configs[name].cost_discount) == ((8, 8), 0.999)
    assert configs["cal"].initial_temperature == 0.01
    assert configs["cal"].dual_action == configs["sac-lag"].dual_action == "policy"
    assert configs["cal"].multiplier_learning_rate == 3e-3
    # What is given holds for CUP too, whose own defaults are others.
    assert (configs["cup"].hidden, configs["cup"].multiplier_learning_rate) == ((8, 8), 1.0)
    usual = {name: value for name, value in GIVEN.items() if name != "hidden"}
    for given, expected in (
        ({}, ((64, 64), 1.0)),
        ({"hidden": (256, 256), "multiplier_learning_rate": 3e-3}, ((256, 256), 3e-3)),
    ):
        made = make_plan("tiny", {**usual, **given})
        config = learners.build(made, "cup", scale).run.config
        assert (config.hidden, config.multiplier_learning_rate) == expected


@pytest.mark.parametrize("name", plan.PAPER_COLUMNS)
def test_critics_see_actions_on_a_scale_and_the_market_sees_k(whole, monkeypatch, name):
    seen, find = [], learners.find_algorithm

    def spied(wanted):
        entry = find(wanted)
        return entry._replace(
            build=lambda config, spec: seen.append(spec) or entry.build(config, spec)
        )

    monkeypatch.setattr(learners, "find_algorithm", spied)
    built = learners.build(make_plan("tiny", GIVEN), name, arms.scale_of(whole))
    assert [(spec.action_scale, spec.action_centre) for spec in seen] == [((1.0,), (0.0,))]
    assert (built.spec.action_scale, built.spec.action_centre) == ((0.5,), (1.0,))


def test_plans_of_different_settings_have_different_names():
    plans = [make_plan("tiny", GIVEN), make_plan("tiny", {**GIVEN, "seed": 1})]
    plans += [make_plan("tiny", {**GIVEN, "strategy": "stratified"}), make_plan("smoke", GIVEN)]
    assert len({each.identity() for each in plans}) == 4


def test_another_plan_or_world_does_not_go_into_the_folder(whole, monkeypatch):
    other = make_plan("tiny", {**GIVEN, "updates": 71})
    with pytest.raises(ValueError, match="holds files of another plan"):
        protocol.run_protocol(whole, other, processes=1, say=quietly)
    monkeypatch.setitem(world.PRESETS, "tiny", replace(TINY, bias_sd=0.3))
    with pytest.raises(ValueError, match="not the one this run began with"):
        Plan.read(whole)


def test_a_lost_shard_of_the_log_stops_the_run(whole, tmp_path):
    """As `--resume` finds it: the cache is made anew, the results of week 2 are not there yet."""
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    shutil.rmtree(folder / "cache")
    (folder / "results" / "week-2.json").unlink()
    path = folder / "data" / rows_file(1, 3, 1)
    path.unlink()
    with pytest.raises(ValueError, match=f"{path} is missing; restore it"):
        protocol.run_protocol(folder, Plan.read(folder), processes=1, say=quietly)


@pytest.fixture
def begun(whole, tmp_path):
    """The whole run without the records of week 2; CAL has checkpoints of 70 and 140 updates."""
    folder = Path(shutil.copytree(whole, tmp_path / "begun"))
    for name in ("cal", "cup"):
        plan.record_file(folder, name, 2).unlink()
    return folder


def damage(folder, name, number):
    path = folder / "arms" / name / "checkpoints" / f"step-{number:09d}.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def test_a_damaged_checkpoint_of_the_week_is_made_again(begun, whole):
    """From the end of the week before, which comes to the same."""
    damage(begun, "cal", 142)
    arms.learn_week(begun, Plan.read(begun), "cal", 2)
    one, other = (plan.policy_file(f, "cal", 2).read_bytes() for f in (begun, whole))
    assert one == other


@pytest.mark.parametrize(("name", "newest", "update"), [("cal", 142, 70), ("cup", 4, 1)])
def test_a_checkpoint_of_an_older_week_is_no_place_to_go_on_from(begun, name, newest, update):
    plan.calibration_file(begun, "cal", 2).unlink()
    damage(begun, name, newest)
    made, home = Plan.read(begun), begun / "arms" / name
    told = f"{home}: .* week 2's update .* newest whole checkpoint is of week 1, update {update};"
    with pytest.raises(ValueError, match=told):
        arms.learn_week(begun, made, name, 3)
    shutil.rmtree(home / "checkpoints")
    with pytest.raises(ValueError, match=f"{home}: .* week 1's update .* checkpoint is lost"):
        arms.learn_week(begun, made, name, 2)


def test_a_later_weeks_learner_does_not_begin_again(begun):
    plan.record_file(begun, "cal", 1).unlink()
    with pytest.raises(ValueError, match="newest whole checkpoint is of week 2"):
        arms.learn_week(begun, Plan.read(begun), "cal", 1)


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"not empty \(mine.txt\)"):
        carry_out(tmp_path)


def test_a_write_that_was_killed_is_no_reason_to_refuse_a_folder(tmp_path):
    (tmp_path / ".prudent-0123456789abcdef.tmp").write_text("half a plan")
    made = make_plan("tiny", GIVEN)
    write_plan(tmp_path / plan.PLAN, made)
    assert Plan.read(tmp_path) == made
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_the_time_of_a_simulation_that_was_there_is_not_known(whole, tmp_path):
    """As after a kill between a deployment and its results."""
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    (folder / "results" / "week-2.json").unlink()
    protocol.run_protocol(folder, Plan.read(folder), processes=1, say=quietly)
    one, other = (json.loads((f / "results/week-2.json").read_text()) for f in (folder, whole))
    assert other.pop("simulation_seconds") > 0.0
    assert timeless(one) == timeless(other)
    assert "simulation_seconds" not in one
    rows = (folder / "table-full.csv").read_text().splitlines()
    (cal,) = [row.split(",") for row in rows if row.startswith("2,CAL")]
    assert cal[-2] == "-"


def test_no_learner_can_open_the_oracle(whole):
    paths = list((whole / "data" / "oracle").rglob("*.parquet"))
    assert paths
    for path in paths:
        for kind in ("rows", "ledger", "oracle-ledger"):
            with pytest.raises(OracleFile):
                read_table(path, kind)
    for module in (arms, dataset):
        assert "read_oracle" not in Path(module.__file__).read_text()


@pytest.mark.parametrize("form", ["ratio", "budget"])
def test_cal_learns_with_every_form_and_group(tmp_path, whole, form):
    """What its settings need beside the rows is handed over."""
    folder = Path(shutil.copytree(whole / "data", tmp_path / "run" / "data")).parent
    (folder / "data" / ".lock").unlink(missing_ok=True)
    given = {**GIVEN, "algorithms": ("cal",), "form": form, "multiplier_scope": "group"}
    made = make_plan("tiny", given)
    (folder / "arms").mkdir()
    arms.learn_week(folder, made, "cal", 1)
    record = json.loads(plan.record_file(folder, "cal", 1).read_text())
    assert np.isfinite(list(record["training"].values())).all()
    assert made.bound() == (-1.0 if form == "ratio" else -10.0)


def test_the_day_so_far_can_count_for_the_multiplier(whole):
    """What it measures is then the whole day's cost, of which a part has happened."""
    found = {}
    for at in ("batch", "accumulated"):
        made = make_plan("tiny", {**GIVEN, "algorithms": ("cal",), "constraint_at": at})
        history = arms.history_of(made, whole, "cal", 1)
        built = learners.build(made, "cal", arms.scale_of(whole))
        drawn = history.draw(1, 8, np.random.default_rng(0), "uniform")
        data = updates.drawn_for(made, built, history, 1)
        state = built.algorithm.init(jax.random.key(0))
        found[at] = built.algorithm.update(state, data, jax.random.key(1))[1]
    assert np.abs(drawn.accrued).max() > 0.0
    np.testing.assert_allclose(
        found["accumulated"]["violation"] - found["batch"]["violation"],
        drawn.accrued.mean(),
        atol=1e-4,
    )


def test_an_advertisers_multiplier_answers_to_its_own_week(tmp_path, whole):
    """It becomes max(0, itself + rate * mean daily deficit), of the incumbent's week."""
    folder = Path(shutil.copytree(whole / "data", tmp_path / "run" / "data")).parent
    (folder / "data" / ".lock").unlink(missing_ok=True)
    given = {"algorithms": ("cal",), "multiplier_scope": "advertiser", "updates": 1, "weeks": 1}
    made = make_plan("tiny", {**GIVEN, **given})
    (folder / "arms").mkdir()
    arms.learn_week(folder, made, "cal", 1)
    found = updates.load_newest(folder / "arms" / "cal", updates.identity_of(made, "cal"), print)
    days = protocol.metrics.read_days(whole / "data", 0)
    deficit = 10 * (days.roi * days.pay - days.gmv) / (days.roi * days.budget)
    table = read_table(whole / "data/week-0/advertisers.parquet", "advertisers")
    wanted = [max(0.0, 0.6931 + 0.3 * deficit[days.adv == adv].mean()) for adv in table["adv"]]
    np.testing.assert_allclose(found.arrays["state/dual/multiplier/multiplier"], wanted, rtol=1e-4)


def test_a_newcomer_does_not_inherit_a_multiplier(tmp_path, monkeypatch):
    """It begins where all began, and answers to its own first week alone."""
    monkeypatch.setitem(world.PRESETS, "tiny", replace(TINY, churn=0.4))
    given = {"algorithms": ("cal",), "references": (), "updates": 1}
    made = carry_out(tmp_path / "run", multiplier_scope="advertiser", **given)
    data, start, rate = tmp_path / "run" / "data", 0.6931, 0.3
    tables = [read_table(data / f"week-{w}/advertisers.parquet", "advertisers") for w in (0, 1)]
    days = [protocol.metrics.read_days(data, week) for week in (0, 1)]
    wanted = []
    for before, now in zip(*(table["adv"] for table in tables), strict=True):
        multiplier = start
        for week, adv in ((0, before), (1, now)):
            mine = (days[week].adv == adv) & (days[week].arm == 0)
            pay, gmv, roi, budget = (
                getattr(days[week], name)[mine] for name in ("pay", "gmv", "roi", "budget")
            )
            if week == 1 and before != now:
                multiplier = start
            deficit = 10 * np.mean((roi * pay - gmv) / (roi * budget))
            multiplier = max(0.0, multiplier + rate * deficit)
        wanted.append(multiplier)
    assert 5 < np.sum(tables[0]["adv"] != tables[1]["adv"]) < 37
    home = tmp_path / "run" / "arms" / "cal"
    found = updates.load_newest(home, updates.identity_of(made, "cal"), print)
    np.testing.assert_allclose(found.arrays["state/dual/multiplier/multiplier"], wanted, rtol=1e-4)


def test_a_learner_whose_protocol_was_killed_ends_at_once(whole):
    """It is told who began it, so it notices also if that ended before it had a look."""
    words = ["bidding", "learn", str(whole), "cal", "3", "1000000000"]  # nobody has this number
    ended = subprocess.run([sys.executable, "-m", "prudent", *words], check=False, timeout=300)
    assert ended.returncode == 1
    assert not plan.record_file(whole, "cal", 3).exists()


@pytest.mark.slow
def test_smoke_from_one_command_survives_a_kill(tmp_path):
    """The real thing, in processes, killed once amid the first week."""
    folder = tmp_path / "smoke"
    words = [
        sys.executable, "-m", "prudent", "bidding", "run", "--preset", "smoke", "--quiet",
        "--algorithms", "cal", "sac-pid", "--references", "constant:0.7", "--out", str(folder),
    ]  # fmt: skip
    process = subprocess.Popen(words)
    while process.poll() is None and not (folder / "arms" / "cal" / "week-1.json").exists():
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    resumed = [*words[:5], "--resume", str(folder), "--quiet"]
    assert subprocess.run(resumed, check=False).returncode == 0
    assert results(folder, 2)["training"]["cal"]["updates"] == 384
    assert (folder / "index.html").exists()
