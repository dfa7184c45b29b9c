"""A limit is proven or refuted, and wrongly so no more often than was agreed."""

import importlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_lines import prudent_command
from scipy import stats
from support import INTERRUPTIBLE, small_run
from varied import varied

import prudent
from prudent.certification import certifying, subject
from prudent.certification.betting import fewest_to_prove, lower_bound, upper_bound
from prudent.certification.claims import Interval, claims, no_evidence, verdict, weigh
from prudent.cli.certify import verdict_in_words as shown_by_certify
from prudent.policies.exported import write_exported
from prudent.policies.policy import summary_of
from prudent.settings.run import Constraint
from prudent.statistics import cost_interval, mean_interval
from prudent.tasks import TASKS
from prudent.tasks.episodes import EVALUATION_SEED, Accounting, Episodes, episode_seed
from prudent.tasks.finding import unknown_task
from prudent.tasks.task import step_range

OLD = Path(__file__).parents[1] / "data" / "format1"
POLICIES, EPISODES = 1500, 150

# What an episode may cost, as parts of the most it can, with a given mean.
KINDS = {
    "all or nothing": lambda draw, mean, shape: (draw.random(shape) < mean) * 1.0,
    "spread out": lambda draw, mean, shape: draw.beta(2 * mean, 2 - 2 * mean, shape),
    "nearly constant": lambda draw, mean, shape: draw.beta(200 * mean, 200 - 200 * mean, shape),
    "rarely ruinous": lambda draw, mean, shape: np.where(
        draw.random(shape) < 0.01, 1.0, (mean - 0.01) / 0.99
    ),
}


def ever(numbers, limits, confidence=0.95):
    """Which claims were ever proven and refuted, [claims, policies], given [claims, ..., T]."""
    asked = claims(limits, confidence)
    evidence = [no_evidence(numbers[0].shape[:-1]) for _ in asked]
    for time in range(numbers[0].shape[-1]):
        seen = zip(evidence, asked, (array[..., time] for array in numbers), strict=True)
        evidence = [weigh(*each) for each in seen]
    proven, refuted = ([getattr(e, name) for e in evidence] for name in ("proven", "refuted"))
    return np.array(proven), np.array(refuted)


def at_most(share, errors):
    """Within four deviations of what so many policies can show."""
    return np.mean(errors) <= share + 4 * np.sqrt(share * (1 - share) / np.size(errors))


@pytest.mark.parametrize("limit", [0.05, 0.5])
def test_false_certificates_and_refutations_are_rare(limit):
    draw, just = np.random.default_rng(0), 1.0 + 1e-6
    false_certificates, false_refutations = [], []
    for make in KINDS.values():
        above = make(draw, limit * just, (POLICIES, EPISODES))
        below = make(draw, limit / just, (POLICIES, EPISODES))
        false_certificates.append(ever([above], [limit])[0])
        false_refutations.append(ever([below], [limit])[1])
        assert at_most(0.05, false_certificates[-1])
        assert at_most(0.05, false_refutations[-1])
    assert np.mean(false_certificates) <= 0.05
    assert np.mean(false_refutations) <= 0.05
    assert np.mean(false_certificates) > 0.005  # and no more cautious than need be


@pytest.mark.parametrize("kind", KINDS)
def test_clear_cases_are_decided(kind):
    draw = np.random.default_rng(1)
    good = KINDS[kind](draw, 0.1, (200, EPISODES))
    bad = KINDS[kind](draw, 0.6, (200, EPISODES))
    assert ever([good], [0.3])[0].mean() > 0.95
    assert ever([bad], [0.3])[1].mean() > 0.95


def test_two_claims_are_certified_together_or_not_at_all():
    """Where one of them is false the whole is, although the other is proven at once; and where both
    are just true, either may be refuted by mistake.
    """
    draw = np.random.default_rng(2)
    shape, edge = (2 * POLICIES, EPISODES), (draw.random((2 * POLICIES, EPISODES)) < 0.2) * 1.0
    clear = np.zeros(shape)
    proven, _ = ever([edge, clear], [0.2 - 1e-9, 0.2])
    assert at_most(0.05, proven.all(axis=0))
    assert proven[1].all()
    other = (draw.random(shape) < 0.2) * 1.0
    _, refuted = ever([edge, other], [0.2, 0.2])
    assert at_most(0.05, refuted.any(axis=0))
    assert refuted.any(axis=0).mean() > refuted[0].mean()
    assert [claim[1:] for claim in claims([0.2, 0.2], 0.75)] == [(0.25, 0.125)] * 2
    assert [claim[1:] for claim in claims([0.2], 0.75)] == [(0.25, 0.25)]


def test_the_verdict_of_several():
    class One:
        def __init__(self, proven, refuted):
            self.proven, self.refuted = proven, refuted

    yes, no, open_ = One(True, False), One(False, True), One(False, False)
    assert verdict([yes, yes]) == "certified"
    assert verdict([yes, no]) == verdict([One(True, True)]) == "refuted"
    assert verdict([yes, open_]) == "undecided"


def test_bounds_by_hand():
    """One number 0. Half the capital is staked, of the other half a half on average: at m it is
    1/4 + 3/4 / (1 - m), which is 20 where 1 - m = 0.75 / 19.75.
    """
    assert upper_bound(np.zeros(1), 0.05) == pytest.approx(1 - 0.75 / 19.75)
    assert lower_bound(np.zeros(1), 0.05) == pytest.approx(0.0, abs=1e-9)
    # One number 1, with half of it all staked: 1/2 + 1/2 / m = 20.
    assert lower_bound(np.ones(1), 0.05) == pytest.approx(0.5 / 19.5)
    assert upper_bound(np.ones(1), 0.05) == 1.0
    assert fewest_to_prove(1 - 0.75 / 19.75 + 1e-6, 0.05) == 1
    assert fewest_to_prove(1 - 0.75 / 19.75 - 1e-6, 0.05) == 2
    # At the largest bet log(1/0.95) would take 59 numbers; half of the capital makes that bet.
    assert 59 <= fewest_to_prove(0.05, 0.05) <= 59 + np.log(2) / -np.log(0.95)


@pytest.mark.parametrize(("over", "count"), [(0, 60), (3, 100), (20, 400), (50, 100)])
def test_the_share_against_clopper_and_pearson(over, count):
    """Their bounds hold for a number of episodes chosen beforehand. Ours hold for all at once, so
    they are wider, but no more than theirs are with the error divided by 10 root n.
    """
    ones = np.repeat([1.0, 0.0], [over, count - over])
    np.random.default_rng(0).shuffle(ones)

    def exact(error):
        low = stats.beta.ppf(error, over, count - over + 1) if over else 0.0
        return Interval(low, stats.beta.ppf(1 - error, over + 1, count - over))

    ours = Interval(lower_bound(ones, 0.05), upper_bound(ones, 0.05))
    narrow, wide = exact(0.05), exact(0.05 / (10 * np.sqrt(count)))
    assert wide.low - 1e-9 <= ours.low <= narrow.low + 1e-9
    assert narrow.high <= ours.high <= wide.high


# An environment whose every step costs 1 with the probability that is the action.
TOLL = """
import gymnasium, numpy
from gymnasium.spaces import Box

class Toll(gymnasium.Env):
    observation_space, action_space = Box(-1, 1, (2,)), Box(0.0, 1.0, (1,))
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return numpy.zeros(2, numpy.float32), {}
    def step(self, action):
        self.time += 1
        cost = float(self.np_random.random() < action[0])
        return numpy.zeros(2, numpy.float32), 0.0, False, self.time == 10, {"cost": cost}

class Leaving(Toll):
    def step(self, action):
        raise SystemExit(0)

class Alike(Toll):
    def step(self, action):
        return (*super().step(numpy.ones(1))[:4], {"cost": 1.0})

class Dearer(Toll):
    def step(self, action):
        return (*super().step(action)[:4], {"cost": 2.0 * (self.time == 1)})

class Whole(Toll):
    # Begins with whole numbers and goes on with fractions.
    def reset(self, **options):
        super().reset(**options)
        return numpy.zeros(2, int), {}
    def step(self, action):
        _, *rest, info = super().step(action)
        return (numpy.full(2, 0.9, numpy.float32), *rest, {"cost": float(action[0] > 0.5)})

class Priceless(Toll):
    def step(self, action):
        return (*super().step(action)[:1], numpy.inf, False, self.time == 10, {"cost": 0.0})

class OfItsOwn(Toll):
    def reset(self, **options):
        super().reset(**options)
        return numpy.random.default_rng().random(2).astype(numpy.float32), {}

class Stuck(Toll):
    def close(self):
        if hasattr(self, "time"):
            raise OSError("the door is stuck")
"""


def toll_policy(path, probability, **about):
    """An exported file whose policy always acts the same, made without JAX."""
    raw = np.arctanh(2.0 * probability - 1.0)
    arrays = {
        "layers/0/weight": np.zeros((2, 1), np.float32),
        "layers/0/bias": np.full(1, raw, np.float32),
        "action/scale": np.full(1, 0.5, np.float32),
        "action/centre": np.full(1, 0.5, np.float32),
    }
    spaces = {
        "observation_shape": [2], "action_shape": [1], "action_dtype": "float32",
        "action_low": [0.0], "action_high": [1.0],
    }  # fmt: skip
    facts = {
        "activation": "relu", "head": "tanh", "algorithm": "cal", "task": "toll:Toll",
        "preset": "default", "seed": "0", "step": "1", "budget": "5 (sum per episode)",
        "discounted": "False", "cost_discount": "0.9", "horizon": "10", "cost": 'info["cost"]',
    }  # fmt: skip
    write_exported(path, arrays, facts | about, spaces)
    return path


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "toll.py").write_text(textwrap.dedent(TOLL))
    (tmp_path / "toll.json").write_text('{"run": {}}')
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "toll", raising=False)
    return tmp_path


def certify(path, **options):
    return prudent.certify(path, **{"env": "toll:Toll", "max_cost": 10.0, "seed": 1, **options})


def command(*words):
    return [sys.executable, "-m", "prudent", "certify", *map(str, words)]


def test_exit_codes_and_the_certificate(here):
    good, bad = toll_policy(here / "good.safetensors", 0.2), toll_policy(here / "bad.st", 0.8)
    where = ("--env", "toll:Toll", "--max-cost", 10)
    outcomes = {
        0: (good, *where, "--share", 0.9, "--out", "good.json"),
        1: (bad, *where, "--json"),
        3: (good, *where, "--max-episodes", 2, "--out", "open.json"),
        2: (good, *where[:2]),
    }
    shown = {}
    for code, words in outcomes.items():
        shown[code] = subprocess.run(command(*words), capture_output=True, text=True)
        assert shown[code].returncode == code, shown[code].stderr
    found = json.loads((here / "good.json").read_text())
    assert shown[0].stdout.startswith(f"certified: {found['statement']}\n")
    assert found["statement"] == (
        "with confidence 0.95, the mean cost of an episode (sum per episode) is at most 5 and at "
        "least 0.9 of all episodes cost at most 5"
    )
    assert (here / "good.png").read_bytes().startswith(b"\x89PNG")
    assert "1 episode: mean cost" in shown[0].stderr
    refuted = json.loads(shown[1].stdout)
    assert refuted == json.loads((here / "certificate.json").read_text())
    assert (refuted["verdict"], refuted["share"]) == ("refuted", None)
    assert refuted["cost_interval"][0] >= 5.0
    assert "jax" not in refuted["versions"]  # nor needed
    assert json.loads((here / "open.json").read_text())["verdict"] == "undecided"
    assert shown[2].stdout == ""
    assert shown[2].stderr.startswith("prudent: toll:Toll does not say what a step can cost")
    assert shown[2].stderr.count("\n") == 1


def test_what_a_certificate_says(here):
    path = toll_policy(here / "policy.safetensors", 0.2)
    found = certify(path, out=here / "certificate.json")
    assert json.loads((here / "certificate.json").read_text()) == json.loads(json.dumps(found))
    count = found["episodes"]
    assert found["verdict"] == "certified"
    assert count < 60  # of the thousand allowed: the case is clear
    assert found["seeds"] == [episode_seed(1, index) for index in range(count)]
    assert found["cost"] == pytest.approx(np.mean(found["costs"]))
    assert found["cost_interval"][1] <= 5.0
    assert found["policy"]["checksum"] == prudent.load_exported(path).checksum
    assert found["bound"] == {"low": 0.0, "high": 10.0, "source": "--max-cost"}
    assert found["versions"].keys() >= {"python", "prudent", "numpy", "gymnasium"}
    highs = [point["cost_interval"][1] for point in found["trail"]]
    assert highs == sorted(highs, reverse=True)
    assert found["trail"][-1]["episodes"] == count
    again = certify(path)
    assert again["costs"] == found["costs"]
    fresh = [certify(path, seed=None, max_episodes=1)["seed"] for _ in range(2)]
    assert fresh[0] != fresh[1]
    assert min(fresh) >= 2**32


def test_the_less_is_clear_the_longer_it_takes(here):
    counts = [
        certify(toll_policy(here / "p", probability))["episodes"] for probability in (0.05, 0.3)
    ]
    assert counts[0] < counts[1]


def test_the_share_decides_where_the_mean_does_not(here):
    """At 0.45 the mean of 4.5 is within 5, but in 26 % of the episodes more than 5 steps cost."""
    path = toll_policy(here / "policy", 0.45)
    found = certify(path, share=0.9, max_episodes=400)
    assert found["verdict"] == "refuted"
    assert found["within_budget_interval"][1] <= 0.9
    assert found["cost"] < 5.0


def test_cost_is_counted_as_the_task_counts_it(here):
    """Discounted by 0.9, ten steps of cost 1 are 6.51."""
    path = toll_policy(here / "policy", 0.5, discounted="True")
    found = certify(path, env="toll:Alike", budget=6.6, max_episodes=3)
    assert found["costs"] == pytest.approx([(1 - 0.9**10) / 0.1] * 3)
    assert found["unit"] == "discounted sum per episode"
    assert found["identical_episodes"]
    assert "discounted sum per episode" in found["statement"]


REFUSED = [
    ({"confidence": 1.0}, "--confidence is 1.0; it must be at least 0.5 and below 1"),
    ({"share": 1.0}, "--share is 1.0; it must be above 0 and below 1"),
    ({"budget": 10.0}, "every policy keeps it, and there is nothing to prove"),
    ({"budget": 0.0}, "no episode can cost less than 0: no number of episodes proves"),
    ({"budget": np.nan}, "the budget is nan, a finite number is needed"),
    ({"max_episodes": 0}, "--max-episodes is 0; it must be at least 1"),
    ({"max_cost": 2.0, "budget": 1.0}, "more than the 2 said to be possible .--max-cost."),
    ({"min_cost": 9.9, "budget": 9.95}, "less than the 9.9 said to be possible"),
    ({"max_cost": np.inf}, "two finite numbers are needed"),
    ({"seed": 0}, "with whose episodes the policy was trained or evaluated"),
    ({"seed": EVALUATION_SEED}, "with whose episodes the policy was trained or evaluated"),
    ({"task": "orbit"}, "name a --task or an --env, not both"),
    ({"env": None}, "the policy's environment is toll:Toll, neither one of the tasks known"),
    ({"env": None, "task": "orbit"}, "orbit is not the policy's environment: action shape"),
    ({"step": 3}, "--step picks a snapshot of a run"),
    ({"out": "here.png"}, "a certificate is JSON, name it here.json"),
    ({"out": "toll.json"}, "which is no certificate; it is not overwritten"),
    ({"out": "nowhere/c.json"}, "there is no folder nowhere"),
    ({"confidence": "0.95"}, "--confidence is '0.95'; it must be a number"),
    ({"budget": True}, "--budget is True; it must be a number or None"),
    ({"seed": 1.5}, "--seed is 1.5; it must be a whole number or None"),
    ({"max_episodes": 10.5}, "--max-episodes is 10.5; it must be a whole number"),
    ({"max_cost": 1e9, "budget": 1e-9}, "--budget leaves a part of 1e-18 of what is possible"),
    ({"share": 1e-17}, "--share leaves a part of 1 of what is possible"),
    ({"env": "toll:Priceless"}, "the episode with reset seed .* has return inf and cost 0"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_what_cannot_be_is_refused(here, options, message):
    with pytest.raises(ValueError, match=message):
        certify(toll_policy(here / "policy", 0.5), **options)


def test_where_nothing_can_be_written_nothing_is_played(here):
    with pytest.raises(OSError, match=r"/proc/c\.json"):
        certify(toll_policy(here / "policy", 0.5), out="/proc/c.json", env="toll:Leaving")


def test_one_episode_and_hardly_any_doubt(here):
    """The bounds stay right where there is least to go by."""
    path = toll_policy(here / "policy", 0.05)
    alone = certify(path, max_episodes=1)
    assert (alone["verdict"], alone["episodes"]) == ("undecided", 1)
    sure = certify(path, confidence=1 - 1e-12)
    assert sure["verdict"] == "certified"
    assert sure["episodes"] > 2 * certify(path)["episodes"]


def test_files_and_folders_that_are_no_policy(here, tmp_path):
    with pytest.raises(ValueError, match="neither a run's folder nor an exported policy"):
        certify(tmp_path / "nothing")
    with pytest.raises(ValueError, match="holds no run"):
        certify(tmp_path)
    path = toll_policy(here / "policy", 0.5, horizon="many")
    with pytest.raises(ValueError, match="does not say how cost was counted"):
        certify(path)


def test_a_failure_is_never_taken_for_a_verdict(here, monkeypatch, capsys):
    path = toll_policy(here / "policy", 0.5)
    for words in (
        ["certify", path, "--env", "toll:Leaving", "--max-cost", 10],
        ["--debug", "certify", path],
        ["certify", path, "--share", "much"],
    ):
        with pytest.raises(SystemExit) as stopped:
            prudent_command(monkeypatch, *words)
        assert stopped.value.code == 2
    assert "the environment asked to end the process (code 0)" in capsys.readouterr().err


def test_interrupted(here):
    """What was proven by then is written; nobody need wait for a thousand episodes."""
    path = toll_policy(here / "policy", 0.5)
    # At the very budget, with a seed that leaves it undecided for thousands of episodes.
    where = ("--env", "toll:Toll", "--max-cost", 10, "--seed", 1)
    words = [sys.executable, "-c", INTERRUPTIBLE, *command(path, *where)[3:]]
    with subprocess.Popen(
        [*words, "--max-episodes", "1000000"],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ},
    ) as running:  # fmt: skip
        while not running.stderr.readline().startswith("8 episodes"):
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        shown, _ = running.communicate(timeout=120)
    found = json.loads((here / "certificate.json").read_text())
    assert found["interrupted"]
    assert (found["verdict"], running.returncode) == ("undecided", 3)
    assert "stopped by Ctrl-C" in shown
    assert found["trail"][-1]["episodes"] == found["episodes"] == len(found["costs"]) >= 8


def test_a_task_that_says_what_a_step_costs():
    task = TASKS["orbit"]
    assert step_range(unknown_task("mine")) == (0.0, np.inf)
    object.__setattr__(task := replace(task), "cost_range", (-1.0, 2.0))
    assert step_range(task) == (-1.0, 2.0)
    for discounted, most in ((False, 40.0), (True, 2.0 * (1 - 0.5**20) / 0.5)):
        accounting = Accounting(Constraint(5.0, discounted), 0.5, 20)
        what = subject.Subject(None, False, task, accounting, None, {}, frozenset())
        found = subject.bound_of(what, None, None)
        assert found.high == pytest.approx(most)
        assert found.low == pytest.approx(-most / 2)
        assert found.source == "a step costs -1 to 2, at most 20 of them"
        assert subject.bound_of(what, 7.0, 0.0)[:2] == (0.0, 7.0)
    # Ten steps of at least 1 cost 10, but an episode of one step costs 1.
    object.__setattr__(task, "cost_range", (1.0, 2.0))
    assert subject.bound_of(what, None, None).low == 0.0


def test_where_every_episode_starts_alike_actions_are_sampled(monkeypatch):
    """An old run on orbit, as if orbit always began in the same place."""
    alike = replace(TASKS["orbit"], deterministic_reset=True, make=always_the_same_orbit)
    monkeypatch.setattr(subject, "task_of", lambda *_: alike)
    found = prudent.certify(OLD / "sac-lag", max_cost=20.0, max_episodes=3, seed=5)
    assert found["actions"] == "sampled"
    assert len({*found["returns"]}) == 3  # the noise is each episode's own
    assert found["environment"]["deterministic_reset"]
    assert found["policy"]["from"] == "run"
    monkeypatch.setattr(certifying.np.random, "default_rng", lambda seed: Fixed())
    other = prudent.certify(OLD / "sac-lag", max_cost=20.0, max_episodes=3, seed=5)
    assert other["costs"] != found["costs"]  # the same starts, but other noise
    assert other["identical_episodes"]


def always_the_same_orbit(**options):
    env = TASKS["orbit"].make(**options)
    reset = env.reset
    env.reset = lambda seed=None: reset(seed=7)
    return env


class Fixed:
    def integers(self, most):
        return 7


def test_a_runs_checksum_is_that_of_its_exported_file(tmp_path):
    path = tmp_path / "policy.safetensors"
    exported = prudent.export(OLD / "sac-lag", path)
    found = prudent.certify(OLD / "sac-lag", max_cost=20.0, max_episodes=1)
    assert found["policy"]["checksum"] == exported.checksum == prudent.load_exported(path).checksum
    same = prudent.certify(path, max_cost=20.0, max_episodes=1, seed=found["seed"])
    assert same["costs"] == pytest.approx(found["costs"], rel=1e-4)
    assert found["actions"] == same["actions"] == "greedy"


def test_an_interval_of_costs_stops_at_zero():
    costs = np.array([0.0, 0.0, 0.0, 4.0])
    low, high = mean_interval(costs)
    assert low < 0.0
    assert cost_interval(costs) == (0.0, high)
    assert cost_interval(costs, negative_costs=True) == (low, high)
    assert cost_interval(np.append(costs, -1.0)) == mean_interval(np.append(costs, -1.0))
    assert cost_interval(costs + 9.0) == mean_interval(costs + 9.0)
    assert cost_interval(costs[:1]) is None
    task = varied()
    episodes = Episodes(costs, costs, costs)
    assert summary_of(episodes, small_run(task), task)["cost_interval"] == (0.0, high)
    assert summary_of(episodes, small_run(task), task)["return_interval"] == (low, high)
    below = replace(small_run(task), budget=-1.0)  # which only negative costs can keep
    assert summary_of(episodes, below, task)["cost_interval"] == (low, high)


def test_numbers_of_numpy_are_numbers(here):
    path = toll_policy(here / "policy", 0.2)
    numbers = {"budget": np.float32(5), "seed": np.int64(1), "max_episodes": np.int64(900)}
    found = certify(path, out=here / "c.json", share=np.float32(0.5), **numbers)
    assert found == certify(path, budget=5.0, share=0.5, max_episodes=900)
    assert json.loads((here / "c.json").read_text())["costs"] == found["costs"]


def test_the_statement_is_what_was_asked(here):
    path = toll_policy(here / "policy", 0.2)
    asked = {"budget": 5.0000001, "share": 0.1234567, "confidence": 1 - 2**-50}
    said = certify(path, max_episodes=1, **asked)["statement"]
    assert "is at most 5.0000001 and at least 0.1234567 of all episodes" in said
    assert f"with confidence {1 - 2**-50!r}" in said


def test_the_policy_sees_what_the_environment_shows(here):
    """Its first observation is of whole numbers, the others are not."""
    path = here / "policy.safetensors"
    arrays = {
        "layers/0/weight": np.full((2, 1), 2.0, np.float32),
        "layers/0/bias": np.full(1, -1.0, np.float32),  # above 0 where 0.9 is seen
        "action/scale": np.full(1, 0.5, np.float32),
        "action/centre": np.full(1, 0.5, np.float32),
    }
    exported = prudent.load_exported(toll_policy(path, 0.2))
    spaces = {
        "observation_shape": [2], "action_shape": [1], "action_dtype": "float32",
        "action_low": [0.0], "action_high": [1.0],
    }  # fmt: skip
    facts = {name: text for name, text in exported.about.items() if name != "checksum"}
    write_exported(path, arrays, facts, spaces)
    found = certify(path, env="toll:Whole", max_episodes=5)
    assert found["costs"] == [9.0] * 5


def test_a_range_that_a_step_leaves_proves_nothing(here):
    """Though the sum of the episode would be within what follows from it."""
    path = toll_policy(here / "policy", 0.2, cost_range="0.0 1.0")
    assert certify(path, max_cost=None)["bound"]["source"].startswith("a step costs 0 to 1")
    with pytest.raises(ValueError, match=r"toll:Dearer.* 2.* 1"):
        certify(path, env="toll:Dearer", max_cost=None)
    assert certify(path, env="toll:Dearer", max_cost=10.0)["costs"][0] == 2.0
    below = toll_policy(here / "below", 0.2, cost_range="-inf inf")
    with pytest.raises(ValueError, match="--min-cost"):
        certify(below)
    assert certify(below, min_cost=-10.0)["bound"]["low"] == -10.0
    broken = toll_policy(here / "broken", 0.2, cost_range="much")
    with pytest.raises(ValueError, match="'much'"):
        certify(broken)


def test_the_environment_in_the_certificate_is_the_one_that_was_played(here, monkeypatch):
    path = toll_policy(here / "policy", 0.2)
    monkeypatch.syspath_prepend(here)
    alike = importlib.import_module("toll").Alike
    assert certify(path, env=alike, max_episodes=1)["environment"]["task"] == "toll:Alike"
    for name, follows in (("toll:Toll", True), ("toll:OfItsOwn", False)):
        found = certify(path, env=name, max_episodes=1)
        assert found["environment"]["follows_seed"] is follows
        assert ("cannot be repeated" in shown_by_certify(found)) is not follows


def test_an_environment_that_cannot_be_closed_loses_no_proof(here):
    path = toll_policy(here / "policy", 0.2)
    with pytest.warns(UserWarning, match="toll:Stuck"):
        assert certify(path, env="toll:Stuck")["verdict"] == "certified"


def ends(words, **streams):
    return subprocess.run(words, **{"capture_output": not streams, **streams}).returncode


def test_nobody_listens(here):
    """Neither the verdict's code nor the certificate hangs on somebody who reads."""
    good = toll_policy(here / "good.safetensors", 0.2)
    asked = (good, "--env", "toll:Toll", "--max-cost", 10, "--seed", 1)
    with open("/dev/full", "w") as full:
        assert ends(command(*asked, "--out", "a.json"), stderr=full) == 0
        assert ends(command(here / "nothing", *asked[1:]), stderr=full) == 2
        assert ends(command(*asked, "--out", "b.json"), stdout=full, stderr=full) == 2
    shell = " ".join(map(str, command(*asked, "--out", "c.json")))
    assert ends(["sh", "-c", f"({shell} 2>&1; echo $? > code) | head -1"]) == 0
    assert (here / "code").read_text() in ("0\n", "2\n")  # by when the reader left
    assert ends(["sh", "-c", f"{shell} >&-"], stderr=subprocess.DEVNULL) == 0
    for name in "abc":
        assert json.loads((here / f"{name}.json").read_text())["verdict"] == "certified"


def test_nothing_of_anybodys_is_replaced(here):
    good = toll_policy(here / "good.safetensors", 0.2)
    asked = (good, "--env", "toll:Toll", "--max-cost", 10, "--seed", 1, "--max-episodes", 1)
    (here / "photo.png").write_text("mine")
    assert ends(command(*asked, "--out", "photo.json")) == 2
    assert (here / "photo.png").read_text() == "mine"
    assert not (here / "photo.json").exists()
    for name in ("certificate", "certificate-2"):
        assert ends(command(*asked)) == 3
        assert (here / f"{name}.json").exists()
        assert (here / f"{name}.png").exists()
    assert ends(command(*asked, "--out", "certificate.json")) == 3


def test_a_run_is_judged_by_the_costs_it_was_told_of(here, tmp_path):
    folder = tmp_path / "run"
    few = {"steps": 20, "warmup_steps": 20, "hidden": (4,), "evaluate_every": 20}
    prudent.train(
        "sac-lag", env="toll:Toll", budget=5.0, horizon=10, out=folder, negative_costs=True,
        quiet=True, **few,
    )  # fmt: skip
    with pytest.raises(ValueError, match="--min-cost"):
        certify(folder)
    exported = tmp_path / "policy.safetensors"
    prudent.export(folder, exported, env="toll:Toll")
    with pytest.raises(ValueError, match="--min-cost"):
        certify(exported)
    low, _ = prudent.evaluate(folder, env="toll:Toll")["evaluation"]["cost_interval"]
    assert np.isfinite(low)
    with pytest.raises(ValueError, match="Pendulum-v1"):
        prudent.evaluate(folder, env="Pendulum-v1")
    with pytest.raises(ValueError, match="Pendulum-v1"):
        certify(folder, env="Pendulum-v1", min_cost=0.0)
    with pytest.raises(ValueError, match="with whose episodes the policy was trained"):
        certify(folder, seed=0, min_cost=0.0)
