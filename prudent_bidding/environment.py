"""Gymnasium environments over the simulator's kernel: an episode is an advertiser's day.

The action is k; the reward is the pay as a share of the day's budget; `info["cost"]` is, unless
another form is asked for, the deficit (target * pay - GMV) / (target * budget), whose sum over a
day is at most 0 where the target is met. The week's ledger and the track record are empty when a
day begins. An observation after the last record is of the end of the day.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from prudent_bidding.day import advertisers_of, executed, new_accounts
from prudent_bidding.forms import FORMS
from prudent_bidding.kernel import Records, draw_records, settle
from prudent_bidding.observation import Account, observe
from prudent_bidding.population import make_week
from prudent_bidding.schema import DAYS, K_HIGH, K_LOW, OBSERVATION_SIZE
from prudent_bidding.traffic import day_volume
from prudent_bidding.world import preset

ID = "Prudent/BiddingDay-v0"
OBSERVATIONS = Box(-np.inf, np.inf, (OBSERVATION_SIZE,), np.float32)
ACTIONS = Box(K_LOW, K_HIGH, (1,), np.float32)


class Step(NamedTuple):
    """[N] each."""

    reward: np.ndarray
    terminated: np.ndarray
    infos: dict[str, np.ndarray]


class Days:
    """Advertiser-days under way, [N] each, of any advertiser or of one, by its slot."""

    records: Records  # those that have arrived

    def __init__(
        self, count: int, world: str, world_seed: int, week: int, cost: str, slot: int | None = None
    ) -> None:
        if cost not in FORMS:
            raise ValueError(f"no cost named {cost!r}; there is: {', '.join(FORMS)}")
        if not isinstance(week, int | np.integer) or week < 0:
            raise ValueError(f"no week {week}; weeks are whole numbers from 0")
        self.week = make_week(preset(world), world_seed, int(week))
        advertisers = self.week.world.advertisers
        known = isinstance(slot, int | np.integer) and 0 <= slot < advertisers
        if slot is not None and not known:
            raise ValueError(f"no advertiser {slot}; there are 0 to {advertisers - 1}")
        self.named, self.step_cost = slot, FORMS[cost].step_cost  # type: ignore[index]
        self.slot, self.day, self.volume = np.zeros((3, count), np.int64)
        self.accounts = new_accounts(count, self.week.world)

    def begin(self, where: np.ndarray, generator: np.random.Generator) -> None:
        """Days at random in these places."""
        week = self.week
        slots = generator.integers(week.world.advertisers, size=len(where))
        self.slot[where] = slots if self.named is None else self.named
        self.day[where] = generator.integers(DAYS, size=len(where))
        volume = week.advertisers.volume[self.slot]
        for day in range(DAYS):
            on_this = where[self.day[where] == day]
            self.volume[on_this] = day_volume(volume[on_this], day, week.world)
        for column in self.accounts:
            if column is not None:
                column[where] = 0

    def arrive(self, generator: np.random.Generator) -> np.ndarray:
        """The next record of each; returns what is observed, f32[N, OBSERVATION_SIZE]."""
        accounts, count = self.accounts, len(self.slot)
        share = np.minimum((accounts.records + generator.random(count)) / self.volume, 1.0)
        no_shift = np.zeros(self.week.world.categories)
        self.records = draw_records(self.week, self.slot, share, no_shift, generator)
        gmv = accounts.shown_gmv(np.arange(count), self.records.hour)
        account = Account(accounts.pay, gmv, *np.zeros((4, count)))
        advertisers = advertisers_of(self.week, self.slot)
        return observe(advertisers, self.records.moment(self.day), account)

    def bid(self, action: np.ndarray, generator: np.random.Generator) -> Step:
        """One record of each day is bid on; accounts are changed."""
        if not self.volume.all():
            raise ResetNeeded("no day has begun; call reset() before step()")
        k = np.asarray(action, np.float32).reshape(len(self.slot))
        if not np.isfinite(k).all():
            at = np.flatnonzero(~np.isfinite(k))[0]
            raise ValueError(
                f"the action is {k[at]} in environment {at}; k must be a finite number"
            )
        k = executed(k).astype(np.float32)
        week, accounts, budget = self.week, self.accounts, self.week.budget[self.slot]
        people = week.advertisers
        category, roi = people.category[self.slot], np.exp(people.log_roi[self.slot])
        remaining = budget - accounts.pay
        outcome = settle(week.world, self.records, category, k, remaining, generator)
        accounts.enter(np.arange(len(k)), outcome)
        reward = outcome.pay / budget
        # Both as shares of what the target makes of the day's budget, so target and budget are 1.
        infos = {
            "cost": self.step_cost(reward, outcome.gmv / (roi * budget), 1.0, 1.0),
            "gmv": outcome.gmv,
            "pay": outcome.pay,
            "wins": outcome.win,
            "conv": outcome.conv,
            "bid": np.exp(self.records.log_fair + np.log(k)),
            "expected_gmv": outcome.expected_gmv,
        }
        spent = accounts.pay >= week.world.spent_share * budget
        return Step(reward, spent | (accounts.records >= self.volume), infos)


class OCPMEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """One advertiser's day; a new advertiser every episode unless one is named by its slot."""

    metadata = {"render_modes": []}  # noqa: RUF012
    observation_space, action_space = OBSERVATIONS, ACTIONS

    def __init__(
        self,
        world: str = "small",
        world_seed: int = 0,
        week: int = 0,
        advertiser: int | None = None,
        cost: str = "deficit",
        render_mode: str | None = None,
    ) -> None:
        self.render_mode = render_mode
        self._days = Days(1, world, world_seed, week, cost, advertiser)
        self.week = self._days.week

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._days.begin(np.zeros(1, np.int64), self.np_random)
        observation = self._days.arrive(self.np_random)[0]
        return observation, {"advertiser": int(self._days.slot[0])}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        step = self._days.bid(action, self.np_random)
        observation = self._days.arrive(self.np_random)[0]
        info = {name: value[0].item() for name, value in step.infos.items()}
        return observation, float(step.reward[0]), bool(step.terminated[0]), False, info


class OCPMVectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Many advertiser-days at once. A day that has ended is begun anew at the next step."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}  # noqa: RUF012
    single_observation_space, single_action_space = OBSERVATIONS, ACTIONS

    def __init__(
        self,
        num_envs: int,
        world: str = "small",
        world_seed: int = 0,
        week: int = 0,
        cost: str = "deficit",
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs is {num_envs}; at least 1 is needed")
        self.num_envs = num_envs
        self._days = Days(num_envs, world, world_seed, week, cost)
        self.observation_space = batch_space(OBSERVATIONS, num_envs)
        self.action_space = batch_space(ACTIONS, num_envs)
        self._ended = np.zeros(num_envs, bool)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if seed is not None and not isinstance(seed, int | np.integer):
            raise ValueError("one seed is needed: the days draw from one stream of numbers")
        super().reset(seed=seed)
        self._days.begin(np.arange(self.num_envs), self.np_random)
        self._ended[:] = False
        observations = self._days.arrive(self.np_random)
        return observations, {"advertiser": self._days.slot.copy()}

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        step = self._days.bid(actions, self.np_random)
        again = np.flatnonzero(self._ended)
        if len(again):  # what was bid there has no meaning
            self._days.begin(again, self.np_random)
            for values in (step.reward, step.terminated, *step.infos.values()):
                values[again] = 0
        self._ended = step.terminated.copy()
        observations = self._days.arrive(self.np_random)
        never = np.zeros(self.num_envs, bool)
        return observations, step.reward, step.terminated, never, step.infos


def make_single(**options: Any) -> OCPMEnv:
    return OCPMEnv(**options)


def make_vector(num_envs: int = 1, **options: Any) -> OCPMVectorEnv:
    return OCPMVectorEnv(num_envs, **options)


if ID not in gymnasium.registry:
    gymnasium.register(ID, entry_point=make_single, vector_entry_point=make_vector)
