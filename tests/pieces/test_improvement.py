"""Minibatches of an epoch: every row once, in every order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prudent.pieces.improvement import minibatches, shuffled
from prudent.pieces.on_policy import Samples


def numbered(rows):
    column = jnp.arange(float(rows))
    return Samples(*([column] * 8), weight=jnp.ones(rows))


def test_minibatches_hold_every_row_once():
    order = jnp.asarray([3, 1, 4, 0, 5, 9, 2, 6, 8, 7])
    found = minibatches(numbered(10), order, 4)
    assert found.action.shape == (3, 4)
    assert float(found.weight.sum()) == 10.0
    assert found.action[found.weight == 1.0].tolist() == order.tolist()


@pytest.mark.parametrize("rows", [1, 2, 64, 1000])
def test_every_order_of_the_rows_is_drawn(rows):
    lots = jax.random.bits(jax.random.key(1), (2000, rows), jnp.uint32)
    found = np.asarray(jax.vmap(shuffled, in_axes=(None, 0))(jnp.arange(rows), lots))
    assert (np.sort(found) == np.arange(rows)).all()
    # Each place holds each row equally often: the mean of 2000 draws, within five deviations.
    deviation = np.sqrt((rows**2 - 1) / 12 / 2000)
    assert np.abs(found.mean(axis=0) - (rows - 1) / 2).max() <= 5 * deviation


def test_equal_lots_keep_the_order_before():
    order = jnp.asarray([2, 0, 1])
    assert shuffled(order, jnp.zeros(3, jnp.uint32)).tolist() == [2, 0, 1]
    # The last two bits of a lot are the index's, those before them decide.
    assert shuffled(order, jnp.asarray([8, 7, 4], jnp.uint32)).tolist() == [0, 1, 2]
