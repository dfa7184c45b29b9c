"""Gymnasium environments over the simulator's kernel: an episode is an advertiser's day.

The action is k; the reward is the pay as a share of the day's budget; `info["cost"]` is, unless
another form is asked for, the deficit (target * pay - GMV) / (target * budget), whose sum over a
day is at most 0 where the target is met. The week's ledger and the track record are empty when a
day begins. An observation after the last record is of the end of the day.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from prudent_bidding.day import executed
from prudent_bidding.forms import FORMS, FormName
from prudent_bidding.kernel import Outcome, Records, draw_records, settle
from prudent_bidding.observation import Account, Advertiser, observe
from prudent_bidding.population import Week, make_week
from prudent_bidding.schema import DAYS, K_HIGH, K_LOW, OBSERVATION_SIZE
from prudent_bidding.traffic import day_volume
from prudent_bidding.world import preset

ID = "Prudent/BiddingDay-v0"


class Days(NamedTuple):
    """Advertiser-days under way, [N] each. The arrays change as the days go on."""

    slot: np.ndarray
    day: np.ndarray
    volume: np.ndarray  # planned records
    t: np.ndarray  # records so far
    pay: np.ndarray
    gmv: np.ndarray
    pending: np.ndarray  # [N, 25], GMV by the hour from which it shows; `seen` in the rows
    records: Records  # those that have arrived


class Step(NamedTuple):
    outcome: Outcome
    k: np.ndarray
    reward: np.ndarray
    cost: np.ndarray
    terminated: np.ndarray


def empty_days(count: int) -> Days:
    slot, day, volume, t = np.zeros((4, count), np.int64)
    pay, gmv = np.zeros((2, count))
    nothing_yet = Records(*[np.zeros(count, np.float32)] * len(Records._fields))
    return Days(slot, day, volume, t, pay, gmv, np.zeros((count, 25)), nothing_yet)


def begin(
    week: Week, days: Days, where: np.ndarray, slot: int | None, generator: np.random.Generator
) -> None:
    """Days of advertisers and weekdays at random in these places, or of one advertiser."""
    count = len(where)
    slots = generator.integers(week.world.advertisers, size=count)
    days.slot[where] = slots if slot is None else slot
    days.day[where] = generator.integers(DAYS, size=count)
    volume = week.advertisers.volume[days.slot]
    for day in range(DAYS):
        on_this = where[days.day[where] == day]
        days.volume[on_this] = day_volume(volume[on_this], day, week.world)
    for column in (days.t, days.pay, days.gmv, days.pending):
        column[where] = 0


def arrive(week: Week, days: Days, generator: np.random.Generator) -> Days:
    """The next record of each."""
    share = np.minimum((days.t + generator.random(len(days.t))) / days.volume, 1.0)
    no_shift = np.zeros(week.world.categories)
    return days._replace(records=draw_records(week, days.slot, share, no_shift, generator))


def look(week: Week, days: Days) -> np.ndarray:
    """f32[N, OBSERVATION_SIZE]."""
    people = week.advertisers
    category = week.structure.category[people.category[days.slot]].astype(np.float32)
    advertiser = Advertiser(
        people.log_roi[days.slot].astype(np.float32),
        week.budget[days.slot],
        category,
        people.ad[days.slot].astype(np.float32),
    )
    gmv = days.gmv
    if week.world.delay_hours:
        shows = np.arange(24)[None] <= days.records.hour[:, None]
        gmv = (days.pending[:, :24] * shows).sum(axis=1)
    nothing = np.zeros(len(gmv))
    account = Account(days.pay, gmv, *[nothing] * 4)
    return observe(advertiser, days.records.moment(days.day), account)


def bid(
    week: Week, days: Days, k: np.ndarray, form: FormName, generator: np.random.Generator
) -> Step:
    """One record of each day is bid on; accounts are changed."""
    executed_k = executed(k)
    budget = week.budget[days.slot]
    category, roi = week.advertisers.category[days.slot], week.advertisers.log_roi[days.slot]
    outcome = settle(
        week.world,
        days.records,
        category,
        executed_k.astype(np.float32),
        budget - days.pay,
        generator,
    )
    days.pay[:] += outcome.pay
    days.gmv[:] += outcome.gmv
    days.t[:] += 1
    if week.world.delay_hours:
        days.pending[np.arange(len(k)), outcome.seen] += outcome.gmv
    reward = outcome.pay / budget
    # Both as shares of what the target makes of the day's budget, so target and budget are 1.
    cost = FORMS[form].step_cost(reward, outcome.gmv / (np.exp(roi) * budget), 1.0, 1.0)
    spent = days.pay >= week.world.spent_share * budget
    return Step(outcome, executed_k, reward, cost, spent | (days.t >= days.volume))


def report(days: Days, step: Step) -> dict[str, np.ndarray]:
    outcome = step.outcome
    log_bid = days.records.log_fair + np.log(step.k.astype(np.float32))
    return {
        "cost": step.cost,
        "gmv": outcome.gmv,
        "pay": outcome.pay,
        "wins": outcome.win,
        "conv": outcome.conv,
        "bid": np.exp(log_bid),
        "expected_gmv": outcome.expected_gmv,
    }


def checked_form(form: str) -> FormName:
    if form not in FORMS:
        raise ValueError(f"no cost named {form!r}; there is: {', '.join(FORMS)}")
    return cast("FormName", form)


def checked_week(week: int) -> int:
    if not isinstance(week, int | np.integer) or week < 0:
        raise ValueError(f"no week {week}; weeks are whole numbers from 0")
    return int(week)


def checked_k(action: np.ndarray, count: int) -> np.ndarray:
    """[N]. What is no number would be told of far from here, by the dice of the market."""
    k = np.asarray(action, np.float32).reshape(count)
    if not np.isfinite(k).all():
        at = np.flatnonzero(~np.isfinite(k))[0]
        raise ValueError(f"the action is {k[at]} in environment {at}; k must be a finite number")
    return k


def check_begun(days: Days) -> None:
    if not days.volume.all():
        raise ResetNeeded("no day has begun; call reset() before step()")


class OCPMEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """One advertiser's day; a new advertiser every episode unless one is named by its slot."""

    metadata = {"render_modes": []}  # noqa: RUF012

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
        self.week = make_week(preset(world), world_seed, checked_week(week))
        count = self.week.world.advertisers
        known = isinstance(advertiser, int | np.integer) and 0 <= advertiser < count
        if advertiser is not None and not known:
            raise ValueError(f"no advertiser {advertiser}; there are 0 to {count - 1}")
        self.advertiser, self.cost = advertiser, checked_form(cost)
        self.observation_space = Box(-np.inf, np.inf, (OBSERVATION_SIZE,), np.float32)
        self.action_space = Box(K_LOW, K_HIGH, (1,), np.float32)
        self._days = empty_days(1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        begin(self.week, self._days, np.zeros(1, np.int64), self.advertiser, self.np_random)
        self._days = arrive(self.week, self._days, self.np_random)
        return look(self.week, self._days)[0], {"advertiser": int(self._days.slot[0])}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        check_begun(self._days)
        k = checked_k(action, 1)
        step = bid(self.week, self._days, k, self.cost, self.np_random)
        infos = report(self._days, step)
        self._days = arrive(self.week, self._days, self.np_random)
        info = {name: value[0].item() for name, value in infos.items()}
        observation = look(self.week, self._days)[0]
        return observation, float(step.reward[0]), bool(step.terminated[0]), False, info


class OCPMVectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Many advertiser-days at once. A day that has ended is begun anew at the next step."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}  # noqa: RUF012

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
        self.num_envs, self.cost = num_envs, checked_form(cost)
        self.week = make_week(preset(world), world_seed, checked_week(week))
        self.single_observation_space = Box(-np.inf, np.inf, (OBSERVATION_SIZE,), np.float32)
        self.single_action_space = Box(K_LOW, K_HIGH, (1,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._days = empty_days(num_envs)
        self._ended = np.zeros(num_envs, bool)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if seed is not None and not isinstance(seed, int | np.integer):
            raise ValueError("one seed is needed: the days draw from one stream of numbers")
        super().reset(seed=seed)
        begin(self.week, self._days, np.arange(self.num_envs), None, self.np_random)
        self._ended[:] = False
        self._days = arrive(self.week, self._days, self.np_random)
        return look(self.week, self._days), {"advertiser": self._days.slot.copy()}

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        check_begun(self._days)
        k = checked_k(actions, self.num_envs)
        step = bid(self.week, self._days, k, self.cost, self.np_random)
        infos = report(self._days, step)
        reward, terminated = step.reward, step.terminated
        again = np.flatnonzero(self._ended)
        if len(again):  # what was bid there has no meaning
            begin(self.week, self._days, again, None, self.np_random)
            reward[again], terminated[again] = 0.0, False
            for values in infos.values():
                values[again] = 0
        self._ended = terminated.copy()
        self._days = arrive(self.week, self._days, self.np_random)
        never = np.zeros(self.num_envs, bool)
        return look(self.week, self._days), reward, terminated, never, infos


def make_single(**options: Any) -> OCPMEnv:
    return OCPMEnv(**options)


def make_vector(num_envs: int = 1, **options: Any) -> OCPMVectorEnv:
    return OCPMVectorEnv(num_envs, **options)


if ID not in gymnasium.registry:
    gymnasium.register(ID, entry_point=make_single, vector_entry_point=make_vector)
