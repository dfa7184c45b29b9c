"""What critics come to know of a policy that no longer moves, where that is known: the `Coins`."""

import dataclasses
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from test_diagnostics import DISCOUNT, HORIZON, VALUE, Coins

import prudent

ROOT = Path(__file__).parents[2]
PAGE, RECORDS = ROOT / "docs" / "results" / "gap.md", ROOT / "results" / "frozen_policy"


@pytest.fixture(scope="module")
def script():
    path = ROOT / "benchmarks" / "frozen_policy.py"
    spec = importlib.util.spec_from_file_location("frozen_policy", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_of(folder, algorithm="sac-lag", **values):
    schedule = {"steps": 30, "warmup_steps": 500, "updates_per_step": 1, "batch_size": 8}
    often = {"evaluate_every": 30, "snapshot_every": 30, "evaluation_episodes": 1}
    prudent.train(
        algorithm, env=Coins, budget=30.0, horizon=HORIZON, out=folder, quiet=True,
        hidden=(8,), discount=DISCOUNT, cost_discount=DISCOUNT, **schedule, **often, **values,
    )  # fmt: skip
    return folder


@pytest.mark.slow
def test_critics_of_a_policy_that_stays_come_to_know_its_cost(script, tmp_path):
    folder = run_of(tmp_path / "run", cost_learning_rate=3e-3, calibration="none")
    first, last = script.gaps_after(folder, [30], [20_000], episodes=100, env=Coins)
    assert (first["updates"], last["updates"], first["step"]) == (0, 20_000, 30)
    assert last["oracle"] == first["oracle"]  # the policy has not moved
    assert first["gap"] < -5.0  # 30 updates are far too few
    # 530 coins: their mean of 1 is known to 4 %, and every state is worth ten times that.
    assert last["estimate"] == pytest.approx(VALUE, abs=1.5)


def test_episodes_of_its_own_are_rows_like_the_replays(script, tmp_path):
    folder = run_of(tmp_path / "run", calibration="none")
    stored = script.read_run(folder)
    environments = script.open_several(script.task_of(stored.run, Coins), 1)

    def act(observations, time):
        return np.full((1, 1), 0.25, np.float32)

    (episode,) = script.play(act, environments, [3], HORIZON)
    rows = script.rows_of([episode], stored.run)
    # Observation, action, reward, cost, two masks, next observation. The 60th step is cut, and
    # critics look past it: what followed is not known.
    assert rows.shape == (HORIZON - 1, 7)
    assert (rows[:, 1] == 0.25).all()
    assert (rows[:, 3] - 1.0 == rows[:, 6]).all()  # the next observation is the coin
    assert (rows[1:, 0] == rows[:-1, 6]).all()
    assert (rows[:, 5] == 1.0).all()
    ending = dataclasses.replace(stored.run.schedule, timeout_is_terminal=True)
    rows = script.rows_of([episode], dataclasses.replace(stored.run, schedule=ending))
    assert (len(rows), rows[-1, 5], rows[-2, 5]) == (HORIZON, 0.0, 1.0)


def test_what_cannot_be_held_is_refused(script, tmp_path):
    folder = run_of(tmp_path / "cvpo", "cvpo")
    with pytest.raises(SystemExit, match="cvpo"):
        next(script.gaps_after(folder, [30], [1000], episodes=2, env=Coins))


def test_the_table(script, tmp_path):
    path = tmp_path / "lines.jsonl"
    gaps = {(1000, 0): -4.0, (1000, 10): 1.0, (2000, 0): 2.0, (2000, 10): -2.0}
    path.write_text(
        "".join(
            json.dumps({"algorithm": "cal", "seed": 1, "oracle": 7.0, "step": step,
                        "updates": updates, "own_episodes": 0, "gap": gap}) + "\n"
            for (step, updates), gap in gaps.items()
        )
    )  # fmt: skip
    assert script.table([path]).splitlines() == [
        "| run | snapshot | oracle | gap | after 10 updates |",
        "|---|---|---|---|---|",
        "| cal, seed 1 | 1,000 | 7.0 | -4.0 | 1.0 |",
        "| cal, seed 1 | 2,000 | 7.0 | 2.0 | -2.0 |",
        "| cal, seed 1 | mean size |  | 3.0 | 1.5 |",
    ]
    with pytest.raises(SystemExit, match="cal, step 1000"):
        script.table([path, path])


def test_the_page_has_the_table_of_the_records(script):
    paths = sorted(RECORDS.glob("*.jsonl"))
    assert paths
    assert script.table(paths) in PAGE.read_text()
