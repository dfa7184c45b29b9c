"""What an update needs, counted by hand, and what `prudent bench` says about it."""

import json
import os
import subprocess
import sys
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from prudent.algorithms.cal import CALConfig
from prudent.algorithms.cvpo import CVPOConfig
from prudent.algorithms.sac_lag import SACLagConfig
from prudent.algorithms.wcsac import WCSACConfig
from prudent.bench import learners, main, start, timing
from prudent.bench.command import BenchOptions, report_updates
from prudent.bench.learners import measure_update, needed_bytes, needed_products, subject_for
from prudent.bench.products import multiply_adds, traced_products
from prudent.bench.traffic import moved_bytes
from prudent.pieces.fast import adam
from prudent.pieces.networks import Trained, descend
from prudent.pieces.networks import start as start_training

# Hopper's networks, two hidden layers of 256: the policy of CAL has 3 072 + 65 792 + 1 542
# parameters, that of CVPO nine outputs (three means, six entries of a factor), a critic 3 840 +
# 65 792 + 257.
CRITIC, POLICY, CVPO_POLICY = 69_889, 70_406, 71_177


def sizes(products):
    """How often there is a product of these sizes; a product and its transpose are the same."""
    found = Counter()
    for use, rows, inner, columns, times in products:
        found[use, *sorted((rows, columns)), inner] += times
    return {(use, few, inner, many): n for (use, few, many, inner), n in found.items()}


def test_cal_with_four_cost_critics_by_hand():
    """At batch 12. The members of an ensemble share the input of their first layer, so there they
    are one product: 512 columns for two reward critics, 1024 for four cost critics.

    The policy acts at s' and at s. Critics are asked at s', at (s, a) to be fitted and at the
    policy's action; cost critics once more at (s, a), when they have been fitted.
    """
    products = needed_products(subject_for("cal", CALConfig(), batch=12))
    assert sizes(products) == {
        ("forward", 12, 11, 256): 2,
        ("forward", 12, 14, 512): 3,
        ("forward", 12, 14, 1024): 4,
        ("forward", 12, 256, 256): 2 + 2 * 3 + 4 * 4,
        ("forward", 6, 256, 12): 2,
        ("forward", 1, 256, 12): 2 * 3 + 4 * 4,
        # With respect to weights: of one policy and six critics.
        ("gradient", 11, 12, 256): 1,
        ("gradient", 14, 12, 512): 1,
        ("gradient", 14, 12, 1024): 1,
        ("gradient", 256, 12, 256): 1 + 6,
        ("gradient", 6, 12, 256): 1,
        ("gradient", 1, 12, 256): 6,
        # With respect to a layer's inputs: critics when they are fitted, and when the policy is;
        # then down to its action, member by member.
        ("gradient", 12, 6, 256): 1,
        ("gradient", 12, 1, 256): 6 + 6,
        ("gradient", 12, 256, 256): 1 + 6 + 6,
        ("gradient", 12, 256, 14): 6,
    }
    square = [p for p in products if {p.rows, p.inner, p.columns} == {12, 256}]
    assert sum(p.times for p in square) == 44


def test_cvpo_counts_every_weighed_action_and_every_step_of_the_policy():
    """Five steps of the policy and eight actions in each of 24 states, which two reward critics
    and a cost critic weigh: 192 rows.
    """
    config = CVPOConfig(policy_iterations=5, samples=8)
    products = needed_products(subject_for("cvpo", config, batch=24))
    assert sizes(products) == {
        # The policy at s' and at s of old, then five steps.
        ("forward", 24, 11, 256): 7,
        ("forward", 9, 256, 24): 7,
        # Critics: at s', and to be fitted.
        ("forward", 24, 14, 512): 2,
        ("forward", 24, 14, 256): 2,
        ("forward", 1, 256, 24): 2 * 3,
        ("forward", 24, 256, 256): 7 + 2 * 3,
        # What they say of the weighed actions.
        ("forward", 192, 14, 512): 1,
        ("forward", 192, 14, 256): 1,
        ("forward", 192, 256, 256): 3,
        ("forward", 1, 256, 192): 3,
        # Weights, of five policies and three critics.
        ("gradient", 11, 24, 256): 5,
        ("gradient", 9, 24, 256): 5,
        ("gradient", 14, 24, 512): 1,
        ("gradient", 14, 24, 256): 1,
        ("gradient", 1, 24, 256): 3,
        ("gradient", 256, 24, 256): 5 + 3,
        # Inputs of their layers.
        ("gradient", 24, 9, 256): 5,
        ("gradient", 24, 1, 256): 3,
        ("gradient", 24, 256, 256): 5 + 3,
    }


def test_the_work_of_cvpo_at_batch_256():
    products = needed_products(subject_for("cvpo", CVPOConfig(), batch=256))
    weighing = [p for p in products if (p.rows, p.inner, p.columns) == (32 * 256, 256, 256)]
    assert [p.times for p in weighing] == [3]
    assert 2 * multiply_adds(products) == pytest.approx(4.5e9, rel=0.02)


def test_wcsac_shares_a_pass_and_leaves_out_what_has_no_use():
    """The mean at (s, a) serves its own fit and the variance's target, so both cost critics are
    asked four times. The policy's slope does not depend on the mean itself, only on the way there.
    """
    found = sizes(needed_products(subject_for("wcsac", WCSACConfig(), batch=12)))
    assert found["forward", 12, 256, 256] == 2 + 2 * 3 + 2 * 4
    assert found["forward", 1, 256, 12] == 2 * 3 + 2 * 4 - 1


def test_bytes_of_cal():
    """Its targets move at every other update."""
    assert needed_bytes(subject_for("cal", CALConfig(), batch=12)) == {
        "optimiser": 28 * (6 * CRITIC + POLICY),
        "targets": 12 * 6 * CRITIC // 2,
    }


def test_bytes_of_cvpo():
    """Its policy moves six times, and the old policy with the targets."""
    assert needed_bytes(subject_for("cvpo", CVPOConfig(), batch=12)) == {
        "optimiser": 28 * (3 * CRITIC + 6 * CVPO_POLICY),
        "targets": 12 * (3 * CRITIC + CVPO_POLICY),
    }


A, B = np.ones((16, 32), np.float32), np.ones((32, 8), np.float32)


def counted(function, *arguments):
    return {p[1:4]: p.times for p in traced_products(function, *arguments)}


def test_a_product_counts_once_if_asked_twice_and_not_at_all_if_unused():
    def function(a, b):
        doubled = 2.0 * a
        (doubled.T @ doubled).sum()
        return jax.jit(jnp.matmul)(doubled, b) + (2.0 * a) @ b

    assert counted(function, A, B) == {(16, 32, 8): 1}


def test_free_axes_are_one_and_batch_axes_are_so_many_products():
    assert counted(jnp.matmul, np.ones((5, 16, 32), np.float32), B) == {(5 * 16, 32, 8): 1}
    batched = np.ones((5, 32, 8), np.float32)
    assert counted(jax.vmap(jnp.matmul), np.ones((5, 16, 32), np.float32), batched) == {
        (16, 32, 8): 5
    }


def test_the_smallest_products_are_left_out():
    assert counted(jnp.matmul, np.ones((8, 8)), np.ones((8, 8))) == {(8, 8, 8): 1}
    assert counted(jnp.matmul, np.ones((8, 7)), np.ones((7, 8))) == {}


def test_loops_multiply_what_changes_in_them():
    """One product changes in both loops, one only in the outer, one in neither."""

    def function(x, a, b):
        def outer(_, x):
            return jax.lax.fori_loop(0, 5, lambda _, y: y @ B[:8] + a @ b, (x @ x).T)

        return jax.lax.fori_loop(0, 3, outer, x)

    square = np.ones((8, 8), np.float32)
    assert counted(function, square, A[:8], B) == {(8, 8, 8): 3 * 5 + 3, (8, 32, 8): 1}


def test_what_a_loop_carries_for_nobody_is_not_counted():
    def body(carry, row):
        used, unused, helps = carry
        return (used + helps @ B, unused @ B @ B.T, helps + row[None]), unused

    def function(rows):
        start = jnp.zeros((16, 8)), jnp.asarray(A), jnp.asarray(A)
        return jax.lax.scan(body, start, rows)[0][0]

    assert counted(function, np.ones((6, 32), np.float32)) == {(16, 32, 8): 6}


def test_a_loop_of_unknown_length_counts_once():
    def function(x):
        return jax.lax.while_loop(lambda y: jnp.sum(y @ B) < 9.0, lambda y: y @ B @ B.T, x)

    assert counted(function, A) == {(16, 32, 8): 1, (16, 8, 32): 1}


def test_of_two_branches_the_heavier_one_counts():
    def function(x, b):
        return jax.lax.cond(x[0, 0] > 0, lambda: x @ b, lambda: x @ (b @ b.T) @ b)

    assert counted(function, A, B) == {(32, 8, 32): 1, (16, 32, 32): 1, (16, 32, 8): 1}


@pytest.mark.parametrize("wrapped", [jax.jit, jax.checkpoint, jax.custom_jvp, jax.custom_vjp])
def test_calls_are_entered(wrapped):
    def multiply(a, b):
        return a @ b

    function = wrapped(multiply)
    if wrapped is jax.custom_jvp:
        function.defjvps(lambda t, out, a, b: t @ b, lambda t, out, a, b: a @ t)
    if wrapped is jax.custom_vjp:
        function.defvjp(lambda a, b: (a @ b, (a, b)), lambda saved, g: (g @ B.T, A.T @ g))
    assert counted(function, A, B) == {(16, 32, 8): 1}
    products = traced_products(jax.grad(lambda a, b: jnp.sum(function(a, b) ** 2)), A, B)
    assert {(p.use, p.rows, p.inner, p.columns) for p in products} >= {
        ("forward", 16, 32, 8), ("gradient", 16, 8, 32)
    }  # fmt: skip


def history(update, state, updates):
    states = [state]
    for index in range(updates):
        states.append(jax.tree.map(np.array, update(states[-1], index)))
    return states


@pytest.mark.parametrize(
    ("optimiser", "numbers"),
    [(adam(0.1), 7), (optax.sgd(0.1), 3), (optax.sgd(0.1, momentum=0.9), 5)],
)
def test_bytes_by_what_an_update_does(optimiser, numbers):
    """Ten parameters trained by two steps an update, of which sgd keeps no count; four numbers of
    a copy that moves in one of three; two that never do; a scalar, which is free.
    """
    state = {
        "trained": start_training(jnp.ones(10), optimiser), "copy": np.ones(4),
        "still": np.ones(2), "count": np.zeros(()),
    }  # fmt: skip

    def update(state, index):
        trained = state["trained"]
        for _ in range(2):
            trained, _ = descend(lambda x: (jnp.sum(x**2), None), trained, optimiser)
        copy = state["copy"] * (2.0 if index % 3 == 0 else 1.0)
        return {**state, "trained": trained, "copy": copy, "count": state["count"] + 1}

    steps = 2 if numbers == 7 else 1
    moved = moved_bytes(history(update, jax.tree.map(np.array, state), 6))
    assert moved == {"optimiser": steps * numbers * 10 * 4, "targets": 3 * 4 * 8 // 3}
    assert isinstance(state["trained"], Trained)


def test_the_ratio_is_that_of_the_measured_times(monkeypatch):
    monkeypatch.setattr(timing, "ROUNDS", 1)
    monkeypatch.setattr(timing, "PIECE_SECONDS", 1e-4)
    monkeypatch.setattr(learners, "hopper_config", lambda algorithm: SACLagConfig(hidden=(16, 16)))
    found = measure_update("sac-lag", 12)
    assert (found["batch_size"], found["updates_per_call"]) == (12, 10)
    products = sum(p["times"] * p["best_seconds"] for p in found["products"])
    assert found["products_seconds"] == pytest.approx(products)
    moved = sum(found["bytes"].values()) / found["copy_bytes_per_second"]
    assert found["bytes_seconds"] == pytest.approx(moved)
    ratio = (products + moved) * found["updates_per_second"]
    assert found["roofline_ratio"] == pytest.approx(ratio)
    assert 1.0 / found["roofline_updates_per_second"] == pytest.approx(products + moved)
    assert set(found["products"][0]) == {
        "use", "rows", "inner", "columns", "times", "best_seconds"
    }  # fmt: skip


@pytest.fixture
def measured(monkeypatch):
    def measure_update(algorithm, batch):
        return {"batch_size": batch, "updates_per_second": 6000 / batch, "roofline_ratio": 0.75}

    step = {"environment_steps_per_second": 5000.0, "outside_share": 0.025}
    begin = {
        "warm_start_seconds": 2.5, "cold_start_seconds": 9.0, "resident_memory_bytes": 2**29
    }  # fmt: skip
    monkeypatch.setattr(learners, "measure_update", measure_update)
    monkeypatch.setattr(learners, "measure_step", lambda algorithm: step)
    monkeypatch.setattr(start, "measure_start", lambda: begin)
    return step | begin


def test_what_is_printed(measured, capsys):
    report_updates(BenchOptions())
    assert capsys.readouterr().out == (
        "batch 12: 500 updates/s, 0.75 of the roofline\n"
        "batch 256: 23 updates/s, 0.75 of the roofline\n"
        "environment 5000 steps/s; one step outside its updates adds 2.5% to ten updates\n"
        "first update after 2.5 s (9.0 s with nothing compiled yet); 512 MiB with a full replay\n"
    )


def test_what_is_written_as_json(measured, capsys):
    report_updates(BenchOptions(algorithm="wcsac", batch_sizes=(12,), json=True))
    first = {"updates_per_second": 500.0, "roofline_ratio": 0.75}
    assert json.loads(capsys.readouterr().out) == {
        **first, "algorithm": "wcsac", "updates": [{"batch_size": 12, **first}], **measured
    }  # fmt: skip


def test_one_action_for_each_way_to_load(monkeypatch, capsys):
    monkeypatch.setattr(timing, "ROUNDS", 2)
    monkeypatch.setattr(timing, "PIECE_SECONDS", 1e-3)
    usable = os.sched_getaffinity(0)
    try:
        main(["--policy", "--json"])
    finally:
        os.sched_setaffinity(0, usable)
    found = json.loads(capsys.readouterr().out)
    assert found["sizes"] == [11, 256, 256, 3]
    ways = {way.pop("loaded_by"): way for way in found["policies"]}
    assert list(ways) == ["load", "load_exported .safetensors", "load_exported .onnx"]
    for way in ways.values():
        assert way["products_ratio"] == pytest.approx(found["products_seconds"] / way["seconds"])


def test_an_unknown_algorithm_is_refused():
    with pytest.raises(ValueError, match="no algorithm 'fly'; there is: cal, "):
        main(["--algorithm", "fly"])


def test_help_does_not_import_jax():
    code = (
        "import sys\nfrom prudent.bench import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
