"""Cost estimates against episodes, on a problem whose cost value is known in closed form."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import gymnasium
import jax
import numpy as np
import pytest
import steps
from gymnasium.spaces import Box
from safetensors.numpy import load_file, save_file
from support import build, lines, small_run, timeless

import prudent
from prudent.algorithms import ALGORITHMS
from prudent.diagnostics import run as pass_over
from prudent.diagnostics.command import diagnose_all
from prudent.diagnostics.episodes import Visited, play
from prudent.diagnostics.gap import (
    Estimates,
    cost_after_cut,
    describe_gap,
    describe_oracle,
    oracle_of,
)
from prudent.diagnostics.run import Plan, Watcher, as_taught, diagnose, time_limit_ends
from prudent.pieces.critics import tail_weight
from prudent.pieces.types import Spec
from prudent.report.diagnostics import read_diagnostics
from prudent.report.pack import pack
from prudent.runs.checkpoint import DamagedCheckpoint, named_leaves
from prudent.tasks import TASKS
from prudent.tasks.adapter import AdaptedEnv

DISCOUNT, HORIZON = 0.9, 60
VALUE = 1.0 / (1.0 - DISCOUNT)  # of every state and action, without end
PLAN = Plan(episodes=40, seed=5)


class Coins(gymnasium.Env):
    """Whatever the action, each step costs 0 or 2 with equal chances. It never ends by itself."""

    observation_space = Box(-1.0, 1.0, (1,), np.float64)
    action_space = Box(-1.0, 1.0, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action):
        cost = 2.0 * self.np_random.integers(2)
        return np.array([cost - 1.0]), 0.0, False, False, {"cost": cost}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run whose snapshots stand at steps 30 and 60."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    values = {"hidden": (8,), "cost_critics": 3, "discount": DISCOUNT, "cost_discount": DISCOUNT}
    schedule = {"steps": 60, "warmup_steps": 20, "updates_per_step": 1, "batch_size": 8}
    often = {"evaluate_every": 30, "snapshot_every": 30, "evaluation_episodes": 1}
    prudent.train(
        "cal", env=Coins, budget=30.0, horizon=HORIZON, out=folder, quiet=True,
        **values, **schedule, **often,
    )  # fmt: skip
    return folder


@pytest.fixture
def folder(trained, tmp_path):
    """A copy to write into."""
    for path in trained.rglob("*"):
        target = tmp_path / "run" / path.relative_to(trained)
        if path.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return tmp_path / "run"


def believe(folder, step, values):
    """Make each cost critic of a snapshot say its constant everywhere."""
    path = folder / "snapshots" / f"step-{step:09d}.safetensors"
    arrays = load_file(path)
    last = [n for n in arrays if n.startswith("costs/online/params") and n.endswith("/weight")][-1]
    bias = last.removesuffix("weight") + "bias"
    arrays[last] = np.zeros_like(arrays[last])
    arrays[bias] = np.asarray(values, np.float32).reshape(arrays[bias].shape)
    save_file(arrays, path)


def snapshot(folder, step):
    return folder / "snapshots" / f"step-{step:09d}.safetensors"


def test_the_oracle_and_the_gap_of_a_perfect_critic_are_unbiased(folder):
    believe(folder, 30, [VALUE] * 3)
    line = diagnose(folder, PLAN, Coins)[0]
    low, high = line["oracle_interval"]
    assert low < VALUE < high
    # The variance of a sum of independent costs of variance 1: 1 / (1 - γ^2) for one episode.
    spread = np.sqrt(1.0 / (1.0 - DISCOUNT**2) / PLAN.episodes)
    assert high - low == pytest.approx(2 * 2.02 * spread, rel=0.35)
    assert line["gap_interval"][0] < 0.0 < line["gap_interval"][1]
    assert line["gap"] == pytest.approx(VALUE - line["oracle"], abs=1e-5)
    assert line["spread"] == pytest.approx(0.0, abs=1e-5)
    assert 0.4 < line["coverage"] < 0.6
    assert line["unseen"] == pytest.approx(DISCOUNT**HORIZON)


def test_a_shifted_critic_is_found_out_by_its_shift(folder):
    believe(folder, 30, [VALUE] * 3)
    before = diagnose(folder, PLAN, Coins)[0]
    believe(folder, 30, [VALUE - 6.0, VALUE - 5.0, VALUE - 4.0])
    after = diagnose(folder, PLAN, Coins)[0]  # the snapshot has changed, so it is measured again
    assert after["oracle"] == before["oracle"]
    # The members' deviation is 1, half of which is added.
    assert after["mean_gap"] - before["mean_gap"] == pytest.approx(-5.0, abs=1e-4)
    assert after["gap"] - before["gap"] == pytest.approx(-4.5, abs=1e-4)
    assert after["gap_interval"][1] < 0.0
    assert after["spread"] == after["start_spread"] == pytest.approx(1.0, abs=1e-5)
    assert after["coverage"] < 0.1
    assert after["visited_gap"] - before["visited_gap"] == pytest.approx(-4.5, abs=1e-4)


def test_the_dual_gap_is_trainings_own_estimate_against_the_oracle(folder):
    line = diagnose(folder, PLAN, Coins)[1]
    progress = [json.loads(text) for text in (folder / "progress.jsonl").read_text().splitlines()]
    said = next(entry for entry in progress if entry["step"] == 60)["training"]["cost_estimate"]
    assert line["dual_step"] == line["step"] == 60
    assert line["dual_gap"] == pytest.approx(said - line["oracle"])
    low, high = line["oracle_interval"]
    assert line["dual_gap_interval"] == pytest.approx([said - high, said - low])


def episode(costs, continues=None, cut=True):
    count = len(costs)
    masks = np.ones(count) if continues is None else np.array(continues)
    return Visited(np.zeros((count, 1)), np.zeros((count, 1)), np.array(costs), masks, cut)


def test_truncation_is_corrected_as_by_hand():
    cut = episode([1.0, 2.0, 3.0, 5.0])
    assert cost_after_cut([cut], 0.5) == 8.0  # (3 + 5) / 2 / (1 - 0.5)
    found = oracle_of([cut], 0.5, cut_is_end=False).episodes[0]
    assert found.costs.tolist() == [3.875, 5.75, 7.5, 9.0]
    assert found.unseen.tolist() == [0.0625, 0.125, 0.25, 0.5]
    # Where the critics were taught that the limit is the end, or where it was one:
    for ended in (
        oracle_of([cut], 0.5, cut_is_end=True),
        oracle_of([cut._replace(cut=False)], 0.5, cut_is_end=False),
    ):
        assert ended.episodes[0].costs.tolist() == [3.375, 4.75, 5.5, 5.0]
        assert ended.episodes[0].unseen.tolist() == [0.0] * 4


def test_a_steady_cost_of_400_steps_is_made_whole():
    found = describe_oracle(oracle_of([episode([2.0] * 400)] * 3, 0.99, cut_is_end=False))
    assert found["oracle"] == pytest.approx(200.0)
    assert found["unseen"] == pytest.approx(0.99**400)  # 1.8 %
    bare = describe_oracle(oracle_of([episode([2.0] * 400)] * 3, 0.99, cut_is_end=True))
    assert bare["oracle"] == pytest.approx(200.0 * (1 - 0.99**400))


def test_intervals_know_of_what_went_unseen():
    """Episodes of five coins, after which 0.9^5 = 59 % is unseen: W's own error is most of it."""
    rng, inside, means = np.random.default_rng(0), 0, []
    for _ in range(400):
        costs = 2.0 * rng.integers(2, size=(20, 5))
        found = describe_oracle(oracle_of([episode(c) for c in costs], DISCOUNT, cut_is_end=False))
        low, high = found["oracle_interval"]
        inside += low < VALUE < high
        means.append(found["oracle"])
    assert 0.92 < inside / 400 < 0.98
    assert np.mean(means) == pytest.approx(VALUE, abs=3 * np.std(means) / 20)


def test_the_error_of_what_went_unseen_by_hand():
    """Two cut episodes and one that ended. The rate is (3 + 1) / 2 = 2 per step, so W = 4."""
    episodes = [episode([1.0, 3.0]), episode([0.0, 1.0]), episode([5.0], [0.0], cut=False)]
    oracle = oracle_of(episodes, 0.5, cut_is_end=False)
    # G_0: 1 + 1.5 + 1, 0 + 0.5 + 1, 5. The unseen share is (1/4 + 1/4 + 0) / 3 = 1/6. A cost of 1
    # above or below the rate moves the mean of two by 1/2, W by 1, the oracle by 1/6: 0.5 of three.
    assert oracle.after == 4.0
    assert oracle.starts == pytest.approx([3.5 + 0.5, 1.5 - 0.5, 5.0])
    assert describe_oracle(oracle)["oracle"] == pytest.approx(10.0 / 3.0)


def test_critics_that_look_past_every_end():
    """SAC-PIDLag with `cost_mask` never: a fall is a cut for it, the time limit too."""
    never = ALGORITHMS["sac-pid"].config(cost_mask="never")
    run = small_run(TASKS["orbit"], "sac-pid", config=never, timeout_is_terminal=True)
    fell = episode([1.0, 2.0, 3.0, 5.0], [1, 1, 1, 0], cut=False)
    found = oracle_of(as_taught([fell], run), 0.5, time_limit_ends(run)).episodes[0]
    assert found.costs.tolist() == [3.875, 5.75, 7.5, 9.0]
    assert found.unseen.tolist() == [0.0625, 0.125, 0.25, 0.5]
    other = small_run(TASKS["orbit"], "sac-pid", config=ALGORITHMS["sac-pid"].config())
    found = oracle_of(as_taught([fell], other), 0.5, time_limit_ends(other)).episodes[0]
    assert found.costs.tolist() == [3.375, 4.75, 5.5, 5.0]


def test_masks_end_what_a_critic_counts():
    found = oracle_of([episode([1.0, 2.0, 4.0], [1, 0, 1])], 0.5, cut_is_end=False)
    assert found.episodes[0].costs[:2].tolist() == [2.0, 2.0]
    assert found.episodes[0].unseen[:2].tolist() == [0.0, 0.0]


def test_coverage_counts_only_states_whose_future_was_seen():
    episodes = [episode([1.0] * 10), episode([3.0] * 2, cut=False)]
    oracle = oracle_of(episodes, 0.5, cut_is_end=False)  # 2 throughout; then 4.5 and 3
    said = np.array([1.0] * 4 + [5.0] * 8)
    line = describe_gap(episodes, oracle, lambda o, a: Estimates(said, 0 * said, said))
    # Of the cut episode the first seven (0.5^4 = 0.06 of the last of them is unseen), and both of
    # the other: 3 + 2 of 9 are covered.
    assert line["coverage_states"] == 9
    assert line["coverage"] == pytest.approx(5 / 9)
    assert line["gap"] == pytest.approx(((1 - 2) + (5 - 4.5)) / 2)
    short = [episode([1.0] * 3)]
    line = describe_gap(
        short, oracle_of(short, 0.9, False), lambda o, a: Estimates(o[:, 0], o[:, 0], o[:, 0])
    )
    assert "coverage" not in line


def test_whether_a_time_limit_ends_the_cost():
    orbit = TASKS["orbit"]
    assert not time_limit_ends(small_run(orbit))
    assert time_limit_ends(small_run(orbit, timeout_is_terminal=True))
    never = ALGORITHMS["sac-pid"].config(cost_mask="never")
    assert not time_limit_ends(small_run(orbit, "sac-pid", config=never, timeout_is_terminal=True))


def test_a_second_pass_computes_nothing(folder, monkeypatch):
    first = diagnose(folder, PLAN, Coins)
    assert [line["step"] for line in first] == [30, 60]
    content = (folder / "diagnostics.jsonl").read_bytes()
    monkeypatch.setattr(pass_over, "measure", None)
    monkeypatch.setattr(pass_over, "open_several", None)
    assert diagnose(folder, PLAN, Coins) == first
    assert (folder / "diagnostics.jsonl").read_bytes() == content


def test_other_episodes_are_not_mixed_in(folder):
    diagnose(folder, PLAN, Coins)
    content = (folder / "diagnostics.jsonl").read_bytes()
    for plan, fault in ((PLAN._replace(seed=6), "seed 5, not 6"), (Plan(3, 5), "episodes 40")):
        with pytest.raises(ValueError, match=fault):
            diagnose(folder, plan, Coins)
    assert (folder / "diagnostics.jsonl").read_bytes() == content


def test_a_pass_that_is_killed_leaves_whole_lines_and_goes_on(folder):
    whole = [timeless(line) for line in diagnose(folder, PLAN, Coins)]
    (folder / "diagnostics.jsonl").unlink()
    ended = 0

    def killed():
        nonlocal ended
        ended += 1
        if ended > PLAN.episodes * 1.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        diagnose(folder, PLAN, Coins, Watcher(episode_ended=killed))
    left = (folder / "diagnostics.jsonl").read_text()
    assert left.endswith("}\n")
    assert [json.loads(line)["step"] for line in left.splitlines()] == [30]
    seen = []
    again = diagnose(folder, PLAN, Coins, Watcher(measured=lambda line: seen.append(line["step"])))
    assert seen == [60]
    assert [timeless(line) for line in again] == whole


def test_a_command_that_is_killed_is_gone_on_with(folder, tmp_path):
    """By SIGKILL, in the middle of its second snapshot."""
    (tmp_path / "slow_coins.py").write_text(
        "import os, time\n"
        "from test_diagnostics import Coins\n"
        "class Slow(Coins):\n"
        "    def step(self, action):\n"
        "        time.sleep(float(os.environ['PAUSE']))\n"
        "        return super().step(action)\n"
    )
    undisturbed = tmp_path / "undisturbed"
    shutil.copytree(folder, undisturbed)
    words = [sys.executable, "-m", "prudent", "diagnose", "--env", "slow_coins:Slow"]
    words += ["--episodes", "4", "--seed", "5"]
    paths = os.pathsep.join(
        [str(tmp_path), str(Path(__file__).parents[1]), *filter(None, sys.path)]
    )

    def started(folder, pause):
        environment = {**os.environ, "PYTHONPATH": paths, "PAUSE": str(pause)}
        return subprocess.Popen(
            [*words, str(folder)], env=environment, stdout=subprocess.PIPE, text=True
        )

    process = started(folder, 0.01)  # 240 steps of a snapshot take 2.4 s at least
    while not (folder / "diagnostics.jsonl").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.communicate()
    left = (folder / "diagnostics.jsonl").read_bytes()
    assert [json.loads(line)["step"] for line in left.splitlines()] == [30]
    told, _ = started(folder, 0.0).communicate(timeout=120)
    assert [line.split()[2] for line in told.splitlines() if " oracle " in line] == ["60"]
    assert (folder / "diagnostics.jsonl").read_bytes().startswith(left)
    started(undisturbed, 0.0).communicate(timeout=120)
    assert lines(folder / "diagnostics.jsonl") == lines(undisturbed / "diagnostics.jsonl")
    assert sorted(os.listdir(folder)) == sorted(os.listdir(undisturbed))


def test_kept_records_have_them_too(folder, tmp_path):
    lines = diagnose(folder, Plan(2, 0), Coins)
    pack(folder, tmp_path / "kept")
    assert len(lines) == 2
    assert read_diagnostics(tmp_path / "kept") == lines


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-40])


def one_bit(path):
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def a_link(path):
    path.rename(path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere"))


def of_another_step(path):
    path.write_bytes(snapshot(path.parents[1], 60).read_bytes())


def of_another_seed(path):
    record = path.parents[1] / "run.json"
    fields = json.loads(record.read_text())
    fields["run"]["seed"] += 1
    record.write_text(json.dumps(fields))
    believe(path.parents[1], 60, [1.0, 2.0, 3.0])  # which now says nothing of its run


def not_finite(path):
    arrays = load_file(path)
    name = next(name for name in arrays if name.startswith("policy/params"))
    save_file({**arrays, name: np.full_like(arrays[name], np.nan)}, path)


def without_critics(path):
    arrays = load_file(path)
    save_file({n: a for n, a in arrays.items() if not n.startswith("costs/online")}, path)


def without_policy(path):
    arrays = load_file(path)
    save_file({n: a for n, a in arrays.items() if not n.startswith("policy/")}, path)


DAMAGES = {
    cut_short: "was cut short or altered",
    one_bit: "was altered since it was written",
    a_link: "it is a symbolic link",
    of_another_step: "is the snapshot of step 60, renamed",
    of_another_seed: "is of another run",
    not_finite: "holds numbers that are not finite",
    without_critics: "costs/online/.* is missing or of another shape or type",
    without_policy: "policy/params/.* is missing or of another shape or type",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_snapshot_is_told_and_the_others_done(folder, damage):
    damage(snapshot(folder, 30))
    complaints = []
    lines = diagnose(folder, PLAN, Coins, Watcher(complain=complaints.append))
    assert [line["step"] for line in lines] == [60]
    assert len(complaints) == 1
    assert complaints[0].startswith(f"left out: {snapshot(folder, 30)}")
    assert re.search(DAMAGES[damage], complaints[0])
    assert "\n" not in complaints[0]


@pytest.mark.parametrize("damage", [one_bit, without_policy])
def test_a_damaged_snapshot_is_no_policy(folder, damage, tmp_path):
    damage(snapshot(folder, 30))
    for use in (prudent.load, partial(prudent.export, path=tmp_path / "p.safetensors")):
        with pytest.raises(DamagedCheckpoint, match=rf"step-000000030.*{DAMAGES[damage]}"):
            use(folder, step=30)
    assert prudent.load(folder, step=60).step == 60


def test_only_optimisers_are_left_out_of_a_snapshot(folder):
    state, kept = prudent.load(folder).state, load_file(snapshot(folder, 60))
    assert set(named_leaves(state)) - set(kept) == {
        n for n in named_leaves(state) if "/optimiser/" in n
    }


def test_code_that_a_record_names_is_not_run(folder):
    with pytest.raises(ValueError, match="if you trust it, name it again"):
        diagnose(folder, PLAN)
    assert not (folder / "diagnostics.jsonl").exists()


def test_several_runs_in_one_command(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "coins_env.py").write_text("from test_diagnostics import Coins as make\n")
    folders = [tmp_path / "nothing", folder]
    assert not diagnose_all(folders, 4, 0, "coins_env:make")
    told = capsys.readouterr()
    assert "nothing holds no run" in told.err
    assert len(told.err.splitlines()) == 1
    lines = told.out.splitlines()
    for step, line in zip((30, 60), lines[:2], strict=True):
        assert f"step {step}  oracle" in line
    assert lines[-1].endswith("2 snapshots in diagnostics.jsonl")
    assert diagnose_all([folder], 4, 0, "coins_env:make")
    with pytest.raises(ValueError, match="holds no run"):
        diagnose_all(folders[:1], 4, 0, None)


def test_a_run_without_cost_critics_has_an_oracle_only(tmp_path):
    prudent.train(
        "ppo-lag", env=Coins, budget=30.0, horizon=20, out=tmp_path / "run", quiet=True,
        hidden=(8,), steps=40, epoch_steps=40, snapshot_every=40, evaluate_every=40, passes=1,
        checkpoint_every=40, evaluation_episodes=1, cost_discount=DISCOUNT,
    )  # fmt: skip
    (line,) = diagnose(tmp_path / "run", PLAN, Coins)
    low, high = line["oracle_interval"]
    assert low < VALUE < high
    assert not {"gap", "spread", "coverage", "dual_gap"} & line.keys()


class SeedLong(gymnasium.Env):
    """An episode with seed n has n steps."""

    observation_space = Box(-1e9, 1e9, (1,), np.float64)
    action_space = Box(-1.0, 1.0, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        self.left, self.seed = seed, seed
        return np.array([seed], float), {}

    def step(self, action):
        assert self.left > 0, "stepped after its end"
        self.left -= 1
        return np.array([self.seed], float), 0.0, self.left == 0, False, {"cost": self.seed}


def test_every_seed_has_its_whole_episode_and_short_ones_do_not_wait():
    environments = [AdaptedEnv(SeedLong(), "long") for _ in range(3)]
    times = []

    def act(observations, time):
        times.append(time)
        return np.zeros((len(observations), 1))

    ended = []
    seeds = [9, 2, 1, 5, 3, 12]
    found = play(act, environments, seeds, 10, lambda: ended.append(1))
    assert [len(episode.costs) for episode in found] == [9, 2, 1, 5, 3, 10]
    assert [episode.cut for episode in found] == [False] * 5 + [True]
    for seed, episode in zip(seeds, found, strict=True):
        assert set(episode.costs) == {seed}
        assert set(episode.observations[:, 0]) == {seed}
    assert len(ended) == 6
    # The second environment plays those of 2, 3 and 12 steps, the last of which is cut at 10.
    assert times == list(range(15))


SPEC = Spec(3, 2, 5.0, (0.4, 2.0), (0.1, 0.0))


@pytest.mark.parametrize("name", ["cal", "ucb", "sac-lag", "sac", "sac-pid", "wcsac", "cvpo"])
def test_what_each_algorithm_believes(name):
    config = ALGORITHMS[name].config(hidden=(8,))
    algorithm = build(name, config, SPEC)
    state = algorithm.init(jax.random.key(0))
    key_observation, key_action = jax.random.split(jax.random.key(1))
    observation = jax.random.normal(key_observation, (6, 3))
    action = jax.random.uniform(key_action, (6, 2), minval=-1.0)
    mean, spread, conservative = (
        np.asarray(part) for part in algorithm.cost_estimate(state, observation, action)
    )
    assert mean.shape == spread.shape == conservative.shape == (6,)
    weight = {"cal": 0.5, "ucb": 0.5, "wcsac": tail_weight(getattr(config, "risk_level", 1.0))}
    assert conservative == pytest.approx(mean + weight.get(name, 0.0) * spread, abs=1e-6)
    assert (spread > 0).all() == (name in weight)


@pytest.mark.parametrize("name", ["cal", "sac-lag", "wcsac"])
def test_the_believed_cost_is_what_the_multiplier_answers_to(name):
    algorithm = build(name, ALGORITHMS[name].config(hidden=(8,)), steps.SPEC)
    batch = jax.tree.map(np.float32, steps.batch_of(np.random.default_rng(3)))
    data = jax.tree.map(lambda array: array[None], batch)
    state = algorithm.init(jax.random.key(0))
    state, metrics = algorithm.update(state, data, jax.random.key(1))
    believed = algorithm.cost_estimate(state, batch.observation, batch.action).conservative
    expected = float(np.mean(believed)) - steps.SPEC.cost_budget
    assert float(metrics["violation"]) == pytest.approx(expected, abs=1e-5)
