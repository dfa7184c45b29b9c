"""Presets, defaults, tasks and constants against the table in `tests/golden/presets.json`."""

import json
import math

import golden_settings
import jax
import numpy as np
import pytest

from prudent.pieces.networks import STYLES, mlp

TABLE = json.loads(golden_settings.FILE.read_text())


@pytest.mark.parametrize("part", ["defaults", "first_presets", "presets", "tasks", "constants"])
def test_nothing_differs_from_the_table(part):
    """`python tests/golden_settings.py` writes it anew where a change is meant."""
    found, known = getattr(golden_settings, part)(), TABLE[part]
    assert list(found) == list(known)
    for name, value in found.items():
        assert value == known[name], name
        if isinstance(value, dict):
            assert list(value) == list(known[name]), name  # also in the order they are shown in


# Standard deviations that the initial weights of a layer of 200 inputs and 300 outputs have, and
# the largest of them where there is one.
DEVIATIONS = {
    "relu-xavier": (math.sqrt(6 / 500) / math.sqrt(3), math.sqrt(6 / 500)),
    "relu-xavier-normal": (math.sqrt(2 / 500), math.inf),
    "silu-normal": (0.5 / math.sqrt(200), math.inf),
    "tanh-uniform": (1 / math.sqrt(200) / math.sqrt(3), 1 / math.sqrt(200)),
    "tanh-uniform-small": (1 / math.sqrt(200) / math.sqrt(3), 1 / math.sqrt(200)),
}


@pytest.mark.parametrize("style", DEVIATIONS)
def test_initial_weights_have_their_deviation(style):
    deviation, largest = DEVIATIONS[style]
    first, last = mlp((200, 300, 200), STYLES[style]).init(jax.random.key(0))
    weight = np.asarray(first["weight"])
    assert weight.std() == pytest.approx(deviation, rel=0.02)
    assert abs(weight.mean()) < 0.02 * deviation
    assert np.abs(weight).max() <= largest
    if style.startswith("tanh"):
        assert np.asarray(first["bias"]).std() == pytest.approx(deviation, rel=0.15)
        shrunk = 0.1 if style.endswith("small") else 1.0
        expected = shrunk / math.sqrt(300) / math.sqrt(3)
        assert np.asarray(last["weight"]).std() == pytest.approx(expected, rel=0.02)
        assert bool(np.any(last["bias"])) == (shrunk == 1.0)
    else:
        assert not np.any(first["bias"])
