"""What is not supported is refused in one line that says what was found and what to do."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from probes import OneStep

import prudent
from prudent.tasks.adapter import UnsupportedEnvironment


class Odd(OneStep):
    """A one-step environment with one thing wrong."""

    def __init__(self, observation_space=None, action_space=None, info=None, value=0.0):
        super().__init__()
        self.observation_space = observation_space or self.observation_space
        self.action_space = action_space or self.action_space
        self._info, self._value = info, value

    def step(self, action):
        info = {"cost": 0.0} if self._info is None else self._info
        return np.full(1, self._value), 0.0, True, False, info


UNBOUNDED = Box(-np.inf, np.inf, (1,))
EMPTY = Box(0.0, 0.0, (1,))
CASES = {
    "discrete actions": (
        lambda: Odd(action_space=Discrete(3)),
        "actions are a Discrete space, a Box is needed",
    ),
    "dict observations": (
        lambda: Odd(observation_space=Dict({"a": Discrete(2)})),
        "observations are a Dict space, a Box is needed; wrap the environment in",
    ),
    "unbounded actions": (lambda: Odd(action_space=UNBOUNDED), "action bounds are not finite"),
    "empty bounds": (lambda: Odd(action_space=EMPTY), "some action bounds are empty"),
    "integer actions": (
        lambda: Odd(action_space=Box(0, 3, (1,), np.int64)),
        "actions have type int64, floating point is needed",
    ),
    "no cost": (
        lambda: Odd(info={"speed": 1}),
        r"step\(\) reported no cost \(info has \['speed'\]",
    ),
    "NaN observation": (lambda: Odd(value=np.nan), "a non-finite number in its first steps"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_unsupported_environments_are_refused_before_training(name, tmp_path):
    make, message = CASES[name]
    if name == "NaN observation":  # seen only where an episode has a second observation
        make = lambda: gymnasium.wrappers.TransformObservation(  # noqa: E731
            OneStep(), lambda _: np.full(1, np.nan), None
        )
    with pytest.raises(UnsupportedEnvironment, match=message) as error:
        prudent.train("cal", env=make, budget=1.0, horizon=1, out=tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_an_environment_needs_a_budget(tmp_path):
    with pytest.raises(ValueError, match="a budget is needed"):
        prudent.train("cal", env=OneStep, horizon=1, out=tmp_path)


def test_an_environment_needs_a_horizon(tmp_path):
    with pytest.raises(ValueError, match="a horizon is needed"):
        prudent.train("cal", env=OneStep, budget=1.0, out=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "hoper"}, "no task 'hoper'; `prudent list` shows ours"),
        ({"task": "orbit", "preset": "paper"}, "no preset 'paper' for task orbit"),
        ({"task": "orbit", "conservativism": 1}, "no setting named conservativism; there is: .*k"),
        ({}, "name either a task"),
        ({"env": "no_such_module:env", "budget": 1.0}, "cannot be imported"),
        ({"env": "math:pi", "budget": 1.0}, "is not callable"),
    ],
)
def test_wrong_words(arguments, message):
    with pytest.raises(ValueError, match=message.replace(".*k", "")):
        prudent.train("cal", **arguments)


def test_unknown_algorithm():
    with pytest.raises(ValueError, match="no algorithm 'call'; there is: cal"):
        prudent.train("call", task="orbit")


def test_a_folder_with_a_run_is_not_overwritten(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(ValueError, match="holds a run already: go on with `prudent resume"):
        prudent.train("cal", task="orbit", out=tmp_path)


def test_loading_what_is_not_a_run(tmp_path):
    with pytest.raises(ValueError, match="holds no run"):
        prudent.load(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(ValueError, match="not a run record this version reads"):
        prudent.load(tmp_path)
