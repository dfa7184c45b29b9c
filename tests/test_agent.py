"""An agent: it learns in several calls as in one, and acts at any time."""

import gc
from dataclasses import replace

import numpy as np
import pytest
from support import lines, small_run

import prudent
from prudent import Agent
from prudent.tasks import TASKS, adapter
from prudent.training import run as run_module

STEPS = 60
OFF_POLICY = {
    "hidden": (8, 8), "warmup_steps": 12, "batch_size": 8, "updates_per_step": 1, "horizon": 9,
    "evaluate_every": 20, "checkpoint_every": 10, "snapshot_every": 20, "evaluation_episodes": 2,
    "replay_capacity": 50,
}  # fmt: skip
ON_POLICY = {
    "hidden": (8,), "horizon": 9, "epoch_steps": 20, "passes": 1, "evaluate_every": 20,
    "checkpoint_every": 20, "snapshot_every": 40, "evaluation_episodes": 2,
}  # fmt: skip
SMALL = {
    "cal": OFF_POLICY,
    "ppo-lag": {**ON_POLICY, "rate_decay": "none"},
}
SEEN = np.linspace(-0.5, 0.5, TASKS["orbit"].make().observation_space.shape[0])


def agent_of(out=None, algorithm="cal", steps=STEPS, **values):
    settings = {"steps": steps, "quiet": True, **SMALL[algorithm], **values}
    return Agent(algorithm, task="orbit", out=out, **settings)


def records(folder):
    return [lines(folder / name) for name in ("progress.jsonl", "episodes.jsonl")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folders of runs that learned everything in one call."""
    home = tmp_path_factory.mktemp("agent")
    return {name: agent_folder(home / name, name) for name in SMALL}


def agent_folder(out, algorithm):
    agent_of(out, algorithm).learn()
    return out


@pytest.fixture
def counted():
    """Orbit, and how often an environment of it was opened."""
    opened = []

    def make(**options):
        opened.append(1)
        return TASKS["orbit"].make(**options)

    return replace(TASKS["orbit"], make=make, horizon=9), opened


# Learning


@pytest.mark.parametrize("algorithm", SMALL)
def test_learning_twice_half_is_learning_once(algorithm, whole, tmp_path):
    agent = agent_of(tmp_path / "run", algorithm)
    agent.learn(20)
    assert (agent.steps_done, agent.run.schedule.steps) == (20, 20)
    last = agent.learn(STEPS - 20)
    assert (agent.steps_done, agent.run.schedule.steps) == (STEPS, STEPS)
    assert records(tmp_path / "run") == records(whole[algorithm])
    assert last == agent.evaluation == prudent.resume(whole[algorithm], quiet=True).evaluation


def test_until_counts_from_the_start(whole, tmp_path):
    agent = agent_of(tmp_path / "run")
    agent.learn(until=33)
    agent.learn(until=STEPS)
    assert records(tmp_path / "run") == records(whole["cal"])
    with pytest.raises(ValueError, match="until"):
        agent.learn(5, until=70)


def test_rates_that_fall_leave_one_call_only(tmp_path):
    agent = agent_of(tmp_path / "run", "ppo-lag", rate_decay="all")
    agent.learn(20)
    before = (tmp_path / "run" / "run.json").read_bytes()
    opened = set(adapter._OPEN)
    with pytest.raises(ValueError, match="rate_decay all") as told:  # which holds what was opened
        agent.learn(20)
    assert told.tb is not None
    assert set(adapter._OPEN) == opened
    assert (tmp_path / "run" / "run.json").read_bytes() == before
    assert agent.steps_done == 20
    assert agent.policy.step == 20


def test_no_steps_at_all_are_refused(tmp_path):
    agent = agent_of(tmp_path / "run")
    agent.learn(20)
    with pytest.raises(ValueError, match="0"):
        agent.learn(until=0)
    assert agent.run.schedule.steps == 20


def test_the_algorithm_is_compiled_once_and_no_environment_is_opened_for_nothing(
    counted, tmp_path, monkeypatch
):
    task, opened = counted
    compiled, compile_for_rows = [], run_module.compile_for_rows
    monkeypatch.setattr(
        run_module, "compile_for_rows", lambda *a: (compiled.append(1), compile_for_rows(*a))[1]
    )
    run = small_run(task, steps=20, evaluation_episodes=2)
    agent = Agent.of_run(run, task, tmp_path / "run", quiet=True)
    assert len(opened) == 1  # probed, asked for its sizes, and trained in
    agent.learn()
    assert len(opened) == 1 + 2  # and one for each episode of an evaluation
    agent.learn(20)
    assert len(opened) == 2 * (1 + 2)
    assert len(compiled) == 1


def test_a_folder_that_holds_a_run_is_refused_before_an_environment_is_opened(counted, whole):
    task, opened = counted
    before = sorted(whole["cal"].rglob("*"))
    with pytest.raises(ValueError, match=str(whole["cal"])):
        Agent.of_run(small_run(task), task, whole["cal"])
    assert not opened
    assert sorted(whole["cal"].rglob("*")) == before


def test_nothing_is_written_before_it_learns(tmp_path):
    agent = agent_of(tmp_path / "run")
    agent.predict(SEEN)
    with pytest.raises(ValueError, match="learn"):
        agent.save(tmp_path / "copy")
    with pytest.raises(ValueError, match="steps"):
        agent.learn(-3)
    assert not list(tmp_path.iterdir())
    assert agent.steps_done == 0


def test_somebody_else_s_folder_is_left_alone(tmp_path):
    agent = agent_of(tmp_path / "run")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes").write_text("mine")
    with pytest.raises(ValueError, match="notes"):
        agent.learn()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes"]


# Acting


def test_it_acts_before_and_after_learning(tmp_path):
    agent = agent_of(tmp_path / "run", steps=20)
    first, first_cost = agent(SEEN), agent.cost_value(SEEN, agent(SEEN))
    assert agent.policy.step == 0
    agent.learn()
    after = prudent.load(tmp_path / "run")
    assert (agent.policy.step, after.step) == (20, 20)
    np.testing.assert_array_equal(agent(SEEN), after(SEEN))
    assert (agent(SEEN) != first).any()
    action, state = agent.predict(SEEN, state="theirs")
    np.testing.assert_array_equal(action, after(SEEN))
    assert state == "theirs"
    drawn, _ = agent.predict(SEEN, deterministic=False)
    assert drawn.shape == action.shape
    assert (drawn != action).any()
    found, expected = agent.cost_value(SEEN, action), after.cost_value(SEEN, action)
    assert (found.mean, found.conservative) == (expected.mean, expected.conservative)
    assert found.mean != first_cost.mean


def test_it_begins_as_the_run_does(tmp_path, whole):
    """With the policy that the learner's key draws, or with that of another run."""
    begun = []
    agent = agent_of(steps=20, callbacks=[lambda line, agent: begun.append(agent(SEEN))])
    first = agent(SEEN)
    agent.learn()
    np.testing.assert_array_equal(begun[0], first)  # evaluated at step 0, before any update
    again = agent_of(init_from=whole["cal"])
    np.testing.assert_array_equal(again(SEEN), prudent.load(whole["cal"])(SEEN))


# Callbacks


def test_callbacks_take_the_line_or_the_line_and_the_agent(tmp_path):
    alone, together = [], []

    def with_agent(line, agent):
        together.append((line["step"], agent.steps_done, agent.policy.step, agent(SEEN)))
        line.clear()  # it is theirs

    def with_option(line, note="nothing"):
        alone.append((line["step"], note))

    agent = agent_of(tmp_path / "run", callbacks=[with_agent, with_option])
    agent.learn()
    assert alone == [(step, "nothing") for step in (0, 20, 40, 60)]
    assert [steps for *steps, _ in together] == [[step] * 3 for step in (0, 20, 40, 60)]
    for step, _, _, action in together[1:]:  # as the session was at that moment
        np.testing.assert_array_equal(action, prudent.load(tmp_path / "run", step=step)(SEEN))
    assert agent.policy.step == STEPS


def test_a_callback_stops_a_run_that_goes_on_the_same(whole, tmp_path):
    agent = agent_of(tmp_path / "run", callbacks=[lambda line: line["step"] == 20])
    agent.learn()
    assert (agent.steps_done, agent.run.schedule.steps) == (20, STEPS)
    agent.learn()
    assert agent.steps_done == STEPS
    assert records(tmp_path / "run") == records(whole["cal"])


def test_a_callback_that_fails_leaves_the_run_saved(whole, tmp_path):
    def fail(line, agent):
        if line["step"] == 20:
            raise KeyError(agent.steps_done)

    agent = agent_of(tmp_path / "run", callbacks=[fail])
    with pytest.raises(KeyError, match="20"):
        agent.learn()
    assert agent.policy.step == 20
    agent.learn()
    assert records(tmp_path / "run") == records(whole["cal"])


def test_what_cannot_be_called_is_refused(tmp_path):
    with pytest.raises(ValueError, match="'log'"):
        agent_of(tmp_path / "run", callbacks=["log"])
    assert not list(tmp_path.iterdir())


# Its folder


def test_saved_and_loaded_it_goes_on(whole, tmp_path):
    agent = agent_of(tmp_path / "run")
    agent.learn(40)
    assert agent.save(tmp_path / "copy") == tmp_path / "copy"
    with pytest.raises(ValueError, match="copy"):
        agent.save(tmp_path / "copy")
    loaded = Agent.load(tmp_path / "copy", quiet=True)
    assert loaded.steps_done == 40
    np.testing.assert_array_equal(loaded(SEEN), agent(SEEN))
    loaded.learn(20)
    assert records(tmp_path / "copy") == records(whole["cal"])
    assert agent.steps_done == 40  # its own run is where it was
    assert loaded.learn() == loaded.evaluation  # there is nothing left


def test_a_folder_of_nobody_s_goes_with_the_agent(tmp_path):
    agent = agent_of(steps=20)
    agent.learn()
    above = agent.folder.parent
    assert (agent.folder / "run.json").exists()
    agent.save(tmp_path / "kept")
    del agent
    gc.collect()
    assert not above.exists()
    assert Agent.load(tmp_path / "kept").steps_done == 20


def test_what_it_says_of_itself(whole):
    told = repr(Agent.load(whole["cal"]))
    for part in ("cal", "orbit", "seed 0", "60 of 60 steps", str(whole["cal"])):
        assert part in told
    assert ", 0 of 60 steps" in repr(agent_of())
