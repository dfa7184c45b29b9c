"""How much better than expected: by hand."""

import jax.numpy as jnp
import numpy as np

from prudent.pieces.advantages import centred, generalised_advantages, standardised


def column(*numbers):
    return jnp.array(numbers, float)[:, None]


def advantages(continues, ends):
    """Signals 1, 2, 3; V(s) = 10, 20, 30; V(s') = 20, 30, 40; γ = 0.5, τ = 0.5."""
    found = generalised_advantages(
        column(1, 2, 3), column(10, 20, 30), column(20, 30, 40), continues, ends, (0.5, 0.5)
    )
    return found[:, 0].tolist()


def test_advantages_bootstrap_at_the_epochs_cut():
    # δ = 1 + 10 - 10, 2 + 15 - 20, 3 + 20 - 30; each takes a quarter of the next.
    assert advantages(column(1, 1, 1), column(0, 0, 1)) == [1 - 4.75 / 4, -3 - 7 / 4, -7]


def test_advantages_after_termination():
    # The second step ends the world: δ = 2 - 20, and the third is another episode's.
    assert advantages(column(1, 0, 1), column(0, 1, 1)) == [1 - 18 / 4, -18, -7]


def test_advantages_after_truncation():
    # The second step is cut: its δ still looks ahead, but the third step does not reach it.
    assert advantages(column(1, 1, 1), column(0, 1, 1)) == [1 - 3 / 4, -3, -7]


def test_advantages_where_only_one_signal_ends():
    # A goal ends the reward's future although the episode goes on.
    assert advantages(column(1, 0, 1), column(0, 0, 1)) == [1 - 18 / 4, -18, -7]


def test_environments_do_not_mix():
    pair = jnp.array([[1.0, 5.0], [2.0, 6.0]])
    zeros, ones = jnp.zeros_like(pair), jnp.ones_like(pair)
    ends = jnp.array([[0.0, 1.0], [1.0, 1.0]])
    found = generalised_advantages(pair, zeros, zeros, ones, ends, (1.0, 1.0))
    np.testing.assert_allclose(found, [[3.0, 5.0], [2.0, 6.0]])


def test_standardised_and_centred():
    np.testing.assert_allclose(centred(jnp.array([1.0, 3.0])), [-1.0, 1.0])
    np.testing.assert_allclose(standardised(jnp.array([1.0, 5.0])), [-1.0, 1.0], rtol=1e-6)
