"""First experience from elsewhere: what does not fit is refused by name and row."""

import numpy as np
import pytest
from test_policies import Shaped
from test_training import Counting, log

from prudent.tasks.adapter import AdaptedEnv
from prudent.training.warmup import checked, read_log, rows_from_log


def column(row, value, rows=30):
    return [value if index == row else 0.0 for index in range(rows)]


def rows(row, value):
    return [[number] for number in column(row, value)]


BAD_LOGS = {
    "too large": (
        {"reward": column(3, 1e300)},
        r"reward is beyond the range of float32 \(first in row 3: 1e\+300\)",
    ),
    "too low": ({"observation": rows(7, -1e39)}, "observation is beyond the range of .* row 7"),
    "terminated": (
        {"terminated": column(4, 2.0)},
        r"terminated must be 0 or 1 \(first in row 4: 2\)",
    ),
    "mask": ({"cost_continues": column(5, 0.5)}, "cost_continues must be 0 or 1 .* row 5: 0.5"),
    "other mask": ({"reward_continues": column(9, -1)}, "reward_continues must be 0 or 1 .* 9: -1"),
    "text": (
        {"cost": ["1.0"] * 30},
        r"cost is no array of numbers but of <U3 \(row 0: the str '1.0'\)",
    ),
    "some text": (
        {"cost": np.array(column(2, "x"), object)},
        r"cost is no array of numbers but of object \(row 2: the str 'x'\)",
    ),
    "ragged": (
        {"next_observation": [[0.0]] * 29 + [[0.0, 1.0]]},
        "next_observation is no array of numbers but of object",
    ),
    "NaN": ({"next_observation": rows(6, np.nan)}, "next_observation holds a NaN .* row 6: nan"),
    "action": ({"action": rows(1, 11.0)}, r"action: some .* outside .* \(first in row 1: 11\)"),
    "one reward": ({"reward": 1.0}, r"has shape \(30,\), 1 rows of 1 numbers are needed"),
}


@pytest.mark.parametrize("case", BAD_LOGS)
def test_a_log_that_does_not_fit(case):
    changes, message = BAD_LOGS[case]
    with pytest.raises(ValueError, match=f"warmup: .*{message}") as error:
        rows_from_log(log(**changes), AdaptedEnv(Counting(), "counting"))
    assert "\n" not in str(error.value)


def test_a_log_by_its_rows():
    """In the replay's order: what was seen, unit action, reward, cost, masks, what came."""
    source = log(rows=2, observation=[[1.0], [2.0]], next_observation=[[2.0], [3.0]])
    source |= {"action": [[2.5], [10.0]], "reward": [3, 4], "cost": [True, False]}
    source |= {"terminated": np.array([False, True])}
    rows = rows_from_log(source, AdaptedEnv(Counting(), "counting"))
    assert rows.tolist() == [[1, -0.5, 3, 1, 1, 1, 2], [2, 1, 4, 0, 0, 0, 3]]
    masks = {"reward_continues": [1, 0], "cost_continues": [0, 1]}
    rows = rows_from_log(source | masks, AdaptedEnv(Counting(), "counting"))
    assert rows[:, 4:6].tolist() == [[1, 0], [0, 1]]


def test_files_that_hold_no_log(tmp_path):
    path = tmp_path / "log.npz"
    with pytest.raises(ValueError, match=r"warmup: there is no file .*log\.npz"):
        read_log(path)
    np.savez(path, **log())
    whole = path.read_bytes()
    for content in (whole[:-30], whole[:200], b"something else", b""):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"was cut short or is no \.npz file") as error:
            read_log(path)
        assert "\n" not in str(error.value)
    np.savez(path, **log(cost=np.array([None] * 30, object)))
    with pytest.raises(ValueError, match=r"log\.npz: cost cannot be read .*Object arrays cannot"):
        read_log(path)
    start = whole.index(b"reward.npy") + 200
    path.write_bytes(whole[:start] + b"????" + whole[start + 4 :])
    with pytest.raises(ValueError, match=r"log\.npz: reward cannot be read"):
        read_log(path)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.zeros(3), r"returned an array of float64 and shape \(3,\), an action of 2 numbers"),
        ([0.0, np.nan], r"returned \[0.0, nan\]; finite numbers are needed"),
        (None, "returned None, an action of 2 numbers is needed"),
        ("left", "returned the str 'left', an action of 2 numbers"),
    ],
)
def test_a_policy_that_returns_no_action(action, message):
    act = checked(lambda observation: action, AdaptedEnv(Shaped(), "shaped"))
    with pytest.raises(ValueError, match=f"warmup: the policy {message}") as error:
        act(np.zeros(6))
    assert "\n" not in str(error.value)
    good = checked(lambda observation: [[0.1], [0.2]], AdaptedEnv(Shaped(), "shaped"))
    assert good(np.zeros(6)).tolist() == [0.1, 0.2]
