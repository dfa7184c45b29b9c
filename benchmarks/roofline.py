"""How near an off-policy learner's update comes to what this core could do at best.

    python benchmarks/roofline.py [ALGORITHM] [--batch-sizes 12 256] [--json]

The roofline is the best BLAS time of every matrix product that one update needs, plus the time for
the bytes that the optimisers and the target copies must move, at the measured copy bandwidth. It is
measured in the same run as the update. Activations, losses, random numbers and dispatch are granted
no time, so a ratio of 1 cannot be reached by plain means.
"""

import argparse
import json
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from prudent.backend import ONE_THREAD

os.environ.update({**ONE_THREAD, **os.environ})

import jax
import numpy as np
from products import Product, traced_products
from threadpoolctl import threadpool_limits
from traffic import moved_bytes

from prudent.bench.hopper import hopper_config
from prudent.bench.learners import Subject, subject_for, updating
from prudent.bench.timing import best_in_turns, best_seconds

WATCHED = 12  # updates, among which one in 2, 3, 4 or 6 is counted exactly


def needed_products(subject: Subject) -> list[Product]:
    """Of one update."""
    state, rows = jax.eval_shape(subject.init), subject.rows[:1]
    return traced_products(lambda state, rows: subject.update(state, rows, 0), state, rows)


def needed_bytes(subject: Subject) -> dict[str, int]:
    """Of one update, on average over those watched."""
    state, history = subject.init(), []
    for index in range(WATCHED + 1):
        # Copies, since an update is free to reuse what it is given.
        history.append(jax.tree.map(np.array, state))
        state = subject.update(state, subject.rows[:1], index)
    return moved_bytes(history)


def measure(algorithm: str, batch: int) -> dict[str, Any]:
    subject = subject_for(algorithm, hopper_config(algorithm), batch)
    products, moved = needed_products(subject), needed_bytes(subject)
    found = against_roofline(updating(subject), len(subject.rows), products, moved)
    return {"batch_size": batch, "updates_per_call": len(subject.rows), **found}


def against_roofline(
    call: Callable[[], object], updates: int, products: list[Product], moved: dict[str, int]
) -> dict[str, Any]:
    """A call that makes so many updates, each in need of these products and bytes."""
    # All that the optimisers touch: gradients, parameters, two moments.
    copied = moved["optimiser"] * 4 // 7
    with threadpool_limits(1):
        multiplying = [product_in_best_order(product) for product in products]
        calling, copying, *best = best_in_turns([call, a_copy(copied), *multiplying])
    seconds, bandwidth = calling / updates, copied / copying
    product_time = sum(b * p.times for b, p in zip(best, products, strict=True))
    byte_time = sum(moved.values()) / bandwidth
    return {
        "updates_per_second": 1.0 / seconds,
        "roofline_ratio": (product_time + byte_time) / seconds,
        "roofline_updates_per_second": 1.0 / (product_time + byte_time),
        "products_seconds": product_time,
        "bytes_seconds": byte_time,
        "bytes": moved,
        "copy_bytes_per_second": bandwidth,
        "products": [
            {**p._asdict(), "best_seconds": b} for p, b in zip(products, best, strict=True)
        ],
    }


def product_in_best_order(product: Product) -> Callable[[], object]:
    """The product on the operand layout that BLAS is fastest with, or transposed."""
    generator = np.random.default_rng(0)
    a = generator.normal(size=(product.rows, product.inner)).astype(np.float32)
    b = generator.normal(size=(product.inner, product.columns)).astype(np.float32)
    out = np.empty((product.rows, product.columns), np.float32)
    orders = [
        partial(np.matmul, left, right, out=result)
        for left in (a, np.asfortranarray(a))
        for right in (b, np.asfortranarray(b))
        for result in (out, np.asfortranarray(out))
    ]
    if product.inner == 1:  # an outer product, which BLAS does badly
        orders.append(partial(np.multiply, a, b, out=out))
    return min(orders, key=lambda order: best_seconds(order, 50))


def a_copy(total_bytes: int) -> Callable[[], object]:
    """Between two arrays that together are this large."""
    source = np.ones(total_bytes // 8, np.float32)
    return partial(np.copyto, np.empty_like(source), source)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("algorithm", nargs="?", default="cal")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[12, 256])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for batch in options.batch_sizes:
        found = measure(options.algorithm, batch)
        if options.json:
            print(json.dumps(found), flush=True)
        else:
            print(
                f"batch {batch}: {found['updates_per_second']:.0f} updates/s, "
                f"{found['roofline_ratio']:.2f} of the roofline",
                flush=True,
            )


if __name__ == "__main__":
    main()
