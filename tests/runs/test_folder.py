"""What a run's folder says of it, and how that is told from another's."""

import json
from dataclasses import replace

import pytest
from support import small_run
from varied import HORIZON, Calls, Varied, off_policy_learner, varied

import prudent
from prudent.agent import Agent
from prudent.runs.folder import checksums_of, default_folder, read_run, write_run
from prudent.training import run as run_module


@pytest.fixture
def quick(monkeypatch):
    """Nothing is compiled."""
    monkeypatch.setattr(Varied, "lives", [])
    monkeypatch.setattr(run_module, "compile_for_rows", lambda *_: off_policy_learner(Calls()))


@pytest.fixture
def folder(quick, tmp_path):
    prudent.train(
        "sac", env=Varied, budget=4.0, horizon=HORIZON, out=tmp_path / "run", quiet=True, seed=2,
        hidden=(4,), steps=8, warmup_steps=4, batch_size=4, replay_capacity=50, evaluate_every=8,
        evaluation_episodes=2, checkpoint_every=8, discounted=True,
    )  # fmt: skip
    return tmp_path / "run"


def test_what_run_json_says(folder):
    record = json.loads((folder / "run.json").read_text())
    assert record["format"] == 2
    assert record["spec"]["action_scale"] == [2.0]
    assert record["spec"]["action_centre"] == [1.0]
    assert record["spec"]["cost_budget"] == 4.0  # discounted, as the critic sees it
    assert record["deterministic_reset"] is False
    assert (record["run"]["seed"], record["run"]["discounted"]) == (2, True)
    stored = read_run(folder)
    run = stored.run
    assert (stored.path, stored.content) == (folder, record)
    assert (run.seed, run.horizon, run.schedule.steps) == (2, HORIZON, 8)
    assert stored.run_id == stored.identity.run_id == f"{record['identity']}-seed-2"
    assert record["identity"] == run.identity() == replace(run, seed=5).identity()


def test_a_record_says_where_starts_are_alike(quick, tmp_path):
    task = varied(deterministic_reset=True)
    run = small_run(task, "sac", steps=4, warmup_steps=4)
    Agent.of_run(run, task, tmp_path / "run", quiet=True).learn()
    assert json.loads((tmp_path / "run" / "run.json").read_text())["deterministic_reset"] is True


def test_an_altered_record_is_refused(folder):
    path, before = folder / "run.json", read_run(folder).identity.checksums
    record = json.loads(path.read_text())
    record["run"]["budget"] = 40.0
    path.write_text(json.dumps(record))
    with pytest.raises(ValueError, match=str(path)):
        read_run(folder)
    after = checksums_of(record, record["run"])
    assert after["spec"] == before["spec"]
    assert after["settings"] != before["settings"]


def test_checksums_see_meaning_and_not_layout():
    def checksums(text):
        content = json.loads(text)
        return checksums_of(content, content["run"])

    before = checksums('{"run": {"seed": 1, "preset": "a", "task": "t"}, "spec": {"scale": [1.0]}}')
    assert before == checksums(
        '{"spec": {"scale":\n [1.0]}, "run": {"task": "t", "seed": 1, "preset": "b"}, "more": 1}'
    )
    after = checksums('{"run": {"seed": 1, "preset": "a", "task": "t"}, "spec": {"scale": [2.0]}}')
    assert after["settings"] == before["settings"]
    assert after["spec"] != before["spec"]
    assert set(checksums('{"run": {"seed": 1}}')) == {"settings"}


@pytest.mark.parametrize("content", ["[]", "{}", "[" * 100_000, '{"run": 1}', None])
def test_what_is_no_record_is_refused(content, tmp_path):
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(ValueError, match=r"run\.json"):
        read_run(tmp_path)


def test_what_tells_a_run_from_another_lasts_as_long_as_it_should(tmp_path):
    """`run_id` is of these steps and this seed; `lasting_id` of this seed, whatever the steps."""
    task = varied()
    runs = {
        "run": small_run(task),
        "longer": small_run(task, steps=80),
        "seed": small_run(task, seed=1),
        "budget": replace(small_run(task), budget=9.0),
    }
    folders = {}
    for name, run in runs.items():
        (tmp_path / name).mkdir()
        folders[name] = write_run(tmp_path / name, run, {})
    assert len({folder.run_id for folder in folders.values()}) == 4
    first, longer, *others = (folder.lasting_id for folder in folders.values())
    assert first == longer
    assert first not in others
    for name, written in folders.items():
        read = read_run(tmp_path / name)
        assert (read.run, read.identity) == (written.run, written.identity)
        assert read.lasting_id == written.lasting_id


def test_a_prolonged_run_knows_its_checkpoints_of_before(tmp_path):
    short, long = small_run(varied(), steps=60), small_run(varied(), steps=80)
    folders = [tmp_path / "short", tmp_path / "long"]
    for folder in folders:
        folder.mkdir()
    before = write_run(folders[0], short, {"spec": {"x": 1}})
    after = write_run(folders[1], long, {"spec": {"x": 1}, "earlier_steps": [60]})
    assert before.identity.earlier == {}
    assert after.identity.earlier == {before.run_id: before.identity.checksums}
    assert after.identity.checksums != before.identity.checksums


def test_seeds_and_settings_have_folders_of_their_own():
    run = small_run(varied())
    folder = default_folder(run)
    assert folder.parts == ("runs", "varied", "cal", f"default-{run.identity()}", "seed-0")
    assert default_folder(replace(run, seed=1)).parent == folder.parent
    assert default_folder(replace(run, seed=1)) != folder
    assert default_folder(replace(run, budget=9.0)).parent != folder.parent
    assert default_folder(replace(run, task="a:b/c")).parts[1] == "a-b-c"
