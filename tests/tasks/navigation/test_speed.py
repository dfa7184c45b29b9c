import gymnasium
import numpy as np
import pytest
from navigation.golden import make

from prudent.tasks.navigation.speed import bare_physics_steps_per_second


@pytest.mark.parametrize("name", ["Prudent/CarButton1-v0", "Hopper-v5"])
def test_measures_any_mujoco_environment(name):
    env = gymnasium.make(name)
    env.reset(seed=0)
    assert bare_physics_steps_per_second(env, steps=20) > 0.0
    env.close()


def test_the_environment_can_be_used_on():
    env = make("PointButton1")
    env.reset()
    bare_physics_steps_per_second(env, steps=20)
    first, _ = env.reset()
    np.testing.assert_array_equal(first, make("PointButton1").reset()[0])
