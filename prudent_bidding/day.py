"""One day of one block of advertisers: wave after wave of records.

Advertisers stand in order of their volume, most first, so those that have a t-th record are always
the first few, and the records of a wave lie beside each other. At the end the rows that were
reached are brought into the order of the files: by advertiser, then by time.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from prudent_bidding.kernel import Outcome, Records, draw_records, settle
from prudent_bidding.observation import DECAY, Account, Advertiser, observe, track_record
from prudent_bidding.population import Week
from prudent_bidding.schema import (
    BUDGET_SPENT,
    DAY_ENDED,
    GOES_ON,
    K_HIGH,
    K_LOW,
    USER,
    Policy,
    View,
)
from prudent_bidding.traffic import day_volume
from prudent_bidding.world import CONTEXT, OUTCOME, POLICY, World, stream

ROWS_AT_ONCE = 32_768  # of context; temporary arrays then stay in the cache
LARGEST_HALF = float(np.finfo(np.float16).max)

Table = dict[str, np.ndarray]


class Known(NamedTuple):
    """Of earlier days, in the order of the block's slots; the first four are seen."""

    week_pay: np.ndarray  # this week's
    week_gmv: np.ndarray
    carried_gmv: np.ndarray  # discounted, of all days
    carried_fair: np.ndarray
    carried_pay: np.ndarray


class Plan(NamedTuple):
    """What is decided before a day begins."""

    day: int
    block: int
    slots: np.ndarray  # of the block
    arms: np.ndarray  # u8, the policy of each slot today
    known: Known
    price_shift: np.ndarray  # [C]


class Done(NamedTuple):
    rows: Table
    ledger: Table
    oracle_rows: Table
    oracle_ledger: Table


class Waves(NamedTuple):
    """Where the records of a day lie, before they are brought into the order of the files."""

    rank: np.ndarray  # [A], the place of each advertiser, most volume first
    order: np.ndarray  # [A], the advertiser at each place
    volume: np.ndarray  # [A] by place
    active: np.ndarray  # [waves], advertisers that have a record in it
    start: np.ndarray  # [waves]


class Accounts(NamedTuple):
    """Of days under way; these arrays change."""

    pay: np.ndarray  # f64
    gmv: np.ndarray  # f64, all that came of the records so far
    pending: np.ndarray | None  # [A, 25], where GMV is delayed, by the hour from which it shows
    records: np.ndarray  # so far

    def enter(self, at: np.ndarray, outcome: Outcome) -> None:
        self.pay[at] += outcome.pay
        self.gmv[at] += outcome.gmv
        self.records[at] += 1
        if self.pending is not None:
            self.pending[at, outcome.seen] += outcome.gmv

    def shown_gmv(self, at: np.ndarray, hour: np.ndarray) -> np.ndarray:
        if self.pending is None:
            return self.gmv[at]
        return (self.pending[at, :24] * (np.arange(24) <= hour[:, None])).sum(axis=1)


def new_accounts(count: int, world: World) -> Accounts:
    pending = np.zeros((count, 25)) if world.delay_hours else None
    return Accounts(np.zeros(count), np.zeros(count), pending, np.zeros(count, np.int64))


class Facts(NamedTuple):
    """Of the block's advertisers, by place."""

    day: int
    arms: np.ndarray
    category: np.ndarray
    advertiser: Advertiser
    known: Known
    track_record: np.ndarray  # f32


def simulate_day(week: Week, plan: Plan, policies: Sequence[Policy]) -> Done:
    world, place = week.world, (week.seed, week.week, plan.day, plan.block)
    waves = make_waves(day_volume(week.advertisers.volume[plan.slots], plan.day, world))
    records = draw_day(week, plan, waves, stream(CONTEXT, *place))
    accounts = new_accounts(len(plan.slots), world)
    alive = np.ones(len(plan.slots), bool)
    log = empty_log(int(waves.active.sum()))
    outcome_stream, policy_stream = stream(OUTCOME, *place), stream(POLICY, *place)
    facts = day_facts(week, plan, waves)
    for t in range(len(waves.active)):
        active = np.flatnonzero(alive[: waves.active[t]])
        if not len(active):
            continue
        at = waves.start[t] + active
        arrived = records.take(at)
        k = choose(policies, facts, arrived, active, accounts, policy_stream)
        budget, category = facts.advertiser.budget[active], facts.category[active]
        remaining = budget - accounts.pay[active]
        single = k.astype(np.float32)
        outcome = settle(world, arrived, category, single, remaining, outcome_stream)
        accounts.enter(active, outcome)
        spent = accounts.pay[active] >= world.spent_share * budget
        ended = np.where(t + 1 == waves.volume[active], DAY_ENDED, GOES_ON)
        done = np.where(spent, BUDGET_SPENT, ended).astype(np.uint8)
        alive[active] = done == GOES_ON
        log["k"][at], log["done"][at] = k, done
        for name, values in outcome._asdict().items():
            log[name][at] = np.minimum(values, 65_535) if name == "conv" else values
    length = accounts.records[waves.rank]  # by slot
    return in_file_order(week, plan, waves, records, log, length)


def make_waves(volume: np.ndarray) -> Waves:
    order = np.argsort(-volume, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    sorted_volume = volume[order]
    waves = np.arange(sorted_volume[0])
    count = np.searchsorted(-sorted_volume, -waves, side="left")  # those with more than t records
    return Waves(rank, order, sorted_volume, count, np.cumsum(count) - count)


def draw_day(week: Week, plan: Plan, waves: Waves, generator: np.random.Generator) -> Records:
    """All planned records, whether or not a budget will last to them: so a policy does not move
    the records of others, or of the same advertiser on later days.
    """
    wave = np.repeat(np.arange(len(waves.active)), waves.active)
    at = np.arange(len(wave)) - waves.start[wave]
    slots = plan.slots[waves.order]
    parts = []
    for start in range(0, len(wave), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        within = generator.random(len(wave[part]))
        share = (wave[part] + within) / waves.volume[at[part]]
        parts.append(draw_records(week, slots[at[part]], share, plan.price_shift, generator))
    return Records(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def empty_log(rows: int) -> Table:
    """What is done and comes of it, in waves; rows that are not reached stay empty."""
    money = dict.fromkeys(("pay", "gmv", "expected_gmv"), np.float32)
    types = {"k": np.float16, "win": np.uint16, "conv": np.uint16, **money}
    types |= {"seen": np.uint8, "done": np.uint8}
    return {name: np.zeros(rows, kind) for name, kind in types.items()}


def advertisers_of(week: Week, slots: np.ndarray) -> Advertiser:
    """What observations need of them."""
    people = week.advertisers
    return Advertiser(
        people.log_roi[slots].astype(np.float32),
        week.budget[slots],
        week.structure.category[people.category[slots]].astype(np.float32),
        people.ad[slots].astype(np.float32),
    )


def day_facts(week: Week, plan: Plan, waves: Waves) -> Facts:
    slots = plan.slots[waves.order]
    known = Known(*(column[waves.order] for column in plan.known))
    roi, budget = np.exp(week.advertisers.log_roi[slots]), week.budget[slots]
    track = track_record(known.carried_gmv, known.carried_fair, roi, budget).astype(np.float32)
    category, arms = week.advertisers.category[slots], plan.arms[waves.order]
    return Facts(plan.day, arms, category, advertisers_of(week, slots), known, track)


def choose(
    policies: Sequence[Policy],
    facts: Facts,
    records: Records,
    active: np.ndarray,
    accounts: Accounts,
    generator: np.random.Generator,
) -> np.ndarray:
    """The actions of a wave, each advertiser's by the policy of its arm; f16, within bounds."""
    k = np.empty(len(active), np.float16)
    arms = facts.arms[active]
    for arm, policy in enumerate(policies):
        chosen = slice(None) if len(policies) == 1 else np.flatnonzero(arms == arm)
        if len(active[chosen]):
            view = make_view(policy.needs, facts, records.take(chosen), active[chosen], accounts)
            k[chosen] = executed(policy.act(view, generator))
    return k


def executed(k: np.ndarray) -> np.ndarray:
    """As it is carried out and stored."""
    return np.clip(k, K_LOW, K_HIGH).astype(np.float16)


def make_view(
    needs: frozenset[str],
    facts: Facts,
    records: Records,
    active: np.ndarray,
    accounts: Accounts,
) -> View:
    observations = track = deficit = bias = None
    if "observations" in needs or "week_deficit" in needs:
        gmv = accounts.shown_gmv(active, records.hour)
        account = Account(accounts.pay[active], gmv, *(each[active] for each in facts.known[:4]))
        advertiser = Advertiser(*(column[active] for column in facts.advertiser))
        if "observations" in needs:
            observations = observe(advertiser, records.moment(facts.day), account)
        if "week_deficit" in needs:
            deficit = week_deficit(advertiser, account)
    if "track_record" in needs:
        track = facts.track_record[active]
    if "bias" in needs:
        bias = records.bias
    return View(len(active), observations, track, deficit, bias)


def week_deficit(advertiser: Advertiser, account: Account) -> np.ndarray:
    due = np.exp(advertiser.log_roi) * advertiser.budget
    pay, gmv = account.week_pay + account.day_pay, account.week_gmv + account.day_gmv
    return (pay / advertiser.budget - gmv / due).astype(np.float32)


def in_file_order(
    week: Week, plan: Plan, waves: Waves, records: Records, log: Table, length: np.ndarray
) -> Done:
    """`length`: rows that each advertiser has."""
    start = np.cumsum(length) - length
    owner = np.repeat(np.arange(len(length)), length)
    t = np.arange(len(owner)) - start[owner]
    at = waves.start[t] + waves.rank[owner]
    adv = week.advertisers.adv[plan.slots]
    rows: Table = {
        "adv": adv[owner],
        "day": np.full(len(owner), plan.day, np.uint8),
        "t": t.astype(np.uint16),
        "hour": records.hour[at],
        **dict(zip(USER, records.user.T[:, at], strict=True)),
        **{name: getattr(records, name)[at] for name in ("log_pctr", "log_pcvr", "log_pgmv")},
        "k": log["k"][at],
        "arm": plan.arms[owner],
        **{name: log[name][at] for name in ("win", "conv", "pay", "gmv", "seen", "done")},
    }
    expected = log["expected_gmv"][at]
    oracle_rows: Table = {
        "exp_gmv": np.minimum(expected, LARGEST_HALF).astype(np.float16),
        "log_p0": records.log_p0[at].astype(np.float16),
    }
    oracle_ledger: Table = {
        "exp_gmv": np.bincount(owner, expected, len(length)),
        "bias": week.advertisers.bias[plan.slots].astype(np.float32),
    }
    # Where a win costs what was bid, dividing by k says it without the rounding of predictions.
    fair = rows["pay"] / rows["k"].astype(np.float64)
    if week.world.price == "second":
        fair = rows["win"] * np.exp(records.log_fair[at].astype(np.float64))
    ledger = make_ledger(adv, plan.arms, owner, length, rows, fair)
    return Done(rows, ledger, oracle_rows, oracle_ledger)


def make_ledger(
    adv: np.ndarray,
    arms: np.ndarray,
    owner: np.ndarray,
    length: np.ndarray,
    rows: Table,
    fair: np.ndarray,
) -> Table:
    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(owner, values, len(length))

    last = np.cumsum(length) - 1
    return {
        "adv": adv,
        "arm": arms,
        "rows": length.astype(np.uint16),
        "win": total(rows["win"]).astype(np.uint32),
        "conv": total(rows["conv"]).astype(np.uint32),
        "pay": total(rows["pay"]),
        "gmv": total(rows["gmv"]),
        "fair_pay": total(fair),
        "k_sum": total(rows["k"].astype(np.float64)),
        "exhausted": (rows["done"][last] == BUDGET_SPENT).astype(np.uint8),
    }


def next_known(known: Known, ledger: Table) -> Known:
    """What is known on the next day of the week."""
    pay, gmv = known.week_pay + ledger["pay"], known.week_gmv + ledger["gmv"]
    carried = zip(known[2:], (ledger[name] for name in ("gmv", "fair_pay", "pay")), strict=True)
    return Known(pay, gmv, *(DECAY * before + today for before, today in carried))


def nothing_known(count: int) -> Known:
    return Known(*np.zeros((5, count)))
