"""Environments as strangers write them, made by name for the command line."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box


class Walk(gymnasium.Env):
    """Steps of a point on a line; where it begins depends on the seed. Never ends by itself."""

    observation_space = Box(-2.0, 2.0, (2,), np.float32)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self):
        self.mixed = 0  # resets while another episode was in progress
        self.time = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.mixed += 0 < self.time < 10
        self.time, self.place = 0, self.np_random.uniform(-0.5, 0.5)
        return np.array([self.place, 0.0], np.float32), {}

    def step(self, action):
        self.time += 1
        self.place = float(np.clip(self.place + 0.1 * action[0], -1.0, 1.0))
        seen = np.array([self.place, self.time / 10], np.float32)
        info = {"cost": abs(self.place), "speed": 0.5}
        return seen, self.place, False, self.time >= 10, info


def make():
    return Walk()


THE_ONE = Walk()


def the_same():
    return THE_ONE


class Broken(Walk):
    """Misbehaves at its third step, or in its reset."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed)
        return {"no tuple": result[0], "None": None, "three": (*result, 1)}.get(self.how, result)

    def step(self, action):
        seen, reward, terminated, truncated, info = super().step(action)
        if self.time < 3:
            return seen, reward, terminated, truncated, info
        if self.how == "raises":
            raise KeyError("sensor")
        return {
            "four": (seen, reward, truncated, info),
            "nothing": None,
            "text": (seen, "much", terminated, truncated, info),
            "several": (seen, np.ones(3), terminated, truncated, info),
            "no cost": (seen, reward, terminated, truncated, {}),
            "half": (seen, reward, terminated, truncated, {**info, "cost_continues": 0.5}),
            "shape": (np.zeros(5), reward, terminated, truncated, info),
            "not finite": (seen * np.nan, reward, terminated, truncated, info),
            "infinite": (seen, np.inf, terminated, truncated, info),
            "info": (seen, reward, terminated, truncated, None),
        }.get(self.how, (seen, reward, terminated, truncated, info))


WAYS = (
    *("no tuple", "None", "three", "four", "nothing", "text", "several", "no cost", "half"),
    *("shape", "not finite", "infinite", "info", "raises"),
)


def broken_one(how):
    return lambda: Broken(how)


globals().update({f"broken_{how.replace(' ', '_')}": broken_one(how) for how in WAYS})
