"""The task: what its docstring promises, and that TD3-Lag comes to its known optimum."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from prudent_td3.pump import BUDGET, HORIZON, Pump, best_return, delivered

import prudent


def episode(wanted, seed=0):
    """Return and cost where `wanted` power is told at every step."""
    env = Pump()
    env.reset(seed=seed)
    steps = [env.step(np.array([wanted])) for _ in range(HORIZON)]
    return sum(step[1] for step in steps), sum(step[4]["cost"] for step in steps)


@pytest.mark.filterwarnings("ignore")  # of what the checker would have otherwise
def test_it_is_a_gymnasium_environment():
    check_env(Pump(render_mode="rgb_array"))


def test_the_motor_follows_half_of_the_way():
    env = Pump()
    (power,), _ = env.reset(seed=4)
    (after,), reward, _, _, info = env.step(np.array([2.0]))
    assert after == pytest.approx((power + 2.0) / 2)
    assert reward == pytest.approx(2 * after - after**2)
    assert info["cost"] == after


def test_constant_power_is_best_and_nothing_beats_the_bound():
    assert best_return(BUDGET) == pytest.approx(50 * (2 * 0.4 - 0.4**2))
    total, cost = episode(BUDGET / HORIZON)
    assert total == pytest.approx(HORIZON * delivered(cost / HORIZON), rel=0.01)
    for wanted in np.linspace(0.0, 2.0, 21):
        total, cost = episode(wanted)
        assert total <= best_return(cost) + 1e-9


@pytest.mark.slow
def test_td3_lag_comes_to_the_known_optimum(tmp_path):
    last = []
    result = prudent.train(
        "td3-lag", task="pump", out=tmp_path / "run", quiet=True, callbacks=[last.append]
    )
    assert result.evaluation["cost"] == pytest.approx(BUDGET, rel=0.1)
    assert result.evaluation["return"] > 0.95 * best_return(result.evaluation["cost"])
    assert last[-1]["training"]["multiplier"] == pytest.approx(2 - 2 * 0.4, abs=0.25)
