"""Algorithms and tasks of other people: a script's, and an installed package's."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import EntryPoint
from inspect import signature
from pathlib import Path

import foreign
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command_lines import prudent_command, would_train
from prudent_td3.pump import PUMP
from prudent_td3.td3_lag import TD3_LAG
from support import small_run

import prudent
from prudent.algorithms import ALGORITHMS, build_for
from prudent.algorithms.cal import CALConfig
from prudent.algorithms.entry import RESERVED, SWEPT, check_entry
from prudent.algorithms.sac_pid import SAC_PID, SACPIDConfig
from prudent.certification.subject import Where, task_of_exported
from prudent.cli.grids import Running
from prudent.cli.options import Limits
from prudent.cli.sweep import SweepOptions
from prudent.cli.train import TrainOptions
from prudent.experiments.grid import Grid, expand
from prudent.runs.folder import read_run
from prudent.settings import registration
from prudent.settings.checks import Positive, field_names
from prudent.settings.configs import OffPolicyConfig
from prudent.settings.registration import SCRIPT, NotKnown, Offer, Registered, Registry, Unusable
from prudent.settings.schedules import OnPolicySchedule
from prudent.tasks import TASKS
from prudent.tasks.adapter import UnsupportedEnvironment, open_environment
from prudent.tasks.episodes import accounting_of
from prudent.tasks.finding import find_task
from prudent.tasks.task import check_task
from prudent.training.warmup import policy_of_run, with_initial_policy

ROOT = Path(prudent.__file__).parents[1]
SMALL = {
    "hidden": (4,), "steps": 40, "warmup_steps": 12, "batch_size": 8, "evaluate_every": 20,
    "checkpoint_every": 20, "evaluation_episodes": 2, "replay_capacity": 100,
}  # fmt: skip


@pytest.fixture
def offer(monkeypatch):
    """Offers things as an installed package would, and forgets what a test registers."""
    there = defaultdict(dict)

    def add(group, name, value, package="theirs 1.0"):
        offers = there[group].setdefault(name, [])
        offers.append(Offer(EntryPoint(name, value, group), package))

    monkeypatch.setattr(registration, "offers_in", lambda group: there[group])
    for registry in (ALGORITHMS, TASKS):
        monkeypatch.setattr(registry, "_known", dict(registry._known))
    return add


@pytest.fixture
def example(offer):
    offer("prudent.algorithms", "td3-lag", "prudent_td3.td3_lag:TD3_LAG")
    offer("prudent.tasks", "pump", "prudent_td3.pump:PUMP")


# Ours.


@pytest.mark.parametrize("name", [*ALGORITHMS])
def test_our_algorithms_are_sound_and_what_the_table_says(name):
    entry = ALGORITHMS[name]
    check_entry(entry)
    assert (entry.name, entry.summary) == (name, ALGORITHMS.summary(name))


@pytest.mark.parametrize("name", [*TASKS])
def test_our_tasks_are_sound_and_what_the_table_says(name):
    check_task(TASKS[name])
    assert TASKS[name].name == name


# A registry.


def test_a_name_is_there_without_its_package_being_imported(offer):
    offer("prudent.algorithms", "far", "no_such_module:ENTRY")
    assert "far" in ALGORITHMS
    assert [*ALGORITHMS][-1] == "far"
    assert len(ALGORITHMS) == len([*ALGORITHMS])
    with pytest.raises(Unusable, match=r"'far' of theirs 1.0 cannot be used \(ModuleNotFoundError"):
        ALGORITHMS["far"]
    assert ALGORITHMS["cal"].name == "cal"
    with pytest.raises(KeyError):
        ALGORITHMS["nobody"]
    assert ALGORITHMS.get("nobody") is None


def test_a_package_s_entry_is_the_object_it_names(example):
    assert ALGORITHMS["td3-lag"] is TD3_LAG
    assert ALGORITHMS.source("td3-lag") == "theirs 1.0"
    assert ALGORITHMS.source("cal") == "prudent"


def test_the_same_object_may_be_registered_twice_and_another_may_not(offer):
    assert prudent.register_algorithm(TD3_LAG) is TD3_LAG
    prudent.register_algorithm(TD3_LAG)
    assert ALGORITHMS.source("td3-lag") == SCRIPT
    again = TD3_LAG._replace(summary="another")
    with pytest.raises(ValueError, match="there is algorithm 'td3-lag' already, of this script"):
        prudent.register_algorithm(again)
    prudent.register_algorithm(again, replace=True)
    assert ALGORITHMS["td3-lag"] is again
    for name in ("td3-lag", "cal", "nobody"):
        ALGORITHMS.forget(name)
    assert "td3-lag" not in ALGORITHMS
    assert "cal" in ALGORITHMS


@pytest.mark.parametrize("replaces", [False, True])
def test_a_name_of_ours_is_ours(replaces, offer):
    with pytest.raises(ValueError, match="there is algorithm 'cal' already, of prudent"):
        prudent.register_algorithm(TD3_LAG._replace(name="cal"), replace=replaces)
    with pytest.raises(ValueError, match="there is task 'orbit' already, of prudent"):
        prudent.register_task(replace(PUMP, name="orbit"), replace=replaces)


def test_a_script_does_not_shadow_an_installed_package(example):
    with pytest.raises(ValueError, match=r"theirs 1.0 offers it by an entry point"):
        prudent.register_algorithm(TD3_LAG._replace(summary="another"))


def test_two_packages_with_one_name_are_refused(offer):
    offer("prudent.tasks", "pump", "prudent_td3.pump:PUMP")
    offer("prudent.tasks", "pump", "prudent_td3.pump:PUMP", "others 2.0")
    with pytest.raises(Unusable, match=r"'pump' is offered by theirs 1.0 and others 2.0; uninstal"):
        TASKS["pump"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("prudent_td3.td3_lag:NOTHING", "AttributeError"),
        ("prudent_td3.td3_lag:TD3LagConfig", "a prudent.Entry is needed, not a type"),
        ("prudent_td3.pump:PUMP", "leads to one that is named 'pump'"),
        ("prudent_td3.td3_lag:TD3_LAG", "leads to one that is named 'td3-lag'"),
        ("not a value", "cannot be used"),
    ],
)
def test_what_an_entry_point_may_not_lead_to(value, said, offer):
    offer("prudent.algorithms", "mine", value)
    with pytest.raises(Unusable, match=said) as refused:
        ALGORITHMS["mine"]
    assert "\n" not in str(refused.value)


def test_a_module_that_ends_the_process_or_registers_itself_is_only_unusable(
    offer, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit('bye\\nbye')\n")
    offer("prudent.algorithms", "leaving", "leaving:ENTRY")
    with pytest.raises(Unusable, match=r"\(SystemExit: bye bye\)"):
        ALGORITHMS["leaving"]
    (tmp_path / "eager.py").write_text(
        "import prudent\nfrom dataclasses import replace\nfrom prudent_td3.pump import PUMP\n"
        "EAGER = prudent.register_task(replace(PUMP, name='eager'))\n"
    )
    offer("prudent.tasks", "eager", "eager:EAGER")
    with pytest.raises(Unusable, match="which needs no registering besides"):
        TASKS["eager"]


def test_offers_under_no_name_take_nothing_away(offer, monkeypatch, capsys):
    offer("prudent.tasks", "Pendulum-v1", "prudent_td3.pump:PUMP")
    offer("prudent.tasks", "foreign:make", "prudent_td3.pump:PUMP")
    offer("prudent.algorithms", "../up", "prudent_td3.td3_lag:TD3_LAG")
    assert "Pendulum-v1" not in TASKS
    assert "../up" not in [*ALGORITHMS]
    assert find_task("Pendulum-v1", budget=1.0).horizon == 200
    assert find_task("foreign:make", budget=1.0, horizon=10).name == "foreign:make"
    prudent_command(monkeypatch, "list")
    told = sorted(capsys.readouterr().err.splitlines())
    assert told[0].startswith("prudent: algorithm '../up' of theirs 1.0 cannot be used: a name is")
    assert told[1].startswith(
        "prudent: task 'Pendulum-v1' of theirs 1.0 cannot be used: it is that of a Gymnasium "
        "environment"
    )
    assert told[2].startswith("prudent: task 'foreign:make' of theirs 1.0 cannot be used: a name")
    with pytest.raises(ValueError, match="it is that of a Gymnasium environment"):
        prudent.register_task(replace(PUMP, name="Pendulum-v1"))


def test_an_installed_object_may_be_registered_besides(example):
    assert prudent.register_algorithm(TD3_LAG) is TD3_LAG
    assert ALGORITHMS.source("td3-lag") == "theirs 1.0"


@pytest.mark.parametrize("name", ["../../up", "a/b", "", 3])
@pytest.mark.parametrize("chosen", [True, False])
def test_presets_have_names_that_a_folder_can_have(name, chosen, offer):
    prudent.register_algorithm(TD3_LAG._replace(presets=lambda task: {name: {}}))
    with pytest.raises(ValueError, match=r"^preset .* of td3-lag: it becomes part of a folder"):
        prudent.train("td3-lag", task="orbit", preset=name if chosen else None)


@pytest.mark.parametrize(
    "name", ["", "../up", "-option", "a b", "a\nb", "mod:make", None, 3, ["a"]]
)
def test_names_are_words(name, offer):
    with pytest.raises(ValueError, match="a name is letters, digits"):
        prudent.register_algorithm(TD3_LAG._replace(name=name))
    if name != "mod:make":
        with pytest.raises(ValueError, match="a name is letters, digits"):
            prudent.register_task(replace(PUMP, name=name))


# What is registered.


@dataclass(frozen=True)
class Clashing(OffPolicyConfig):
    steps: int = 3
    budget: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Bare(OffPolicyConfig):
    size: int


@dataclass(frozen=True)
class OfDeployments(OffPolicyConfig):
    deployments: int = 3
    scale: float = 1.0
    jobs: int = 1


@dataclass(frozen=True)
class OutOfRange(OffPolicyConfig):
    rate: Positive = -1.0


@dataclass(frozen=True)
class NotStored(OffPolicyConfig):
    rate: float = float("inf")


@dataclass(frozen=True)
class NoType(OffPolicyConfig):
    rate: "NoSuchType" = 1.0  # noqa: F821


@dataclass(frozen=True)
class Changing(OffPolicyConfig):
    kind: object = (1, 2)


@dataclass(frozen=True)
class OneOfTwo(OffPolicyConfig):
    pair: tuple[float, float] = (1.0,)


class Undecorated(OffPolicyConfig):
    size: int = 3


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"schedule": dict}, "neither OffPolicySchedule nor OnPolicySchedule"),
        ({"schedule": OnPolicySchedule}, "no class that extends OnPolicyConfig"),
        ({"config": dict}, "no class that extends OffPolicyConfig"),
        ({"config": SACPIDConfig()}, "no class that extends OffPolicyConfig"),
        ({"build": None}, "build and presets must be functions"),
        ({"presets": {}}, "build and presets must be functions"),
        ({"config": Clashing}, "settings budget, steps have names that every run uses"),
        ({"config": Bare}, "settings size have no default"),
        ({"config": Undecorated}, "Undecorated is no dataclass itself"),
        ({"config": OfDeployments}, "settings deployments, jobs, scale have names that every run"),
        ({"config": OutOfRange}, "cannot be used .*--rate is -1.0; it must be a number above 0"),
        ({"config": NotStored}, "defaults cannot be used .*Out of range float"),
        ({"config": NoType}, "defaults cannot be used .*NoSuchType"),
        ({"config": Changing}, "defaults change when they are stored as JSON"),
        ({"config": OneOfTwo}, r"--pair is \(1.0,\); it must be 2 items: a number, a number"),
    ],
)
def test_an_entry_that_cannot_be_one_is_refused(wrong, said):
    with pytest.raises(ValueError, match=f"algorithm 'sac-pid': .*{said}"):
        check_entry(SAC_PID._replace(**wrong))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"make": None}, "make is a NoneType"),
        ({"horizon": 0}, "the horizon is 0"),
        ({"horizon": 1.5}, "the horizon is 1.5"),
        ({"horizon": True}, "the horizon is True"),
        ({"constraint": 25.0}, "the constraint is a float; a prudent.Constraint is needed"),
        ({"constraint": prudent.Constraint(float("nan"), False)}, "the budget is nan"),
        ({"constraint": prudent.Constraint("25", False)}, "the budget is '25'"),
        ({"cost_range": "01"}, "the range of costs is '01'; the least and the largest cost"),
        ({"cost_range": (float("nan"), 1.0)}, r"the range of costs is \(nan, 1.0\)"),
        ({"cost_range": (1.0, 0.0)}, r"the range of costs is \(1.0, 0.0\)"),
        ({"constraint": prudent.Constraint(1.0, "no")}, "discounted is 'no'; True or False"),
        ({"constraint": prudent.Constraint(-5.0, False)}, "the budget is -5; a cost_range with a"),
        ({"together": "yes"}, "together is a str; a function, or None, is needed"),
        ({"family": "velocityy"}, "the family is 'velocityy'; one of velocity, navigation, other"),
        ({"deterministic_reset": "no"}, "deterministic_reset and shared are 'no' and False; True"),
        ({"variant_of": 3}, "variant_of is 3; the name of a task"),
    ],
)
def test_a_task_that_cannot_be_one_is_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        check_task(replace(PUMP, **wrong))
    for other in (None, "pump", foreign.make):
        with pytest.raises(ValueError, match=r"a prudent.Task is needed, not a"):
            check_task(other)


def test_what_the_registry_asks_of_a_task(offer):
    cases = {"summary": ("two\nlines", "red \x1b[31m", None, 7), "variant_of": ("no-such-task",)}
    for field, values in cases.items():
        for value in values:
            with pytest.raises(
                ValueError, match=r"one line is needed|which is no task here"
            ) as told:
                prudent.register_task(replace(PUMP, **{field: value}))
            assert str(told.value).isprintable()
    with pytest.raises(ValueError, match="its summary is None; one line is needed"):
        prudent.register_algorithm(TD3_LAG._replace(summary=None))
    sinking = replace(PUMP, constraint=prudent.Constraint(-5.0, False), cost_range=(-1.0, 1.0))
    assert prudent.register_task(sinking) is sinking


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", ["orbit", "ant-velocity", "humanoid-velocity", "point-button2"])
def test_a_variant_takes_the_settings_of_its_task(algorithm, name):
    variant = replace(TASKS[name], name="mine", variant_of=name)
    assert ALGORITHMS[algorithm].presets(variant) == ALGORITHMS[algorithm].presets(TASKS[name])


@pytest.mark.parametrize(
    "line",
    ["from prudent.compute import jax", "from prudent.pieces.types import Minibatches, Needs"],
)
def test_a_package_for_the_interfaces_before_is_told_where_the_names_are(
    line, offer, tmp_path, monkeypatch
):
    (tmp_path / "written_before.py").write_text(f"{line}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "written_before", raising=False)
    offer("prudent.algorithms", "before", "written_before:BEFORE")
    with pytest.raises(Unusable, match=r"docs/extending\.md") as told:
        ALGORITHMS.find("before")
    assert "\n" not in str(told.value)


def test_an_algorithm_that_builds_with_a_name_that_is_gone_is_told_where_it_is(offer):
    from prudent.pieces import types

    def build(config, spec):
        return types.Algorithm(None, None, None, types.over_minibatches(None), None)

    prudent.register_algorithm(TD3_LAG._replace(build=build))
    run = small_run(TASKS["orbit"], "td3-lag", config=TD3_LAG.config())
    with pytest.raises(ValueError, match=r"over_minibatches.*docs/extending\.md"):
        build_for(run, None)


def test_reserved_names_are_those_that_training_takes():
    groups = {"config", "schedule", "limits", "running"}
    trained = field_names(TrainOptions, Limits) - groups
    assert trained | (signature(prudent.Agent).parameters.keys() - {"values"}) == RESERVED
    assert field_names(SweepOptions, Limits, Running) - groups - RESERVED == SWEPT


@pytest.mark.parametrize("presets", [{}, None, ["default"]])
def test_presets_that_are_none_are_refused(presets, offer):
    prudent.register_algorithm(TD3_LAG._replace(presets=lambda task: presets))
    with pytest.raises(ValueError, match="td3-lag has no preset for task orbit: its presets are"):
        prudent.train("td3-lag", task="orbit")


def test_what_a_task_makes_must_be_an_environment():
    with pytest.raises(UnsupportedEnvironment, match="pump: make returned None, no environment"):
        open_environment(replace(PUMP, make=lambda: None))


# What can be done with them.


def test_a_registered_algorithm_and_task_are_used_as_ours(offer, tmp_path):
    prudent.register_algorithm(TD3_LAG)
    prudent.register_task(PUMP)
    folder = tmp_path / "run"
    result = prudent.train("td3-lag", task="pump", out=folder, quiet=True, **SMALL)
    assert len(result.evaluation["returns"]) == 2
    assert json.loads((folder / "run.json").read_text())["run"]["task"] == "pump"
    prudent.resume(folder, steps=60, quiet=True)
    policy, exported = prudent.load(folder), prudent.export(folder, tmp_path / "p.safetensors")
    assert exported([0.3]) == pytest.approx(policy([0.3]), abs=1e-5)
    assert len(prudent.evaluate(folder, episodes=3)["evaluation"]["costs"]) == 3
    other = prudent.train("cal", task="pump", out=tmp_path / "cal", quiet=True, **SMALL)
    assert other.folder == tmp_path / "cal"
    begun = prudent.train(
        "td3-lag", task="pump", out=tmp_path / "next", quiet=True, init_from=folder, **SMALL
    )
    assert begun.folder == tmp_path / "next"
    fresh = jax.tree.map(np.zeros_like, policy.state)
    state = with_initial_policy(fresh, policy_of_run(folder))
    for copy in (state.policy.params, state.old_policy):
        jax.tree.map(np.testing.assert_array_equal, copy, policy.state.policy.params)
    # Other processes would not find them.
    for grid in (Grid(["pump"], ["cal"]), Grid(["orbit"], ["td3-lag"])):
        with pytest.raises(ValueError, match=r"to this script alone, .* install it as a pack"):
            expand(grid)


def test_a_task_s_own_source_of_cost_is_left_alone(offer, tmp_path):
    prudent.register_task(replace(PUMP, cost_source="what_it_takes"))
    folder = tmp_path / "run"
    prudent.train("cal", task="pump", out=folder, quiet=True, **SMALL)
    prudent.resume(folder, steps=60, quiet=True)
    assert len(prudent.evaluate(folder, episodes=2)["evaluation"]["costs"]) == 2
    about = prudent.export(folder, tmp_path / "policy").about
    assert about["cost"] == "what_it_takes"
    accounting = accounting_of(read_run(folder).run)
    assert task_of_exported(about, accounting, Where()).name == "pump"
    TASKS.forget("pump")
    with pytest.raises(ValueError, match=r"the policy's environment is pump, .* or install it as"):
        task_of_exported(about, accounting, Where())


def test_another_version_of_the_package_is_told(example, tmp_path, capsys):
    folder = tmp_path / "run"
    prudent.train("td3-lag", task="pump", out=folder, quiet=True, **SMALL)
    prudent.load(folder)
    assert capsys.readouterr().err == ""
    record = json.loads((folder / "run.json").read_text())
    assert record["packages"] == ["theirs 1.0"]
    (folder / "run.json").write_text(json.dumps({**record, "packages": ["theirs 0.9"]}))
    for use in (
        prudent.load,
        partial(prudent.resume, quiet=True),
        partial(prudent.evaluate, episodes=1),
        partial(prudent.export, path=tmp_path / "policy"),
    ):
        use(folder)
        assert capsys.readouterr().err == (
            f"prudent: {folder} was trained with theirs 0.9; here is theirs 1.0\n"
        )


def td3_with(change):
    """The example's algorithm, its state or functions changed."""
    return TD3_LAG._replace(name="mine", build=lambda *given: change(TD3_LAG.build(*given)))


def with_state(more):
    """Beside TD3's own state, under `td3`."""

    def change(made):
        return made._replace(
            init=lambda key: {"td3": made.init(key), **more(key)},
            act=lambda state, *given: made.act(state["td3"], *given),
            act_greedily=lambda state, *given: made.act_greedily(state["td3"], *given),
            update=lambda state, *given: updated(made, state, *given),
            network=lambda state: made.network(state["td3"]),
            cost_estimate=None,
        )

    def updated(made, state, *given):
        learned, metrics = made.update(state["td3"], *given)
        return {**state, "td3": learned}, metrics

    return td3_with(change)


def assert_training_is_refused(tmp_path, said):
    """Of the algorithm `mine`, in one line, and nothing is left behind."""
    with pytest.raises(ValueError, match=said) as refused:
        prudent.train("mine", task="orbit", out=tmp_path / "run", quiet=True, **SMALL)
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (lambda key: {"half": jnp.zeros(2, jnp.bfloat16)}, "state's half \\(bfloat16\\) by this"),
        (lambda key: {"key": key}, "state's key \\(key<fry>\\) by this"),
        (lambda key: {"a/b": jnp.ones(1), "a": {"b": jnp.ones(1)}}, "two leaves .* named a/b"),
        (lambda key: {"__metadata__": jnp.ones(1)}, "state's __metadata__ \\(float32\\) by this"),
    ],
)
def test_a_state_that_no_checkpoint_keeps_is_refused_before_training(more, said, offer, tmp_path):
    prudent.register_algorithm(with_state(more))
    assert_training_is_refused(tmp_path, said)


def with_metrics(metrics):
    return lambda made: made._replace(update=lambda s, *more: (made.update(s, *more)[0], metrics))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda made: None, "mine: build returned a NoneType; a prudent.pieces.types.Algorithm"),
        (
            lambda made: made._replace(act=lambda s, o, key: made.act(s, o, key)[..., :1]),
            r"shape \(2,\), act returns \(1,\); actions of shape \(2,\) are needed",
        ),
        (
            lambda made: made._replace(act_greedily=lambda s, o: jnp.zeros(2)),
            r"shape \(3, 2\), act_greedily returns \(2,\); actions of shape \(3, 2\)",
        ),
        (with_metrics({}), "update returns metrics dict; a dict of scalars, of one at least"),
        (with_metrics(None), "update returns metrics NoneType; a dict of scalars"),
        (with_metrics({"x": jnp.zeros(3)}), r"metrics {'x': \(3,\)}; a dict of scalars"),
    ],
)
def test_an_algorithm_that_is_none_is_refused_before_training(change, said, offer, tmp_path):
    prudent.register_algorithm(td3_with(change))
    assert_training_is_refused(tmp_path, said)


def test_an_on_policy_algorithm_needs_layers_that_can_be_played(offer, tmp_path):
    def build(*given):
        made = ppo.build(*given)
        network = lambda state: made.network(state)._replace(activation="gelu")  # noqa: E731
        return made._replace(network=network)

    ppo = ALGORITHMS["ppo"]
    prudent.register_algorithm(ppo._replace(name="mine", build=build))
    with pytest.raises(ValueError, match=r"mine: an on-policy .* has 'gelu' and log_std given"):
        prudent.train("mine", task="orbit", out=tmp_path / "run", quiet=True)


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (
            lambda found: found._replace(activation="gelu"),
            "mine: activation 'gelu' and head 'tanh'",
        ),
        (None, r"as plain layers \(network is None\)"),
    ],
)
def test_policies_without_plain_layers_act_and_are_not_exported(network, said, offer, tmp_path):
    def change(made):
        if network is None:
            return made._replace(network=None)
        return made._replace(network=lambda state: network(made.network(state)))

    prudent.register_algorithm(td3_with(change))
    prudent.register_task(PUMP)
    prudent.train("mine", task="pump", out=tmp_path / "run", quiet=True, **SMALL)
    policy = prudent.load(tmp_path / "run")
    np.testing.assert_allclose(policy([0.3]), 1.0 + policy.unit_action([0.3]), atol=1e-6)
    with pytest.raises(ValueError, match=said):
        prudent.export(tmp_path / "run", tmp_path / "policy")
    assert not (tmp_path / "policy").exists()


def test_a_policy_under_another_name_begins_no_run(offer, tmp_path):
    prudent.register_algorithm(with_state(lambda key: {}))
    prudent.train("mine", task="orbit", out=tmp_path / "run", quiet=True, **SMALL)
    with pytest.raises(ValueError, match=r"init_from: .*run keeps its policy under no name known"):
        prudent.train("cal", task="orbit", init_from=tmp_path / "run", out=tmp_path / "next")
    assert not (tmp_path / "next").exists()


def test_runs_of_an_algorithm_or_task_that_is_not_here_say_how_to_get_it(offer, tmp_path):
    for algorithm, task in (("td3-lag", "orbit"), ("cal", "pump")):
        with pytest.MonkeyPatch.context() as here:
            for registry in (ALGORITHMS, TASKS):
                here.setattr(registry, "_known", dict(registry._known))
            prudent.register_algorithm(TD3_LAG)
            prudent.register_task(PUMP)
            prudent.train(algorithm, task=task, out=tmp_path / algorithm, quiet=True, **SMALL)
    with pytest.raises(NotKnown, match=r"algorithm 'td3-lag' is not known here; register it first"):
        prudent.resume(tmp_path / "td3-lag")
    with pytest.raises(ValueError, match=r"environment is pump, .* \(prudent.register_task\), or "):
        prudent.evaluate(tmp_path / "cal")
    offer("prudent.algorithms", "td3-lag", "no_such_module:TD3_LAG")
    with pytest.raises(Unusable, match=r"run.json: algorithm 'td3-lag' of theirs 1.0 cannot"):
        prudent.evaluate(tmp_path / "td3-lag")


@pytest.mark.parametrize("name", ["default", "another"])
def test_the_bench_takes_the_settings_of_one_s_own_environment(name, example, monkeypatch):
    from prudent.bench.hopper import hopper_settings

    values = {name: {"batch_size": 77}}
    changed = TD3_LAG._replace(presets=lambda task: {"first": {}, **values, "last": {}})
    assert hopper_settings("td3-lag").schedule.batch_size == 256
    monkeypatch.setitem(ALGORITHMS._known, "td3-lag", Registered(changed, SCRIPT))
    assert hopper_settings("td3-lag").schedule.batch_size == (77 if name == "default" else 12)


def test_a_grid_has_those_of_installed_packages(example):
    planned = expand(Grid(["pump", "orbit"], ["td3-lag", "cal"], seeds=[0]))
    assert [(p.run.task, p.run.algorithm, p.run.preset) for p in planned] == [
        ("pump", "td3-lag", "default"), ("pump", "cal", "default"),
        ("orbit", "td3-lag", "default"), ("orbit", "cal", "default"),
    ]  # fmt: skip


def test_the_command_line_lists_and_explains_them(example, monkeypatch, capsys):
    prudent_command(monkeypatch, "list")
    assert "  td3-lag      [theirs 1.0]" in capsys.readouterr().out  # not imported
    prudent_command(monkeypatch, "list", "--check")
    told = capsys.readouterr()
    assert "  td3-lag     TD3: a deterministic policy" in told.out
    assert "[theirs 1.0]" in told.out
    assert "  pump " in told.out
    assert told.err == ""
    with pytest.raises(SystemExit) as stop:
        prudent_command(monkeypatch, "train", "td3-lag", "--task", "pump", "--help")
    assert not stop.value.code
    shown = capsys.readouterr().out
    assert "--policy-delay" in shown
    assert "Updates of the critics" in shown
    assert "6000" in shown  # its preset for this task


def test_a_broken_package_costs_one_line_of_the_list(offer, monkeypatch, capsys):
    offer("prudent.algorithms", "broken", "no_such_module:ENTRY")
    offer("prudent.algorithms", "cal", "prudent_td3.td3_lag:TD3_LAG")
    offer("prudent.tasks", "pump", "prudent_td3.pump:PUMP")
    prudent_command(monkeypatch, "list", "--check")
    told = capsys.readouterr()
    assert "  cal " in told.out
    assert "  pump " in told.out
    assert "broken" not in told.out
    assert sorted(told.err.splitlines()) == [
        "prudent: algorithm 'broken' of theirs 1.0 cannot be used (ModuleNotFoundError: No module "
        "named 'no_such_module')",
        "prudent: algorithm 'cal' is ours; that of theirs 1.0 is unused",
    ]
    with pytest.raises(SystemExit, match=r"prudent: algorithm 'broken' of theirs 1.0 cannot"):
        prudent_command(monkeypatch, "train", "broken", "--task", "orbit")


def test_whoever_trains_is_told_that_a_package_s_is_not_meant(offer, monkeypatch, capsys):
    offer("prudent.algorithms", "cal", "prudent_td3.td3_lag:TD3_LAG")
    _, given = would_train(monkeypatch, "train", "cal", "--task", "orbit")
    assert field_names(CALConfig) < given.keys()
    told = capsys.readouterr().err
    assert told == "prudent: algorithm 'cal' is ours; that of theirs 1.0 is unused\n"


def test_the_shell_completes_them(example, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        prudent_command(monkeypatch, "completion", "bash")
    script = capsys.readouterr().out
    assert all(word in script for word in ("td3-lag", "pump", "--policy-delay"))


def test_help_of_ours_imports_no_package(offer, monkeypatch, capsys):
    offer("prudent.algorithms", "far", "no_such_module:ENTRY")
    for words in (["--help"], ["train", "--help"], ["train", "cal", "--task", "orbit", "--help"]):
        with suppress(SystemExit):
            prudent_command(monkeypatch, *words)
        assert capsys.readouterr().err == ""


def test_a_registry_of_one_s_own_kind():
    registry = Registry("thing", "no.such.group", lambda thing: None)
    registry.register(PUMP)
    assert dict(registry) == {"pump": PUMP}
    with pytest.raises(NotKnown, match="no thing 'other'; there is: pump"):
        registry.find("other")


# From end to end, in processes of their own.


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The example package, built and installed into a folder of its own, without a network."""
    target = tmp_path_factory.mktemp("installed")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--no-index", "--no-deps", "--no-build-isolation", "--target", str(target)),
            str(ROOT / "examples" / "prudent_td3"),
        ],
        check=True,
    )
    return target


def prudent_process(installed, folder, *words, code=0):
    finished = subprocess.run(
        [sys.executable, "-m", "prudent", *map(str, words)],
        env={**os.environ, "PYTHONPATH": f"{installed}{os.pathsep}{ROOT}"},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert finished.returncode == code, finished.stderr
    return finished.stdout if code == 0 else finished.stderr


FEW = (
    *("--hidden", "8", "--steps", "60", "--warmup-steps", "30", "--batch-size", "8"),
    *("--evaluation-episodes", "2", "--evaluate-every", "30", "--checkpoint-every", "30"),
)


@pytest.mark.slow
def test_an_installed_package_from_the_list_to_the_report(installed, tmp_path):
    """In a folder where nothing of it can be imported by chance."""
    run = partial(prudent_process, installed, tmp_path)
    listed = run("list")
    assert "  td3-lag " in listed
    assert "[prudent-td3 0.1.0]" in listed
    assert "--policy-delay" in run("train", "td3-lag", "--task", "pump", "--help")
    run("train", "td3-lag", "--task", "pump", "--out", "run", "--policy-delay", "3", *FEW)
    run("resume", "run", "--steps", "90")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["packages"] == ["prudent-td3 0.1.0"]
    settings = record["run"]
    assert (settings["config"]["policy_delay"], settings["schedule"]["steps"]) == (3, 90)
    found = json.loads(run("evaluate", "run", "--episodes", "3", "--json"))
    assert (found["step"], len(found["evaluation"]["costs"])) == (90, 3)
    run("diagnose", "run", "--episodes", "2")
    run("export", "run", "policy.safetensors")
    policy = prudent.load_exported(tmp_path / "policy.safetensors")
    assert 0.0 <= float(policy([0.3])[0]) <= 2.0
    run("train", "cal", "--task", "pump", "--out", "cal", *FEW)
    table = run("report", "run", "cal")
    assert "td3-lag" in table
    assert "cal" in table
    run("sweep", "--tasks", "pump", "--algorithms", "td3-lag", "--policy-delay", "1", "2",
        "--steps", "30", "--warmup-steps", "30", "--hidden", "8", "--jobs", "2")  # fmt: skip
    assert len(list((tmp_path / "runs" / "pump" / "td3-lag").glob("*/seed-0/run.json"))) == 2
    run(
        *("train", "ppo", "--task", "pump", "--environments", "2", "--asynchronous", "--out"),
        *("on-policy", "--epoch-steps", "100", "--steps", "100", "--passes", "1"),
    )


@pytest.mark.slow
def test_without_the_package_its_runs_say_what_is_missing(installed, tmp_path):
    prudent_process(
        installed, tmp_path, "train", "td3-lag", "--task", "orbit", "--out", "run", *FEW
    )
    told = prudent_process(tmp_path / "nowhere", tmp_path, "resume", "run", code=1)
    assert told.startswith("prudent: run/run.json: its algorithm 'td3-lag' is not known here;")
    assert told.count("\n") == 1
    assert "td3-lag" in prudent_process(tmp_path / "nowhere", tmp_path, "report", "run")


SCRIPT_WITH_A_TASK = """
import gymnasium, numpy as np, prudent

class Still(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1), {}
    def step(self, action):
        return np.zeros(1), -float(action[0]) ** 2, False, False, {"cost": 1.0}

def make(render_mode=None):
    return Still()

if __name__ == "__main__":
    constraint = prudent.Constraint(5.0, discounted=False)
    prudent.register_task(prudent.Task("still", make, 5, constraint, "stands still"))
    prudent.train("ppo", task="still", environments=2, asynchronous=True, epoch_steps=20, steps=20,
                  passes=1, out="run", quiet=True)
"""


@pytest.mark.slow
def test_environments_of_a_script_s_task_have_processes_of_their_own(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT_WITH_A_TASK)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=environment, check=True)
    told = prudent_process(tmp_path / "nowhere", tmp_path, "resume", "run", code=1)
    assert told.startswith("prudent: the run's environment is still, neither one of the tasks")


@pytest.mark.slow
def test_environments_of_the_current_folder_have_processes_of_their_own(tmp_path):
    """As an installed `prudent` has it, whose own path does not begin with the current folder."""
    (tmp_path / "script.py").write_text(SCRIPT_WITH_A_TASK)
    subprocess.run(
        [
            *(sys.executable, "-P", "-m", "prudent", "train", "ppo", "--env", "script:make"),
            *("--budget", "5", "--horizon", "5", "--environments", "2", "--asynchronous"),
            *("--epoch-steps", "20", "--steps", "20", "--passes", "1", "--out", "run"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        check=True,
    )
