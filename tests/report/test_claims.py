"""The paper's claims on made-up records of both kinds."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from prudent.report import comparisons
from prudent.report.claims import (
    CLAIMS,
    FAILS,
    HOLDS,
    UNKNOWN,
    claims_table,
    judge,
)
from prudent.report.evidence import collect
from prudent.report.paper import ALL_TASKS, ON_POLICY

BUDGET, CRITICS_BUDGET = 10.0, 2.5
STEPS = np.arange(0, 4001, 100)


def write(folder, algorithm, seed, task="point-button2", **made):
    """A run whose curves are given: `cost`, `earned`, `spread`, `gap`, `training` costs; and any
    setting, of its schedule if it is the ratio.
    """
    curves = {name: made.pop(name, None) for name in ("cost", "earned", "spread", "gap")}
    training = made.pop("training", [])
    ratio = made.pop("updates_per_step", None)
    schedule = {"steps": int(STEPS[-1])}
    if ratio is not None:
        schedule["updates_per_step"] = ratio
    run = {
        "algorithm": algorithm, "task": task, "preset": "paper", "seed": seed, "budget": BUDGET,
        "discounted": False, "config": made, "schedule": schedule,
    }  # fmt: skip
    folder = folder / f"{algorithm}-{task}-{ratio}-{'-'.join(map(str, made.values()))}-{seed}"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"format": 2, "run": run}))

    def at(name, index):
        curve = curves[name]
        return 0.0 if curve is None else float(np.broadcast_to(curve, STEPS.shape)[index])

    lines = []
    for index, step in enumerate(STEPS.tolist()):
        cost, earned = at("cost", index), at("earned", index)
        test = {"return": earned, "cost": cost, "length": 1, "within_budget": cost <= BUDGET}
        test["within_budget"] = float(test["within_budget"])
        trained = {} if curves["spread"] is None else {"ensemble_spread": at("spread", index)}
        lines.append({"step": step, "evaluation": test, "training": trained, "window_seconds": 1.0})
    (folder / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    episodes = ({"phase": "training", "cost": float(cost)} for cost in training)
    (folder / "episodes.jsonl").write_text("".join(json.dumps(e) + "\n" for e in episodes))
    if curves["gap"] is not None:
        gaps = (
            {
                "step": int(step),
                "format": 1,
                "snapshot": "x",
                "gap": at("gap", index),
                "cost_budget": CRITICS_BUDGET,
            }
            for index, step in enumerate(STEPS)
        )
        (folder / "diagnostics.jsonl").write_text("".join(json.dumps(g) + "\n" for g in gaps))
    return folder


def noise(seed):
    return 0.01 * np.random.default_rng(seed).normal()


def verdicts(folder, text):
    findings = judge([claim for claim in CLAIMS if claim.text == text], collect([folder]))
    assert findings, f"no claim says {text}"
    return [finding.verdict for finding in findings]


def wave(size):
    return BUDGET + size * (-1.0) ** np.arange(len(STEPS))


FALLING = np.linspace(5.0, 0.1, len(STEPS))
WIDE, NARROW = np.array([0.0, 20.0] * 20), np.array([9.0, 10.0] * 20)

# Of each claim: the runs (algorithm and what is made up) that show it, and those that refute it.
CASES = {
    "SAC-Lag underestimates its cost": ([("sac-lag", {"gap": -3.0})], [("sac-lag", {"gap": 2.0})]),
    "SAC-Lag costs more than its budget": ([("sac-lag", {"cost": 15})], [("sac-lag", {"cost": 8})]),
    "UCB with k = 2 overestimates its cost": (
        [("ucb", {"conservatism": 2.0, "gap": 1.0})],
        [("ucb", {"conservatism": 2.0, "gap": -1.0})],
    ),
    "CAL oscillates less than UCB of the same k": (
        [(a, {"conservatism": 0.5, "cost": wave(w)}) for a, w in (("ucb", 9.0), ("cal", 1.0))],
        [(a, {"conservatism": 0.5, "cost": wave(w)}) for a, w in (("ucb", 1.0), ("cal", 9.0))],
    ),
    "CAL breaks its budget less often than UCB of a larger k": (
        [("ucb", {"conservatism": 2.0, "training": WIDE}), ("cal", {"training": NARROW})],
        [("ucb", {"conservatism": 2.0, "training": NARROW}), ("cal", {"training": WIDE})],
    ),
    "CAL's training costs come closer to the budget": (
        [("cal", {"training": np.concatenate([NARROW + 30.0, NARROW])})],
        [("cal", {"training": np.concatenate([NARROW, NARROW - 5.0])})],
    ),
    "CAL's training costs scatter less and less": (
        [("cal", {"training": np.concatenate([WIDE, NARROW])})],
        [("cal", {"training": np.concatenate([NARROW, WIDE])})],
    ),
    "CAL's ensemble comes to agree": (
        [("cal", {"spread": FALLING})],
        [("cal", {"spread": FALLING[::-1]})],
    ),
    "CAL's estimate comes to be right": (
        [("cal", {"gap": -FALLING})],
        [("cal", {"gap": -FALLING[::-1]})],
    ),
    "sparse cost is not overestimated early": (
        [("cal", {"gap": -FALLING})],
        [("cal", {"gap": FALLING})],
    ),
    "CAL keeps its budget": ([("cal", {"cost": 8})], [("cal", {"cost": 12})]),
    "CAL earns more than cvpo": (
        [("cal", {"earned": 9}), ("cvpo", {"earned": 5})],
        [("cal", {"earned": 5}), ("cvpo", {"earned": 9})],
    ),
    "CAL breaks its budget less often than sac-pid": (
        [("cal", {"training": NARROW}), ("sac-pid", {"training": WIDE})],
        [("cal", {"training": WIDE}), ("sac-pid", {"training": NARROW})],
    ),
    "without conservatism CAL breaks its budget": (
        [("cal", {"conservatism": 0.0, "cost": 30})],
        [("cal", {"conservatism": 0.0, "cost": 3})],
    ),
    "without conservatism CAL breaks its budget more often": (
        [("cal", {"conservatism": k, "training": t}) for k, t in ((0.0, WIDE), (0.5, NARROW))],
        [("cal", {"conservatism": k, "training": t}) for k, t in ((0.0, NARROW), (0.5, WIDE))],
    ),
    "too much conservatism slows the return": (
        [("cal", {"conservatism": k, "earned": 50 - k}) for k in (0.0, 0.5, 2.0)],
        [("cal", {"conservatism": k, "earned": 50 + k}) for k in (0.0, 0.5, 2.0)],
    ),
    "more conservatism, less cost": (
        [("cal", {"conservatism": k, "cost": 20 - 5 * k}) for k in (0.0, 0.5, 2.0)],
        [("cal", {"conservatism": k, "cost": 20 + 5 * k}) for k in (0.0, 0.5, 2.0)],
    ),
    "without convexity CAL oscillates": (
        [("cal", {"convexity": c, "cost": wave(9.0 - c / 2)}) for c in (0.0, 10.0)],
        [("cal", {"convexity": c, "cost": wave(1.0 + c / 2)}) for c in (0.0, 10.0)],
    ),
    "without convexity CAL earns less": (
        [("cal", {"convexity": c, "earned": 50 + c / 30}) for c in (0.0, 10.0, 100.0)],
        [("cal", {"convexity": c, "earned": 50 - c / 30}) for c in (0.0, 10.0, 100.0)],
    ),
    "too much convexity slows the return": (
        [("cal", {"convexity": c, "earned": 50 - c / 30}) for c in (0.0, 10.0, 1000.0)],
        [("cal", {"convexity": c, "earned": 50 + c / 30}) for c in (0.0, 10.0, 1000.0)],
    ),
    "more updates raise wcsac's return": (
        [("wcsac", {"updates_per_step": r, "earned": r}) for r in (1, 10, 20)],
        [("wcsac", {"updates_per_step": r, "earned": -r}) for r in (1, 10, 20)],
    ),
    "more updates do not make cvpo safe": (
        [("cvpo", {"updates_per_step": 20, "cost": 19})],
        [("cvpo", {"updates_per_step": 20, "cost": 9})],
    ),
    "larger ensembles cost less": (
        [("cal", {"cost_critics": e, "cost": 30 - e}) for e in (2, 4, 8)],
        [("cal", {"cost_critics": e, "cost": 30 + e}) for e in (2, 4, 8)],
    ),
    "CAL keeps its budget also with many updates": (
        [("cal", {"updates_per_step": 20, "cost": 8})],
        [("cal", {"updates_per_step": 20, "cost": 12})],
    ),
    "IPO earns more than CAL": (
        [("ipo", {"earned": 9}), ("cal", {"earned": 5})],
        [("ipo", {"earned": 5}), ("cal", {"earned": 9})],
    ),
    "CAL earns about as much as the best on-policy method": (
        [("cal", {"earned": 9.5}), *((a, {"earned": 10 - i}) for i, a in enumerate(ON_POLICY))],
        [("cal", {"earned": 8.5}), *((a, {"earned": 10 - i}) for i, a in enumerate(ON_POLICY))],
    ),
}


def write_all(folder, runs, seeds):
    for algorithm, made in runs:
        for seed in range(seeds):
            shifted = dict(made)
            for name in ("cost", "earned", "gap"):
                if name in made:
                    shifted[name] = made[name] + noise(seed)
            write(folder, algorithm, seed, **shifted)


@pytest.mark.parametrize("text", CASES)
def test_a_claim_can_hold_fail_and_be_open(text, tmp_path):
    for kind, runs, seeds, verdict in (
        ("yes", CASES[text][0], 3, HOLDS),
        ("no", CASES[text][1], 3, FAILS),
        ("open", CASES[text][0], 1, UNKNOWN),
    ):
        folder = tmp_path / kind
        folder.mkdir()
        write_all(folder, runs, seeds)
        assert verdicts(folder, text) == [verdict], kind


@pytest.mark.parametrize(("broken", "verdict"), [(6, HOLDS), (None, FAILS)])
def test_on_policy_methods_over_all_tasks(broken, verdict, tmp_path):
    for algorithm in ON_POLICY:
        for place, task in enumerate(ALL_TASKS):
            cost = 14.0 if place == broken else 6.0
            for seed in range(2):
                write(tmp_path, algorithm, seed, task, cost=cost + noise(seed))
    assert verdicts(tmp_path, "no on-policy method is safe on all tasks") == [verdict]


def test_no_effect_in_many_seeds_is_a_no_and_in_few_an_open_question(tmp_path):
    text = "SAC-Lag costs more than its budget"
    for seeds, verdict in ((4, UNKNOWN), (6, FAILS)):
        folder = tmp_path / str(seeds)
        folder.mkdir()
        for seed in range(seeds):
            write(folder, "sac-lag", seed, cost=BUDGET + (-1.0) ** seed)
        assert verdicts(folder, text) == [verdict]


def test_nothing_is_not_enough_and_says_what_to_run(tmp_path):
    findings = judge(CLAIMS, collect([tmp_path]))
    assert {finding.verdict for finding in findings} == {UNKNOWN}
    assert len(findings) == len(CLAIMS)
    rows = claims_table(findings).splitlines()[2:]
    assert all("run: `prudent experiment " in row for row in rows)


def test_other_settings_are_not_taken_for_seeds(tmp_path):
    for seed in range(3):
        write(tmp_path, "sac-lag", seed, rate=1, cost=15.0 + noise(seed))
    write(tmp_path, "sac-lag", 0, rate=2, cost=-500.0)
    assert verdicts(tmp_path, "SAC-Lag costs more than its budget") == [HOLDS]


@pytest.mark.parametrize("discount", [0.9, 0.995])
def test_of_settings_with_as_many_seeds_the_presets_own_counts(discount, tmp_path):
    """Whether their folders come before the others or after them."""
    for seed in range(3):
        write(tmp_path, "sac-lag", seed, discount=discount, cost=-500.0 + noise(seed))
        write(tmp_path, "sac-lag", seed, discount=0.99, cost=15.0 + noise(seed))
    assert verdicts(tmp_path, "SAC-Lag costs more than its budget") == [HOLDS]


@pytest.mark.parametrize("discount", [0.9, 0.995])
def test_of_ablations_with_as_many_seeds_those_beside_the_preset_count(discount, tmp_path):
    for seed, k in product(range(3), (0.0, 0.5, 2.0)):
        made = {"conservatism": k, "updates_per_step": 20}
        write(tmp_path, "cal", seed, discount=discount, cost=5.0 * k + noise(seed), **made)
        write(tmp_path, "cal", seed, discount=0.99, cost=9.0 - k + noise(seed), **made)
    assert verdicts(tmp_path, "more conservatism, less cost") == [HOLDS]


def test_a_claim_about_cal_is_not_judged_by_its_ablations(tmp_path):
    """Of which there are more seeds, in folders that come first."""
    for seed in range(5):
        for made in ({"conservatism": 0.0}, {"cost_critics": 2}, {"updates_per_step": 1}):
            write(tmp_path, "cal", seed, cost=99.0 + noise(seed), **made)
    for seed in range(3):
        write(tmp_path, "cal", seed, cost=8.0 + noise(seed), conservatism=0.5, updates_per_step=20)
    assert verdicts(tmp_path, "CAL keeps its budget") == [HOLDS]
    assert verdicts(tmp_path, "without conservatism CAL breaks its budget") == [HOLDS]


def test_a_baseline_at_another_ratio_is_not_the_published_one(tmp_path):
    for seed in range(3):
        write(tmp_path, "cal", seed, earned=9.0 + noise(seed))
        write(tmp_path, "wcsac", seed, earned=99.0 + noise(seed), updates_per_step=10)
        write(tmp_path, "wcsac", seed, earned=5.0 + noise(seed), updates_per_step=1)
    assert verdicts(tmp_path, "CAL earns more than wcsac") == [HOLDS]


def test_runs_that_were_not_diagnosed_do_not_hide_those_that_were(tmp_path):
    for seed in range(3):
        write(tmp_path, "sac-lag", seed, rate=1)
    for seed in range(2):
        write(tmp_path, "sac-lag", seed, rate=2, gap=-3.0 + noise(seed))
    assert verdicts(tmp_path, "SAC-Lag underestimates its cost") == [HOLDS]


def test_runs_of_different_length_are_cut_to_the_shortest(tmp_path):
    """Unless learning rates fall to the end, when a longer run is another one."""
    half = len(STEPS) // 2
    for decay, verdict in (("none", HOLDS), ("policy", UNKNOWN)):
        folder = tmp_path / decay
        folder.mkdir()
        for seed in range(3):
            for ratio in (1, 20):
                earned = np.where(np.arange(len(STEPS)) <= half, ratio, -99.0) + noise(seed)
                made = {"updates_per_step": ratio, "rate_decay": decay}
                run = write(folder, "wcsac", seed, earned=earned, **made)
                if ratio == 20:
                    shorten(run, half)
        assert verdicts(folder, "more updates raise wcsac's return") == [verdict]


def test_what_does_not_fall_does_not_come_to_be_right(tmp_path):
    """The largest of single values would be twice the others by chance."""
    generator = np.random.default_rng(0)
    for seed in range(6):
        write(tmp_path, "cal", seed, gap=generator.normal(size=len(STEPS)))
    assert verdicts(tmp_path, "CAL's estimate comes to be right") == [FAILS]


def test_on_policy_methods_are_compared_at_one_length(tmp_path):
    text = "CAL earns about as much as the best on-policy method"
    for seed in range(3):
        write(tmp_path, "cal", seed, earned=9.5 + noise(seed))
        for place, algorithm in enumerate(ON_POLICY):
            run = write(tmp_path, algorithm, seed, earned=99.0 if place else 9.0 + noise(seed))
            if place == 0:
                shorten(run, 10)
    assert verdicts(tmp_path, text) == [UNKNOWN]


def shorten(folder, last):
    """A run of fewer steps."""
    about = json.loads((folder / "run.json").read_text())
    about["run"]["schedule"]["steps"] = int(STEPS[last])
    (folder / "run.json").write_text(json.dumps(about))
    lines = (folder / "progress.jsonl").read_text().splitlines(keepends=True)
    (folder / "progress.jsonl").write_text("".join(lines[: last + 1]))


def test_settings_are_compared_over_the_steps_that_both_have(tmp_path):
    """CAL earns 9 in the first half and -99 in the second, which the baseline never reached."""
    half = len(STEPS) // 2
    earned = np.where(np.arange(len(STEPS)) <= half, 9.0, -99.0)
    for seed in range(3):
        write(tmp_path, "cal", seed, earned=earned + noise(seed))
        shorten(write(tmp_path, "cvpo", seed, earned=5.0 + noise(seed)), half)
    assert verdicts(tmp_path, "CAL earns more than cvpo") == [HOLDS]


def thin(folder, every):
    """A run that was evaluated less often."""
    about = json.loads((folder / "run.json").read_text())
    about["run"]["schedule"]["evaluate_every"] = every
    (folder / "run.json").write_text(json.dumps(about))
    lines = (folder / "progress.jsonl").read_text().splitlines(keepends=True)
    (folder / "progress.jsonl").write_text("".join(lines[::every]))


def test_curves_are_compared_at_the_evaluations_that_both_have(tmp_path):
    """UCB's cost swings from one evaluation to the next, of which CAL has every second only."""
    slow = BUDGET + np.sin(np.arange(len(STEPS)) * np.pi / 4)
    for seed in range(3):
        write(tmp_path, "ucb", seed, conservatism=0.5, cost=wave(9.0) + noise(seed))
        thin(write(tmp_path, "cal", seed, conservatism=0.5, cost=slow + noise(seed)), 2)
    assert verdicts(tmp_path, "CAL oscillates less than UCB of the same k") == [FAILS]


def test_runs_that_were_evaluated_at_other_intervals_are_seeds_of_one_setting(tmp_path):
    for seed in range(3):
        run = write(tmp_path, "sac-lag", seed, cost=15.0 + noise(seed))
        thin(run, 1 + seed % 2)
    (claim,) = (claim for claim in CLAIMS if claim.text == "SAC-Lag costs more than its budget")
    (finding,) = judge([claim], collect([tmp_path]))
    assert (finding.verdict, finding.note) == (HOLDS, "3 seeds, 4,000 steps")


def test_runs_without_a_common_evaluation_are_not_compared(tmp_path):
    """But for that before training, at which nothing was learned."""
    for seed in range(3):
        write(tmp_path, "cal", seed, earned=9.0 + noise(seed))
        rare = write(tmp_path, "cvpo", seed, earned=5.0 + noise(seed))
        lines = [json.loads(x) for x in (rare / "progress.jsonl").read_text().splitlines()]
        for line in lines[1:]:
            line["step"] += 1
        (rare / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert verdicts(tmp_path, "CAL earns more than cvpo") == [UNKNOWN]


def test_options_that_the_paper_does_not_have_are_said_and_left_out(tmp_path):
    for seed in range(3):
        write(tmp_path, "cal", seed, cost=8.0 + noise(seed))
        write(tmp_path, "cal", seed + 5, dual_states="recent", cost=99.0 + noise(seed))
    said = []
    runs = collect([tmp_path], said.append)
    assert sorted(run.run["seed"] for run in runs) == [0, 1, 2]
    assert said == ["3 run(s) with what the paper has not (dual_states=recent) left out"]


def test_what_cannot_be_counted_is_said_and_left_out(tmp_path):
    for seed in range(3):
        write(tmp_path, "sac-lag", seed, cost=15.0 + noise(seed))
    damaged, unfinished = (write(tmp_path, "sac-lag", seed, cost=-99.0) for seed in (3, 4))
    (damaged / "progress.jsonl").write_text("{}\n")
    lines = (unfinished / "progress.jsonl").read_text().splitlines(keepends=True)
    (unfinished / "progress.jsonl").write_text("".join(lines[:5]))
    said = []
    runs = collect([tmp_path, tmp_path], said.append)
    assert sorted(run.run["seed"] for run in runs) == [0, 1, 2]
    assert len(said) == 2
    assert "progress.jsonl:1" in said[0]
    assert "400 steps of 4000 are done; left out" in said[1]


def test_margins_by_hand():
    half = 4.302653 / np.sqrt(3)  # Student's quantile with two degrees of freedom
    assert comparisons.per_seed([1.0, 2.0, 3.0]).interval == pytest.approx((2 - half, 2 + half))
    larger, smaller = [3.0, 5.0, 4.0], [1.0, 1.5]
    found = comparisons.difference(larger, smaller)
    welch = stats.ttest_ind(larger, smaller, equal_var=False).confidence_interval()
    assert (found.value, found.seeds) == (2.75, 2)
    assert found.interval == pytest.approx((welch.low, welch.high))
    rise = comparisons.slope([0.0, 0.5, 9.0, 0.0], [1.0, 2.0, 3.0, 1.0])
    assert rise == (pytest.approx(1.0), None, 1, 0)
    fall = comparisons.slope([0.0, 9.0, 0.0, 9.0], [1.0, 0.0, 3.0, 2.0])
    half = 4.302653 * np.sqrt(2.0)  # squared residuals 1 each: 4 / 2 / (4 * 0.25)
    assert fall.interval == pytest.approx((-1.0 - half, -1.0 + half))


def test_the_page_says_what_the_records_say():
    root = Path(__file__).parents[2]
    table = claims_table(judge(CLAIMS, collect([root / "results"])))
    assert table + "\n" in (root / "docs" / "results" / "claims.md").read_text()
