"""What this core could do at best, measured in the same run as the update it is held against.

The roofline is the best BLAS time of every matrix product that one update needs, plus the bytes the
optimisers and the target copies must move over the measured copy bandwidth. Nothing else
(activations, losses, random numbers, dispatch) is granted any time, so a ratio of 1 cannot be
reached by plain means.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from prudent.bench.products import Product
from prudent.bench.timing import best_in_turns, best_seconds


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
