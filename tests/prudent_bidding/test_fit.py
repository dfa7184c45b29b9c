"""A log, one's own or simulated, becomes a policy that can be deployed; and then the next one."""

import json
import shutil
from dataclasses import replace

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from prudent.files import checksum
from prudent.policies.exported import load_exported
from prudent.runs.lock import FolderInUse, only_writer
from prudent_bidding import command, fit, learners, updates, world
from prudent_bidding.dataset import HistoricalDataset
from prudent_bidding.engines import make_engine
from prudent_bidding.fit_plan import FIT_PLAN, POLICY, RECORD, FitPlan
from prudent_bidding.importing import import_logs
from prudent_bidding.records import read_settings
from prudent_bidding.simulate import make_order, simulate_week

TINY = replace(world.preset("smoke"), advertisers=42, block_size=21, volume=12.0, most_volume=40)
SIZES = ["--updates", "66", "--batch-size", "8", "--hidden", "8", "8"]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """Two weeks of the incumbent."""
    data = tmp_path_factory.mktemp("simulated") / "data"
    for week in (0, 1):
        simulate_week(make_order(data, TINY, 0, week, ["incumbent"]), make_engine("local", 1))
    return data


def logged(path, weeks):
    """A log of one's own: k explores, and a unit of k pays 0.8 more a record."""
    generator = np.random.default_rng(0)
    week, advertiser, day, record = np.indices((weeks, 12, 7, 10))
    k = generator.uniform(0.6, 1.4, week.shape).astype(np.float16).astype(float)
    columns = {
        "week": week, "day": day, "hour": record * 2.0, "advertiser": advertiser,
        "target_roi": np.full(k.shape, 2.0), "budget": np.full(k.shape, 100.0),
        "pctr": np.full(k.shape, 0.02), "pcvr": np.full(k.shape, 0.05),
        "pgmv": generator.uniform(20.0, 90.0, k.shape), "k": k, "pay": 1.0 + 0.8 * (k - 0.9),
        "gmv": generator.uniform(0.0, 4.0, k.shape),
    }  # fmt: skip
    pq.write_table(pa.table({name: values.ravel() for name, values in columns.items()}), path)
    return path


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("imported")
    import_logs([logged(folder / "log.parquet", 2)], folder / "data")
    return folder / "data"


def carry_out(data, out, *words, algorithm="cal"):
    """`prudent bidding fit` as it is typed; returns the record."""
    command.main(["fit", algorithm, "--data", str(data), "--out", str(out), *SIZES, *words])
    return json.loads((out / RECORD).read_text())


@pytest.fixture(scope="module")
def first(simulated, tmp_path_factory):
    """Fitted to week 0 of the simulated data set."""
    out = tmp_path_factory.mktemp("fits") / "first"
    carry_out(simulated, out, "--weeks", "0", "--quiet")
    return out


def test_the_record_says_what_was_learned_from_what(simulated, first):
    record = json.loads((first / RECORD).read_text())
    assert record["rows"] == len(HistoricalDataset(simulated, [0]))
    assert (record["plan"]["weeks"], record["plan"]["algorithm"]) == ([0], "cal")
    manifest = (simulated / "week-0" / "manifest.json").read_bytes()
    assert record["plan"]["manifests"] == [checksum(manifest)]
    assert record["policy_sha256"] == checksum((first / POLICY).read_bytes())
    assert record["updates"] == 66
    assert {"multiplier", "cost_estimate", "violation"} <= set(record["training"])
    assert np.isfinite(list(record["training"].values())).all()


def state_of(out):
    plan = read_settings(out / FIT_PLAN, FitPlan)
    scale = fit.scale_in(out / POLICY)
    built = learners.build(plan, plan.algorithm, scale)
    template = jax.eval_shape(built.algorithm.init, jax.random.key(0))
    found = updates.newest_checkpoint(out, plan, plan.algorithm)
    return built, updates.state_in(found, template)


def test_the_exported_policy_acts_as_the_learner_does(simulated, first):
    """On the log's own observations, raw; k is 1 + half the learner's action."""
    built, state = state_of(first)
    history = HistoricalDataset(simulated, [0])
    seen = history.weeks[0].observations(history.weeks[0].rows[:500])
    expected = 1.0 + 0.5 * np.asarray(built.algorithm.act_greedily(state, seen))
    np.testing.assert_allclose(load_exported(first / POLICY)(seen), expected, atol=1e-5)
    np.testing.assert_array_equal(
        load_file(first / POLICY)["observation/mean"], history.scale().mean
    )


def test_the_promise_is_of_the_policys_actions_and_the_cost_of_logged_days(simulated, first):
    """By hand: critics at each day's first row, and discounted sums of what was logged."""
    built, state = state_of(first)
    history = HistoricalDataset(simulated, [0])
    week = history.weeks[0]
    rows = history.read(week, np.arange(len(week.rows)))
    costs = [
        np.sum(rows.cost[start : start + length] * 0.999 ** np.arange(length))
        for start, length in zip(week.segments.start, week.segments.length, strict=True)
    ]
    promise = json.loads((first / RECORD).read_text())["promise"]
    assert promise["days"] == len(costs)
    assert promise["bound"] == 0.0
    assert promise["logged"] == pytest.approx(np.mean(costs), rel=1e-4)
    starts = history.read(week, week.segments.start)
    drawn = built.algorithm.act(state, starts.observation, jax.random.key(1))
    estimate = built.algorithm.cost_estimate(state, starts.observation, drawn)
    assert promise["estimate"] == pytest.approx(float(estimate.mean.mean()), abs=0.05)
    assert promise["conservative"] >= promise["estimate"]


def test_a_policy_can_be_deployed_in_the_simulator(first, tmp_path):
    order = make_order(tmp_path / "data", TINY, 0, 0, [str(first / POLICY)])
    assert simulate_week(order, make_engine("local", 1))["rows"] > 0


OTHERS = ("sac", "wcsac", "cvpo", "sac-pid")
ONE_IS_QUICK = ["sac-lag", *(pytest.param(a, marks=pytest.mark.slow) for a in OTHERS)]


@pytest.mark.parametrize("algorithm", ONE_IS_QUICK)
def test_every_off_policy_algorithm_learns_from_a_log_of_ones_own(imported, tmp_path, algorithm):
    """All weeks, no oracle, orders as they came."""
    assert not (imported / "oracle").exists()
    words = ("--gmv", "realised", "--updates", "9", "--quiet")
    record = carry_out(imported, tmp_path / "fit", *words, algorithm=algorithm)
    assert record["plan"]["weeks"] == [0, 1]
    assert record["rows"] == 2 * 12 * 7 * 10
    assert load_exported(tmp_path / "fit" / POLICY).about["task"] == "bidding-log"


def test_the_words_say_what_is_promised_and_that_it_is_no_evidence(imported, tmp_path, capsys):
    words = ("--gmv", "realised", "--form", "ratio")
    record = carry_out(imported, tmp_path / "ratio", *words)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "cal: 66 updates, from 1,680 rows of weeks 0, 1"
    assert f"GMV / (target * pay) of {-record['training']['cost_estimate']:.3g}" in said[1]
    assert "not evidence" in said[2]
    assert said[3] == f"policy: {tmp_path / 'ratio' / POLICY}"
    record = carry_out(imported, tmp_path / "deficit", "--gmv", "realised")
    said = capsys.readouterr().out.splitlines()
    assert f"costs {record['promise']['conservative']:.3g} by their conservative" in said[1]
    carry_out(imported, tmp_path / "deficit", "--gmv", "realised")
    again = capsys.readouterr().out.splitlines()
    assert again == [f"{tmp_path / 'deficit'} is finished; nothing is left to do", *said]


@pytest.mark.parametrize("calls", [0, 1])
def test_stopped_amid_updates_the_same_command_comes_to_the_same_policy(
    simulated, first, tmp_path, monkeypatch, calls
):
    """Before the first checkpoint, and after it."""
    monkeypatch.setattr(updates, "CHECKPOINT_SECONDS", 0.0)
    original, sizes = updates.drawn_for, []

    def stops(plan, built, history, count, progress=None):
        if progress is not None:
            if len(sizes) == calls:
                raise KeyboardInterrupt
            sizes.append(count)
        return original(plan, built, history, count, progress)

    monkeypatch.setattr(updates, "drawn_for", stops)
    words = ("--weeks", "0", "--quiet")
    with pytest.raises(SystemExit, match="The same command goes on"):
        carry_out(simulated, tmp_path / "fit", *words)
    assert not (tmp_path / "fit" / RECORD).exists()
    calls += 9
    carry_out(simulated, tmp_path / "fit", *words)
    assert sizes == [64, 1, 1]  # nothing twice
    assert (tmp_path / "fit" / POLICY).read_bytes() == (first / POLICY).read_bytes()


def test_the_next_fit_goes_on_from_the_last(simulated, first, tmp_path, monkeypatch):
    """From its very learner and on its scale, not on that of the week it now learns from."""
    original, begun = fit.make_updates, []

    def spied(*arguments):
        progress = arguments[2]
        begun.append((progress.done, progress.updates, jax.tree.map(np.array, progress.state)))
        return original(*arguments)

    monkeypatch.setattr(fit, "make_updates", spied)
    out = tmp_path / "second"
    record = carry_out(simulated, out, "--weeks", "1", "--init-from", str(first), "--quiet")
    assert (record["updates"], record["plan"]["number"]) == (132, 2)
    assert record["plan"]["goes_on_from"] == checksum((first / POLICY).read_bytes())
    ((done, updates, state),) = begun
    assert (done, updates) == (0, 66)
    jax.tree.map(np.testing.assert_array_equal, state, state_of(first)[1])
    before, after = (load_file(folder / POLICY) for folder in (first, out))
    for name in ("mean", "deviation", "largest"):
        np.testing.assert_array_equal(after[f"observation/{name}"], before[f"observation/{name}"])
    assert not np.array_equal(
        HistoricalDataset(simulated, [1]).scale().mean, after["observation/mean"]
    )
    assert not np.array_equal(before["layers/0/weight"], after["layers/0/weight"])
    third = carry_out(simulated, tmp_path / "third", "--init-from", str(out), "--quiet")
    assert (third["updates"], third["plan"]["number"], third["plan"]["weeks"]) == (198, 3, [0, 1])


def test_a_next_fit_that_was_stopped_goes_on_too(simulated, first, tmp_path, monkeypatch):
    words = ("--weeks", "1", "--init-from", str(first), "--quiet")
    carry_out(simulated, tmp_path / "whole", *words)
    with monkeypatch.context() as patched:
        patched.setattr(learners, "export_policy", interrupt)
        with pytest.raises(SystemExit):
            carry_out(simulated, tmp_path / "fit", *words)
    carry_out(simulated, tmp_path / "fit", *words)
    one, other = ((tmp_path / name / POLICY).read_bytes() for name in ("fit", "whole"))
    assert one == other


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--updates", "67"], "was fitted with updates 66, not 67; give the same settings"),
        (["--hidden", "8"], r"was fitted with hidden \(8, 8\), not \(8,\)"),
        (["--gmv", "realised"], "was fitted with gmv calibrated, not realised"),
        (["--seed", "1"], "was fitted with seed 0, not 1"),
    ],
)
def test_a_fit_does_not_go_on_under_other_settings(simulated, first, tmp_path, words, complaint):
    with pytest.raises(ValueError, match=complaint):
        carry_out(simulated, tmp_path / "fit", "--init-from", str(first), *words)
    assert not (tmp_path / "fit").exists()


def test_a_fit_goes_on_only_from_a_whole_finished_one(simulated, first, tmp_path):
    words = ("--init-from", str(tmp_path / "last"))
    with pytest.raises(ValueError, match=r"no finished fit to go on from \(there is no fit.json\)"):
        carry_out(simulated, tmp_path / "fit", *words)
    shutil.copytree(first, tmp_path / "last")
    with pytest.raises(ValueError, match="fitted with algorithm cal, not sac-lag"):
        carry_out(simulated, tmp_path / "fit", *words, algorithm="sac-lag")
    (tmp_path / "last" / POLICY).write_bytes(b"another")
    with pytest.raises(ValueError, match=r"is not the policy that .* tells of"):
        carry_out(simulated, tmp_path / "fit", *words)
    shutil.copy(first / POLICY, tmp_path / "last" / POLICY)
    shutil.rmtree(tmp_path / "last" / "checkpoints")
    with pytest.raises(ValueError, match="newest whole checkpoint is lost"):
        carry_out(simulated, tmp_path / "fit", *words)


@pytest.mark.parametrize(
    ("algorithm", "words", "complaint"),
    [
        ("cup", [], "cup learns on-policy, .* for a log there is: cal, "),
        ("dqn", [], "no algorithm 'dqn'; there is"),
        ("sac-lag", ["--form", "ratio"], "--form ratio is for cal and ucb; sac-lag"),
        ("cal", ["--weeks", "0", "0"], "--weeks 0 0: each is given once"),
        ("cal", ["--weeks", "5"], "week-5 is not finished"),
        ("cal", ["--strategy", "sometimes"], "no strategy 'sometimes'"),
        ("cal", ["--updates", "0"], "--updates is 0"),
        ("cal", [], r"which holds for simulated first-price .* \(--gmv realised\)"),
    ],
)
def test_what_cannot_be_fitted_is_refused_and_nothing_is_written(
    imported, tmp_path, algorithm, words, complaint
):
    with pytest.raises(ValueError, match=complaint):
        carry_out(imported, tmp_path / "fit", *words, algorithm=algorithm)
    assert not (tmp_path / "fit").exists()


def test_a_folder_without_weeks_is_no_data_set(tmp_path):
    with pytest.raises(ValueError, match="holds no finished week; `prudent bidding import`"):
        carry_out(tmp_path, tmp_path / "fit")


def test_a_folder_has_one_plan_and_one_writer(simulated, first, tmp_path):
    with pytest.raises(ValueError, match="holds files of another plan"):
        carry_out(simulated, first, "--quiet")  # both weeks
    with only_writer(first), pytest.raises(FolderInUse, match="another process"):
        carry_out(simulated, first, "--weeks", "0")
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"not empty \(mine.txt\)"):
        carry_out(simulated, tmp_path, "--weeks", "0")


def test_a_log_that_changed_is_another_plan(imported, tmp_path):
    """A fit does not go on with rows that it did not begin with."""
    data, words = tmp_path / "data", ("--gmv", "realised", "--quiet")
    shutil.copytree(imported, data)
    carry_out(data, tmp_path / "fit", *words)
    path = data / "week-1" / "manifest.json"
    path.write_text(path.read_text() + "\n")
    with pytest.raises(ValueError, match="holds files of another plan"):
        carry_out(data, tmp_path / "fit", *words)


def test_help_shows_every_option(capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(["fit", "--help"])
    assert not stop.value.code
    assert "--init-from" in capsys.readouterr().out
