"""Environments of other people: what they may do, and what is refused in one line."""

import gc
import subprocess
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from probes import Delayed, OneStep
from support import small_run

from prudent.policies.policy import evaluate_policy
from prudent.settings.run import Constraint
from prudent.tasks import adapter, custom
from prudent.tasks.adapter import (
    SharedEnvironment,
    UnsupportedEnvironment,
    open_environment,
    open_several,
)
from prudent.tasks.finding import find_task
from prudent.tasks.navigation.course import Objects
from prudent.tasks.navigation.scene import _free_thing
from prudent.tasks.task import Task
from prudent.tasks.vector import open_vector
from prudent.training.collecting import Episode
from prudent.training.replay import Replay


class Overwriting(gymnasium.Env):
    """Counts its steps in one array, which it hands out again and again. A step costs the count."""

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        self.observation_space = Box(0.0, 100.0, (2,), np.float32)
        self.action_space = Box(-1.0, 1.0, (1,), np.float32)
        self.count, self.closed = np.zeros(2, np.float32), 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count[:] = 0.0
        return self.count, {}

    def step(self, action):
        self.count += 1.0
        return self.count, 1.0, False, bool(self.count[0] == 4.0), {"cost": float(self.count[0])}

    def close(self):
        self.closed += 1


def task_of(make, **fields):
    constraint = Constraint(3.0, discounted=False)
    return Task("theirs", make, 10, constraint, summary="", **fields)


# Observations that are overwritten


def test_an_observation_outlives_the_next_step():
    environment = open_environment(task_of(Overwriting))
    start = environment.reset(0)
    first = environment.step(np.zeros(1)).observation
    second = environment.step(np.zeros(1)).observation
    assert [o.tolist() for o in (start, first, second)] == [[0.0] * 2, [1.0] * 2, [2.0] * 2]


def test_rows_of_the_replay_lead_from_one_observation_to_the_next():
    environment, replay = open_environment(task_of(Overwriting)), Replay(10, 2, 1)
    episode = Episode(environment, run_seed=0, index=0)
    for _ in range(3):
        before = episode.observation
        outcome = episode.step(environment, np.zeros(1))
        replay.add(before, episode.actions[-1], outcome)
    assert replay.rows[:3, [0, -1]].tolist() == [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]]


def test_observations_of_several_outlive_the_next_step():
    together = open_vector(task_of(Overwriting), 2, asynchronous=False)
    start, _ = together.reset(seed=[0, 1])
    first = together.step(np.zeros((2, 1)))[0]
    together.step(np.zeros((2, 1)))
    assert start.tolist() == [[0.0] * 2] * 2
    assert first.tolist() == [[1.0] * 2] * 2
    together.close()


# One environment handed out twice


@pytest.mark.parametrize(
    "wrap", [lambda env: env, partial(gymnasium.wrappers.TimeLimit, max_episode_steps=5)]
)
def test_an_environment_in_use_is_not_handed_out_again(wrap):
    env = Overwriting()
    task = task_of(lambda: wrap(env))
    first = open_environment(task)
    with pytest.raises(SharedEnvironment, match="theirs: the same environment was handed out") as e:
        open_environment(task)
    assert "\n" not in str(e.value)
    first.close()
    again = open_environment(task)
    again.close()
    again.close()
    assert env.closed == 1


def test_what_nobody_holds_any_more_is_not_in_use():
    held = [Overwriting()]
    for _ in range(2):
        open_environment(task_of(lambda: held[0]))
        gc.collect()
    key = id(held[0])
    assert key in adapter._SEEN
    held.clear()
    gc.collect()
    assert key not in adapter._SEEN


def test_one_is_opened_where_there_is_only_one():
    env = Overwriting()
    (only,) = open_several(task_of(lambda: env), 3)
    only.close()
    assert env.closed == 1
    several = open_several(task_of(Overwriting), 3)
    assert len({id(environment.unwrapped) for environment in several}) == 3
    for environment in several:
        environment.close()


def test_those_opened_before_a_failure_are_closed():
    made = []

    def make():
        if len(made) == 2:
            raise OSError("no licence left")
        made.append(Overwriting())
        return made[-1]

    with pytest.raises(OSError, match="no licence left"):
        open_several(task_of(make), 3)
    assert [env.closed for env in made] == [1, 1]


def test_an_environment_or_a_function_that_returns_it_stays_its_owners():
    env = Overwriting()
    for given in (env, lambda: env):
        task = find_task("theirs", given, budget=3.0, horizon=10)
        assert task.shared
        adapter.probe(open_environment(task))
        assert open_environment(task).reset(0).tolist() == [0.0, 0.0]
        gc.collect()
    assert env.closed == 0
    assert not find_task("theirs", Overwriting, budget=3.0, horizon=10).shared


def test_several_at_once_cannot_be_one():
    task = find_task("theirs", Overwriting(), budget=3.0, horizon=10)
    for asynchronous in (False, True):
        with pytest.raises(SharedEnvironment, match="there is only one environment, "):
            open_vector(task, 2, asynchronous)
    open_environment(task).close()


def still(**fields):
    return SimpleNamespace(
        step=0,
        unit_action=lambda observations: np.zeros((len(observations), 1)),
        unit_sample=lambda observations, seed: np.zeros((len(observations), 1)),
        **fields,
    )


@pytest.mark.parametrize("deterministic_reset", [False, True])
def test_a_shared_environment_is_evaluated_one_episode_after_the_other(deterministic_reset):
    env = Overwriting()
    alone = task_of(lambda: env, deterministic_reset=deterministic_reset)
    run = small_run(alone)
    fresh = replace(alone, make=Overwriting)
    expected = evaluate_policy(still(), run, fresh, episodes=4, seed=None)
    assert expected["evaluation"]["cost"] == 1.0 + 2.0 + 3.0 + 4.0
    assert "environments" not in expected
    found = evaluate_policy(still(), run, alone, episodes=4, seed=None)
    assert found == {**expected, "environments": 1}
    assert env.closed == 1
    declared = find_task("theirs", env, budget=3.0, horizon=10)
    assert evaluate_policy(still(), run, declared, episodes=1, seed=None)["environments"] == 1
    assert env.closed == 1


# What a step or a reset may return


class Returning(OneStep):
    """Whose reset or step returns something else."""

    def __init__(self, **changes):
        super().__init__()
        self.changes = changes

    def reset(self, *, seed=None, options=None):
        return self.changes.get("reset", (np.zeros(1), {}))

    def step(self, action):
        parts = {"observation": np.zeros(1), "reward": 0.0, "terminated": False, "truncated": False}
        info = {"cost": 0.0}
        for name, value in self.changes.items():
            (parts if name in parts else info)[name] = value
        return self.changes.get("step", (*parts.values(), self.changes.get("info", info)))


REFUSED = {
    "mask": ({"cost_continues": 0.5}, r'info\["cost_continues"\] is 0.5; 0 or 1 is needed'),
    "other mask": ({"reward_continues": -1}, r'info\["reward_continues"\] is -1; 0 or 1'),
    "NaN mask": ({"cost_continues": np.nan}, r'info\["cost_continues"\] is nan; 0 or 1'),
    "text cost": ({"cost": "1.0"}, "cost is the str '1.0'; a single number is needed"),
    "text reward": ({"reward": "1.0"}, "reward is the str '1.0'; a single number is needed"),
    "no cost": ({"cost": None}, "cost is None; a single number"),
    "costs": ({"cost": np.zeros(2)}, r"cost is an array of float64 and shape \(2,\); a single"),
    "rewards": ({"reward": [1.0, 2.0]}, "reward is a list of 2 items; a single number"),
    "ragged": ({"reward": [[1.0], [1.0, 2.0]]}, "reward is a list of 2 items; a single number"),
    "end": ({"terminated": None}, "terminated is None; a single number"),
    "cut": ({"truncated": "no"}, "truncated is the str 'no'"),
    "four items": ({"step": (np.zeros(1), 0.0, False, {})}, r"step\(\) returned a tuple of 4"),
    "nothing": ({"step": None}, r"step\(\) returned None; return \(observation, reward"),
    "info": ({"info": None}, r"step\(\) returned None as its info; return a dict"),
    "observation": ({"observation": np.zeros(2)}, r"an observation is an array of float64 and sha"),
    "no observation": ({"observation": None}, r"an observation is None; its space is .* \(1,\)"),
    "reset": ({"reset": np.zeros(1)}, r"reset\(\) returned an array of float64 .*return \(obs"),
    "long reset": ({"reset": (1, 2, 3)}, r"reset\(\) returned a tuple of 3 items"),
    "empty reset": ({"reset": (None, {})}, "an observation is None"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_result_is_refused_by_name(case):
    changes, message = REFUSED[case]
    with pytest.raises(UnsupportedEnvironment, match=f"theirs: {message}") as error:
        adapter.probe(open_environment(task_of(lambda: Returning(**changes))))
    assert "\n" not in str(error.value)


def test_numbers_in_other_clothes_are_numbers():
    environment = open_environment(
        task_of(
            lambda: Returning(
                reward=np.array([2]), cost=np.float32(0.5), terminated=np.array([True]),
                truncated=0, cost_continues=np.bool_(True),
            )
        )
    )  # fmt: skip
    outcome = environment.step(np.zeros(1))
    assert outcome[1:7] == (2.0, 0.5, True, False, 0.0, 1.0)
    assert [type(value) for value in outcome[1:7]] == [float, float, bool, bool, float, float]


def test_an_error_inside_the_environment_keeps_its_traceback():
    class Broken(OneStep):
        def step(self, action):
            return {}["their key"]

    environment = open_environment(task_of(Broken))
    with pytest.raises(KeyError, match="their key") as error:
        environment.step(np.zeros(1))
    assert error.traceback[-1].name == "step"
    assert error.traceback[-1].path.name == "test_environments.py"


# Costs from anywhere, observations of several parts


class Parts(gymnasium.Env):
    """A number and a choice to see; speed and danger in `info`."""

    def __init__(self, tuples=False):
        parts = {"number": Box(-9.0, 9.0, (2,)), "nest": Dict({"choice": Discrete(3)})}
        self.observation_space = Tuple(tuple(parts.values())) if tuples else Dict(parts)
        self.action_space = Box(-2.0, 2.0, (1,), np.float32)
        self.tuples = tuples

    def see(self):
        parts = {"number": np.array([4.0, 5.0], np.float32), "nest": {"choice": 1}}
        return tuple(parts.values()) if self.tuples else parts

    def reset(self, *, seed=None, options=None):
        return self.see(), {}

    def step(self, action):
        return self.see(), 3.0, False, False, {"speed": 1.5, "danger": True}


def spent(observation, action, reward, terminated, truncated, info):
    assert not terminated
    assert not truncated
    return observation["number"][0] + 10.0 * action[0] + 100.0 * reward + info["speed"]


def test_the_cost_is_a_function():
    task = find_task("parts", Parts, budget=1.0, horizon=5, cost=spent)
    environment = open_environment(task)
    np.testing.assert_array_equal(np.sort(environment.reset(0)), [0.0, 0.0, 1.0, 4.0, 5.0])
    outcome = environment.step(np.array([0.5]))  # by 1 in its units
    assert outcome.cost == 4.0 + 10.0 + 300.0 + 1.5
    assert task.cost_source == "spent"
    assert "spent" in task.summary


@pytest.mark.parametrize(("key", "cost"), [("speed", 1.5), ("danger", 1.0)])
def test_the_cost_is_an_entry_of_info(key, cost):
    task = find_task("parts", partial(Parts, tuples=True), budget=1.0, horizon=5, cost=key)
    environment = open_environment(task)
    assert environment.observation_size == 5
    environment.reset(0)
    assert environment.step(np.zeros(1)).cost == cost
    assert task.cost_source == f'info["{key}"]'


def test_a_cost_that_is_not_there_is_refused_by_name():
    task = find_task("parts", Parts, budget=1.0, horizon=5, cost="haste")
    with pytest.raises(
        UnsupportedEnvironment, match=r"parts: cost='haste' names no entry.*'speed'"
    ):
        adapter.probe(open_environment(task))
    task = find_task("parts", Parts, budget=1.0, horizon=5, cost=lambda *_: None)
    with pytest.raises(UnsupportedEnvironment, match="parts: cost is None; a single number"):
        adapter.probe(open_environment(task))
    assert task.cost_source.endswith("<lambda>")
    with pytest.raises(ValueError, match="orbit: the task has a cost of its own"):
        find_task("orbit", cost=spent)


class SixTuple(Parts):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward, 0.25, *rest


@pytest.mark.parametrize(("cost", "expected"), [(None, 0.25), ("speed", 1.5)])
def test_parts_and_a_cost_as_the_third_of_six(cost, expected):
    environment = open_environment(find_task("parts", SixTuple, budget=1.0, horizon=5, cost=cost))
    environment.reset(0)
    assert environment.step(np.zeros(1)).cost == expected


def test_ours_need_no_source():
    assert find_task("orbit").cost_source == 'info["cost"]'


def turned(observation, action, reward, terminated, truncated, info):
    return abs(float(action[0])) + float(np.linalg.norm(observation["achieved_goal"]))


THEIRS = {
    # Dict observations, no cost anywhere.
    "gymnasium_robotics:PointMaze_UMaze-v3": (8, 2, turned, 300),
    # Dict observations, crashes reported in info, no time limit.
    "highway_env:parking-v0": (18, 2, "crashed", None),
}


@pytest.mark.parametrize("name", THEIRS)
@pytest.mark.filterwarnings("ignore")  # theirs
def test_environments_of_other_packages(name):
    size, actions, cost, limit = THEIRS[name]
    task = find_task(name, budget=1.0, horizon=None if limit else 20, cost=cost)
    assert task.horizon == (limit or 20)
    environment = open_environment(task)
    adapter.probe(environment)
    assert (environment.observation_size, environment.action_size) == (size, actions)
    before = environment.reset(0)
    outcomes = [environment.step(np.full(actions, 0.5)) for _ in range(5)]
    assert not np.array_equal(before, outcomes[0].observation)
    if cost == "crashed":
        assert {o.cost for o in outcomes} <= {0.0, 1.0}
        assert all(o.cost == float(o.info["crashed"]) for o in outcomes)
    else:  # flattened in the order of the keys: what is achieved comes first
        for outcome in outcomes:
            place = float(np.linalg.norm(outcome.observation[:2]))
            assert outcome.cost == pytest.approx(0.5 + place)
    environment.close()


# Names, budgets, horizons


def test_a_module_of_the_current_folder_is_found(tmp_path, monkeypatch):
    (tmp_path / "their_module.py").write_text(
        "from prudent.tasks.orbit import make_orbit\n"
        "import gymnasium\n"
        "gymnasium.register('Theirs-v0', make_orbit, max_episode_steps=7)\n"
        "def make(): return make_orbit()\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    before = list(sys.path)
    task = find_task("their_module:make", budget=1.0, horizon=5)
    assert open_environment(task).observation_size == 2
    assert sys.path == before
    task = find_task("their_module:Theirs-v0", budget=1.0)
    assert task.horizon == 7
    assert open_environment(task).observation_size == 2
    with pytest.raises(
        ValueError, match=r"their_module:Theirs-v1: cannot be imported \(module 'th"
    ):
        find_task("their_module:Theirs-v1", budget=1.0)
    gymnasium.registry.pop("Theirs-v0")


def test_the_installed_command_finds_a_module_of_the_current_folder(tmp_path):
    """A console script has its own folder first on the path, and not the current one."""
    (tmp_path / "their_module.py").write_text("def make(): raise OSError('it was found')\n")
    script = (
        "import sys; sys.path = [p for p in sys.path if p]\n"
        "sys.argv = ['prudent', 'train', 'cal', '--env', 'their_module:make', '--budget', '1']\n"
        "from prudent.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert "OSError: it was found" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"horizon": 0}, "orbit: the horizon is 0, a whole number of steps is needed, 1 or more"),
        ({"horizon": -1}, "orbit: the horizon is -1, a whole"),
        ({"horizon": 2.5}, "orbit: the horizon is 2.5, a whole"),
        ({"budget": float("nan")}, "orbit: the budget is nan, a finite number is needed"),
        ({"budget": float("inf")}, "orbit: the budget is inf, a finite number is needed"),
        ({"budget": "3"}, "orbit: the budget is '3', a finite number is needed"),
        ({"budget": -1.0}, "orbit: the budget is -1, below 0.*negative_costs=True"),
    ],
)
@pytest.mark.parametrize("make", [None, Delayed])
def test_budgets_and_horizons_that_mean_nothing(arguments, message, make):
    with pytest.raises(ValueError, match=message) as error:
        find_task("orbit", make, **{"budget": 1.0, "horizon": 5, **arguments})
    assert "\n" not in str(error.value)


def test_negative_costs_are_asked_for():
    assert find_task("orbit", budget=-1.0, negative_costs=True).constraint.budget == -1.0
    horizon = find_task("orbit", horizon=np.int64(7)).horizon
    assert (horizon, type(horizon)) == (7, int)  # which the run's record can hold


def test_a_horizon_is_no_longer_than_episodes():
    """Their budget would be spread over steps that never come."""

    def limited():
        return gymnasium.wrappers.TimeLimit(Delayed(), 20)

    for name, make in (("theirs", limited), ("Pendulum-v1", None), ("skid", None)):
        with pytest.raises(ValueError, match=f"{name}: the horizon is 201, but .* ends an episode"):
            find_task(name, make, budget=1.0, horizon=201)
    assert find_task("theirs", limited, budget=1.0, horizon=20).horizon == 20
    stated = gymnasium.make("Pendulum-v1").unwrapped  # whose 200 steps nobody carries out
    assert find_task("theirs", stated, budget=1.0, horizon=201).horizon == 201


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "theirs: an environment or a function that makes one is needed, not the int 3"),
        (lambda: None, "theirs: the function returned None, no environment"),
    ],
)
def test_what_makes_no_environment(given, message):
    with pytest.raises(ValueError, match=message):
        find_task("theirs", given, budget=1.0, horizon=1)


def test_pictures_of_an_environment_that_does_not_draw():
    task = find_task("theirs", lambda: Overwriting(), budget=1.0, horizon=5)
    with pytest.raises(ValueError, match="theirs: pictures need an environment with render_mode"):
        open_environment(task, render_mode="rgb_array")
    task = find_task("theirs", lambda: Overwriting("rgb_array"), budget=1.0, horizon=5)
    open_environment(task, render_mode="rgb_array").close()
    task = find_task("theirs", Overwriting, budget=1.0, horizon=5)
    assert open_environment(task, render_mode="rgb_array").unwrapped.render_mode == "rgb_array"
    assert custom._takes_render_mode(lambda **options: None)


# The box to be pushed


def test_the_corner_blocks_of_the_box_are_in_the_order_of_the_reference():
    xml = _free_thing(Objects("box", 1, size=0.2, keepout=0.2), "box0")
    places = [part.split('"')[0] for part in xml.split('pos="')[2:]]  # after the body's own
    assert places == ["0.2 0.2 0", "-0.2 0.2 0", "0.2 -0.2 0", "-0.2 -0.2 0"]
