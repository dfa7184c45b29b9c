"""A learner reads what the simulator acted on, row by row, and nothing that it must not know."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prudent.files import CannotWrite, checksum
from prudent_bidding import cache as packing
from prudent_bidding import world
from prudent_bidding.cache import build_cache, places_of
from prudent_bidding.dataset import HistoricalDataset, Learning
from prudent_bidding.day import Plan, next_known, nothing_known, simulate_day
from prudent_bidding.manifest import shards_of
from prudent_bidding.population import make_week
from prudent_bidding.schema import (
    AD,
    BUDGET_SPENT,
    CATEGORY,
    GOES_ON,
    MANIFEST,
    advertisers_file,
    ledger_file,
    oracle_file,
    rows_file,
    week_folder,
)
from prudent_bidding.shards import OracleFile, read_table, write_table

SMALL = replace(world.preset("smoke"), advertisers=40, block_size=20, volume=25.0)
WEEKS = (0, 1)


class Spy:
    """Acts at random and remembers what it saw."""

    needs = frozenset({"observations"})

    def __init__(self):
        self.seen = []

    def act(self, view, generator):
        self.seen.append(view.observations.copy())
        return generator.uniform(0.5, 1.5, len(view.observations)).astype(np.float32)


def advertisers_table(week):
    from prudent_bidding.assignment import volume_deciles

    people, place = week.advertisers, week.structure.category[week.advertisers.category]
    count = len(people.adv)
    return {
        "adv": people.adv, "slot": np.arange(count), "block": np.arange(count) // SMALL.block_size,
        "category": people.category, "volume_decile": volume_deciles(people.volume),
        "volume": people.volume, "log_roi": people.log_roi, "budget": week.budget,
        **dict(zip(CATEGORY, place.T, strict=True)), **dict(zip(AD, people.ad.T, strict=True)),
    }  # fmt: skip


def finish(folder: Path, number: int) -> None:
    """A manifest of the files as they are."""
    shards = []
    for path in sorted((folder / week_folder(number)).glob("day-*/block-*.parquet")):
        place = (number, int(path.parent.name[4:]), int(path.stem[6:]))
        files = {"rows": rows_file(*place), "ledger": ledger_file(*place)}
        sums = {name: {"sha256": checksum((folder / p).read_bytes())} for name, p in files.items()}
        shards.append({"day": place[1], "block": place[2], **sums})
    content = {"week": number, "shards": shards}
    (folder / week_folder(number) / MANIFEST).write_text(json.dumps(content))


def write_week(folder: Path, number: int, settings=SMALL) -> np.ndarray:
    """A whole week by the day's simulator; returns what the policy saw, in the order of files."""
    week = make_week(settings, 0, number)
    seen = []
    for block in range(settings.blocks):
        slots = np.arange(settings.block_size) + block * settings.block_size
        known = nothing_known(len(slots))
        for day in range(2):
            arms = ((slots + day) % 2).astype(np.uint8)
            spies = [Spy(), Spy()]
            plan = Plan(day, block, slots, arms, known, np.zeros(settings.categories))
            done = simulate_day(week, plan, spies)
            known = next_known(known, done.ledger)
            for path, kind, table in (
                (rows_file(number, day, block), "rows", done.rows),
                (ledger_file(number, day, block), "ledger", done.ledger),
                (oracle_file(ledger_file(number, day, block)), "oracle-ledger", done.oracle_ledger),
            ):
                write_table(folder / path, kind, table, {})
            seen.append(((day, block), spies))
    write_table(folder / advertisers_file(number), "advertisers", advertisers_table(week), {})
    finish(folder, number)
    return [spies for _, spies in sorted(seen, key=lambda entry: entry[0])]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bidding") / "data"
    return folder, [write_week(folder, week) for week in WEEKS]


@pytest.fixture
def data(written, tmp_path):
    return Path(shutil.copytree(written[0], tmp_path / "data"))


def rows_in_order(folder: Path, week: int):
    parts = [
        read_table(folder / rows_file(week, *shard[:2]), "rows")
        for shard in shards_of(folder, week)
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@pytest.mark.parametrize("delay", [0.0, 2.0])
def test_observations_are_those_that_the_policy_acted_on(tmp_path, delay):
    """Compared as sets of rows: a wave of the simulator has all advertisers, a file one by one."""
    settings = replace(SMALL, delay_hours=delay)
    spies = write_week(tmp_path, 0, settings)
    history = HistoricalDataset(tmp_path, [0])
    (week,) = history.weeks
    seen = np.concatenate([np.concatenate(spy.seen) for pair in spies for spy in pair])
    made = week.observations(week.rows)
    assert made.shape == seen.shape
    made, seen = (array[np.lexsort(array[:, :9].T)] for array in (made, seen))
    np.testing.assert_allclose(made, seen, rtol=2e-6, atol=2e-6)
    if delay:  # GMV that came late is not seen early
        rows = rows_in_order(tmp_path, 0)
        assert rows["seen"].any()


def test_a_transition_is_a_row_and_the_next_one(written):
    folder, _ = written
    history = HistoricalDataset(folder, [0])
    (week,) = history.weeks
    rows = rows_in_order(folder, 0)
    count = len(rows["adv"])
    assert len(history) == count
    found = history.read(week, np.arange(count))
    everything = week.observations(week.rows)
    goes_on = rows["done"] == GOES_ON
    assert np.array_equal(found.observation, everything)
    assert np.array_equal(found.next_observation[goes_on], everything[1:][goes_on[:-1]])
    assert np.array_equal(found.continues, goes_on)
    same = rows["adv"][1:] == rows["adv"][:-1]
    assert np.all(same[goes_on[:-1]])  # a successor is of the same advertiser
    table = read_table(folder / advertisers_file(0), "advertisers")
    place = places_of(rows["adv"], table["adv"])
    budget, roi = table["budget"][place], np.exp(table["log_roi"][place].astype(float))
    np.testing.assert_allclose(found.reward, 10 * rows["pay"] / budget, rtol=1e-5)
    wanted = 10 * (roi * rows["pay"] - rows["gmv"]) / (roi * budget)
    np.testing.assert_allclose(found.cost, wanted, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.action[:, 0], 2 * (rows["k"].astype(float) - 1), atol=1e-6)
    assert np.array_equal(found.slot, table["slot"][place])
    assert np.array_equal(found.category, table["category"][place])


def test_accrued_cost_is_the_sum_of_the_day_so_far(written):
    history = HistoricalDataset(written[0], [0])
    (week,) = history.weeks
    segment = int(np.argmax(week.segments.length))
    index = week.segments.start[segment] + np.arange(week.segments.length[segment])
    found = history.read(week, index)
    before = np.cumsum(found.cost, dtype=float) - found.cost
    np.testing.assert_allclose(found.accrued, before, atol=1e-5)


def test_days_of_the_ledger_are_days_of_rows(written):
    history = HistoricalDataset(written[0], [0])
    (week,) = history.weeks
    ends = week.segments.start + week.segments.length - 1
    done = week.rows["day_and_done"] >> 3
    assert np.array_equal(np.flatnonzero(done != GOES_ON), np.sort(ends))
    assert (done == BUDGET_SPENT).any()


def drawn(history, strategy, updates=200, batch=64, seed=0):
    return history.draw(updates, batch, np.random.default_rng(seed), strategy)


def test_uniform_draws_rows_equally_often(written):
    history = HistoricalDataset(written[0], [0])
    found = drawn(history, "uniform").slot.ravel()
    (week,) = history.weeks
    slots = week.advertisers["slot"][week.rows["place"]]
    expected = np.bincount(slots, minlength=40) / len(slots)
    shares = np.bincount(found, minlength=40) / len(found)
    deviation = np.sqrt(expected * (1 - expected) / len(found))
    assert np.all(np.abs(shares - expected) < 5 * deviation + 1e-12)


def test_advertiser_balanced_draws_advertisers_equally_often(written):
    found = drawn(HistoricalDataset(written[0], [0]), "advertiser_balanced").slot.ravel()
    shares = np.bincount(found, minlength=40) / len(found)
    assert np.all(np.abs(shares - 1 / 40) < 5 * np.sqrt(1 / 40 / len(found)))


def test_stratified_draws_strata_equally_often(written):
    history = HistoricalDataset(written[0], [0])
    table = history.weeks[0].advertisers
    stratum = table["category"].astype(int) * 256 + table["volume_decile"]
    found = stratum[np.argsort(table["slot"])][drawn(history, "stratified").slot.ravel()]
    names, counts = np.unique(found, return_counts=True)
    expected = len(found) / len(np.unique(stratum))
    assert len(names) == len(np.unique(stratum))
    assert np.all(np.abs(counts - expected) < 5 * np.sqrt(expected))


def test_recent_halves_with_every_half_life(written):
    history = HistoricalDataset(written[0], [0, 1])
    rng = np.random.default_rng(0)
    pool = history._make_pool("recent(0.5)")
    np.testing.assert_allclose(pool.weight, [0.2, 0.8])  # two half-lives ago: a quarter
    group = history.draw(100, 100, rng, "recent(0.5)")
    assert group.reward.shape == (100, 100)


def test_own_history_is_of_the_arm_named(written):
    folder, _ = written
    history = HistoricalDataset(folder, [0, 1], arms={1: [1]})
    rows = [rows_in_order(folder, week) for week in WEEKS]
    assert len(history) == len(rows[0]["adv"]) + int((rows[1]["arm"] == 1).sum())
    only = HistoricalDataset(folder, [1], arms={1: [0]})
    pool = only._make_pool("uniform")
    spans = np.stack([np.concatenate([[0], pool.ends[:-1]]), pool.ends], axis=1)
    index = np.concatenate(
        [shift + np.arange(*days) for shift, days in zip(pool.shift, spans, strict=True)]
    )
    assert set(rows[1]["arm"][index]) == {0}


@pytest.mark.parametrize(
    ("arms", "complaint"),
    [
        ({1: [99]}, "no row of week 1 is of arm 99"),
        ({0: [0], 1: [1, 7]}, "no row of week 1 is of arm 7"),
        ({1: []}, r"no row of week 1 is of arm \[\]"),
        ({7: [0]}, r"arms of week 7 are named, which is none of \[0, 1\]"),
    ],
)
def test_arms_that_are_not_there_are_refused(written, arms, complaint):
    with pytest.raises(ValueError, match=complaint):
        HistoricalDataset(written[0], [0, 1], arms=arms)


def test_weeks_stand_in_the_order_of_time_however_they_are_named(written):
    one, other = (HistoricalDataset(written[0], weeks) for weeks in ([0, 1], [1, 0]))
    assert [week.week for week in other.weeks] == [0, 1]
    assert np.array_equal(one.scale().mean, other.scale().mean)
    assert np.array_equal(one.mean_day_cost(40), other.mean_day_cost(40), equal_nan=True)


@pytest.mark.parametrize(("updates", "batch"), [(0, 4), (2, 0), (-1, 4)])
def test_a_draw_of_nothing_is_refused(written, updates, batch):
    history = HistoricalDataset(written[0], [0])
    with pytest.raises(ValueError, match=f"{updates} updates with {batch} rows each; at least 1"):
        history.draw(updates, batch, np.random.default_rng(0))


def test_several_weeks_are_put_together_in_the_order_drawn(written):
    """The same draw, read row by row."""
    history = HistoricalDataset(written[0], [0, 1])
    found = history._gather(np.array([0, 1, 0, 1]), np.array([3, 4, 5, 6]), (2, 2))
    single = [
        history.read(history.weeks[week], np.array([row]))
        for week, row in ((0, 3), (1, 4), (0, 5), (1, 6))
    ]
    wanted = np.concatenate([part.observation for part in single])
    assert np.array_equal(found.observation.reshape(4, -1), wanted)


def test_minibatches_are_what_an_update_takes(written):
    from prudent.algorithms import ALGORITHMS
    from prudent.pieces.types import Spec

    history = HistoricalDataset(written[0], [0])
    data = history.sample(3, 8, np.random.default_rng(0), "uniform")
    assert data.observation.shape[:2] == data.cost.shape == (3, 8)
    spec = Spec(data.observation.shape[-1], 1, 0.0, (0.5,), (1.0,))
    import jax

    entry = ALGORITHMS["cal"]
    algorithm = entry.build(entry.config(hidden=(8, 8)), spec)
    state = algorithm.init(jax.random.key(0))
    _, metrics = algorithm.update(state, data, jax.random.key(1))
    assert np.isfinite(float(metrics["multiplier"]))


def test_the_scale_is_that_of_the_first_week_whatever_follows(written):
    first, both = HistoricalDataset(written[0], [0]), HistoricalDataset(written[0], [0, 1])
    for one, other in zip(first.scale(), both.scale(), strict=True):
        assert np.array_equal(one, other)
    scale = first.scale()
    seen = first.weeks[0].observations(first.weeks[0].rows)
    scaled = (seen - scale.mean) / scale.deviation
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=0.1)


def test_oracle_files_cannot_be_read_as_rows(data):
    ledger = ledger_file(0, 0, 0)
    shutil.copy(data / oracle_file(ledger), data / ledger)
    finish(data, 0)
    with pytest.raises(OracleFile, match="no learner"):
        HistoricalDataset(data, [0])


def test_a_cache_is_built_once_and_again_if_it_is_stale(data, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    path = build_cache(data, 0, cache)
    assert path.stat().st_size == 40 * (len(rows_in_order(data, 0)["adv"]) + 1)
    content, first = path.read_bytes(), path.stat().st_mtime_ns
    assert build_cache(data, 0, cache) == path
    assert path.stat().st_mtime_ns == first  # left alone
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))  # a bit flips
    build_cache(data, 0, cache)
    assert path.read_bytes() == content
    manifest = data / week_folder(0) / MANIFEST
    manifest.write_text(manifest.read_text() + "\n")  # the week was written anew
    stale = path.stat().st_mtime_ns
    build_cache(data, 0, cache)
    assert path.stat().st_mtime_ns > stale
    assert path.read_bytes() == content


@pytest.mark.parametrize("path", [rows_file(0, 1, 0), ledger_file(0, 0, 1)])
def test_a_lost_or_altered_shard_is_named(data, path):
    """Another week's file in its place can be read as well as the right one."""
    shutil.rmtree(data / "cache", ignore_errors=True)
    shutil.copy(data / str(path).replace("week-0", "week-1"), data / path)
    with pytest.raises(ValueError, match=f"{path} was altered since its week was finished; restor"):
        HistoricalDataset(data, [0])
    (data / path).unlink()
    with pytest.raises(ValueError, match=f"{path} is missing; restore it"):
        HistoricalDataset(data, [0])
    assert not (data / "cache" / "week-0.rows").exists()


def test_a_ledger_altered_after_the_cache_was_built_is_named_too(data):
    build_cache(data, 0, data / "cache")
    shutil.copy(data / ledger_file(1, 0, 1), data / ledger_file(0, 0, 1))
    with pytest.raises(ValueError, match=r"ledger-1.parquet was altered"):
        HistoricalDataset(data, [0])


def test_a_manifest_without_its_list_is_refused(data):
    manifest = data / week_folder(0) / MANIFEST
    for text in ("{}", "[1]", "no json", '{"shards": []}'):
        manifest.write_text(text)
        with pytest.raises(ValueError, match="lists no files; restore it"):
            HistoricalDataset(data, [0])
    manifest.write_text('{"shards": [{"day": 0, "block": 0}]}')
    with pytest.raises(ValueError, match="lacks checksums; restore it"):
        HistoricalDataset(data, [0])


def test_a_build_that_is_killed_leaves_no_cache(data, tmp_path, monkeypatch):
    def killed(*arguments):
        raise KeyboardInterrupt

    cache = tmp_path / "cache"
    monkeypatch.setattr(packing, "pack", killed)
    with pytest.raises(KeyboardInterrupt):
        build_cache(data, 0, cache)
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_named(data, tmp_path):
    (tmp_path / "file").write_text("no folder")
    for cache in (tmp_path / "file" / "cache", tmp_path / "file"):
        with pytest.raises(CannotWrite, match=rf"^{cache} cannot be written: [^\n]+$"):
            HistoricalDataset(data, [0], cache=cache)


def test_an_unfinished_week_and_an_unknown_strategy_are_refused(data):
    history = HistoricalDataset(data, [0])
    with pytest.raises(ValueError, match="no strategy 'best'; there is: uniform"):
        history.sample(1, 1, np.random.default_rng(0), "best")
    with pytest.raises(ValueError, match="half-life must be above 0"):
        history.draw(1, 1, np.random.default_rng(0), "recent(0)")
    (data / week_folder(1) / MANIFEST).unlink()
    with pytest.raises(ValueError, match="not finished"):
        HistoricalDataset(data, [1])
    with pytest.raises(ValueError, match="each once"):
        HistoricalDataset(data, [0, 0])


def test_costs_follow_the_form(written):
    base = HistoricalDataset(written[0], [0])
    other = HistoricalDataset(
        written[0], [0], learning=Learning(5.0, lambda pay, gmv, roi, budget: -gmv / roi)
    )
    index = np.arange(50)
    one, two = (h.read(h.weeks[0], index) for h in (base, other))
    np.testing.assert_allclose(one.cost, one.reward + 2 * two.cost, atol=1e-5)
    deficit = Learning().step_cost
    assert deficit(10.0, 50.0, 4.0, 100.0) == pytest.approx(-10 / 400)  # ROI 5, target 4: met


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"gmv": "Calibrated"}, "gmv is 'Calibrated'; it must be one of realised, calibrated"),
        ({"budget_units": -10}, "budget_units is -10; it must be a number above 0"),
        ({"budget_units": np.nan}, "budget_units is nan; it must be a number above 0"),
        ({"step_cost": "deficit"}, "step_cost is 'deficit'; it must be a function"),
    ],
)
def test_labels_that_cannot_be_are_refused(given, complaint):
    with pytest.raises(ValueError, match=complaint):
        Learning(**given)


def test_the_rate_of_sampling_stands_beside_its_limit(written):
    from prudent_bidding.sampling import sampling_rate

    rate = sampling_rate(HistoricalDataset(written[0], [0]), seconds=0.2)
    assert 0.0 < rate.ratio < 1.0  # more work than a copy of the rows


def test_a_week_repeated_for_the_bench_is_the_same_week_again(written, tmp_path):
    from prudent_bidding.sampling import enlarged

    once = HistoricalDataset(written[0], [0])
    many = enlarged(HistoricalDataset(written[0], [0]), tmp_path / "rows", 81)
    assert len(many) == 3 * len(once)
    (small,), (large,) = once.weeks, many.weeks
    # Each time in other places of tables as large as those of so many advertisers.
    assert len(np.unique(large.rows["place"])) == 3 * len(np.unique(small.rows["place"]))
    assert len(large.facts) == len(large.advertisers["slot"]) == large.earlier.shape[1] == 120
    assert np.array_equal(large.rows["place"][large.segments.start], large.segments.place)
    index = np.arange(5) + len(once)
    one, other = (h.read(h.weeks[0], i) for h, i in ((once, np.arange(5)), (many, index)))
    assert np.array_equal(one.observation, other.observation)
    drawn(many, "uniform", updates=2)


def test_learners_see_the_track_record_that_controllers_bid_by(tmp_path):
    """From the second week's first day on, newcomers included."""
    from prudent_bidding.engines import make_engine
    from prudent_bidding.schema import K_HIGH, K_LOW, OBSERVATION
    from prudent_bidding.simulate import make_order, simulate_week

    settings = replace(SMALL, churn=0.2)
    for week in WEEKS:
        order = make_order(tmp_path, settings, 0, week, ["feedback:1.0"], "switchback", False)
        simulate_week(order, make_engine("local", 1))
    (week,) = HistoricalDataset(tmp_path, [1]).weeks
    seen = week.observations(week.rows)[:, OBSERVATION.index("track_record")]
    bid = np.clip(np.exp(seen), K_LOW, K_HIGH)
    np.testing.assert_allclose(bid, week.rows["k"].astype(np.float32), atol=1e-3)
    monday = week.rows["day_and_done"] & 7 == 0
    assert np.std(seen[monday]) > 0.05  # what the first week showed
    assert np.any(seen[monday] == 0.0)  # newcomers


def calibrated(folder, weeks=(0,)):
    return HistoricalDataset(folder, weeks, learning=Learning(gmv="calibrated"))


def test_calibrated_costs_by_hand(written):
    """What was predicted for the wins, times what this row and later ones made of it."""
    data = written[0]
    with pytest.raises(ValueError, match="which holds for simulated first-price markets only"):
        calibrated(data)
    for price in ("second", "first"):
        (data / "world.json").write_text(json.dumps({"world": {"price": price}}))
        if price == "second":
            with pytest.raises(ValueError, match="learn from realised GMV"):
                calibrated(data)
    realised, history = HistoricalDataset(data, [0]), calibrated(data)
    (week,) = history.weeks
    every = np.arange(len(week.rows))
    found, usual = (h.read(week, every) for h in (history, realised))
    log_roi, budget = week.facts[:, :2].T
    rows, place = week.rows, week.rows["place"]
    for one in np.unique(place)[:5]:
        mine = np.flatnonzero(place == one)  # in the order of time
        pay, gmv, k = (rows[name][mine].astype(float) for name in ("pay", "gmv", "k"))
        for at, row in enumerate(mine):
            ratio = gmv[at:].sum() / (pay / k)[at:].sum() if pay[at] else 0.0
            expected = (
                10.0 / budget[one] * (pay[at] - ratio * pay[at] / k[at] / np.exp(log_roi[one]))
            )
            assert found.cost[row] == pytest.approx(expected, rel=1e-4, abs=1e-6)
    np.testing.assert_array_equal(found.accrued, usual.accrued)  # what happened stays
    np.testing.assert_array_equal(found.observation, usual.observation)
    assert found.cost.std() < 0.8 * usual.cost.std()


def slope_between_days(history, cost):
    """Of a day's mean cost along its mean k, days weighed by their rows."""
    (week,) = history.weeks
    length = week.segments.length
    day = np.repeat(np.arange(len(length)), length)
    k, cost = (np.bincount(day, values) / length for values in (week.rows["k"].astype(float), cost))
    k, cost = (values - np.average(values, weights=length) for values in (k, cost))
    return np.sum(length * k * cost) / np.sum(length * k * k)


def test_calibrated_costs_along_what_controllers_bid_by(tmp_path):
    """The incumbent bids more after lucky days. Were their luck in the labels of later days, high
    bids would look cheap: the cost by true rates rises between days with k, and so must the label.
    """
    from prudent_bidding.engines import make_engine
    from prudent_bidding.simulate import make_order, simulate_week

    settings = replace(SMALL, advertisers=1200, block_size=1200, volume=60.0)
    order = make_order(tmp_path, settings, 0, 0, ["feedback:0.9"], "switchback", True)
    simulate_week(order, make_engine("local", 1))
    history = calibrated(tmp_path)
    (week,) = history.weeks
    label = history.read(week, np.arange(len(week.rows))).cost
    expected = np.concatenate(
        [
            read_oracle(tmp_path / oracle_file(rows_file(0, *shard[:2])))
            for shard in shards_of(tmp_path, 0)
        ]
    )
    log_roi, budget = week.facts[week.rows["place"], :2].T
    true = 10.0 / budget * (week.rows["pay"] - expected / np.exp(log_roi))
    slope, learned = slope_between_days(history, true), slope_between_days(history, label)
    assert slope > 0.0
    assert learned == pytest.approx(slope, rel=0.3)


def read_oracle(path):
    import pyarrow.parquet as pq

    return pq.read_table(path)["exp_gmv"].to_numpy().astype(float)
