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
    """Of earlier days, in the order of the block's slots."""

    week_pay: np.ndarray  # this week's
    week_gmv: np.ndarray
    carried_pay: np.ndarray  # discounted, of all days
    carried_gmv: np.ndarray
    carried_fair: np.ndarray


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


class Log(NamedTuple):
    """What was done and came of it, in waves; rows that were not reached stay empty."""

    k: np.ndarray  # f16
    win: np.ndarray
    conv: np.ndarray
    pay: np.ndarray
    gmv: np.ndarray
    expected_gmv: np.ndarray
    seen: np.ndarray
    done: np.ndarray


class Standing(NamedTuple):
    """Accounts of a day as it goes on, by place; these arrays change."""

    pay: np.ndarray  # f64
    gmv: np.ndarray  # f64, all that came of the records so far
    pending: np.ndarray | None  # [A, 24], by the hour from which it shows
    alive: np.ndarray  # bool
    length: np.ndarray  # records so far


def simulate_day(week: Week, plan: Plan, policies: Sequence[Policy]) -> Done:
    world, place = week.world, (week.seed, week.week, plan.day, plan.block)
    waves = make_waves(day_volume(week.advertisers.volume[plan.slots], plan.day, world))
    records = draw_day(week, plan, waves, stream(CONTEXT, *place))
    log, standing = empty_log(int(waves.active.sum())), new_standing(len(plan.slots), world)
    outcome_stream, policy_stream = stream(OUTCOME, *place), stream(POLICY, *place)
    facts = day_facts(week, plan, waves)
    for t in range(len(waves.active)):
        active = np.flatnonzero(standing.alive[: waves.active[t]])
        if not len(active):
            continue
        at = waves.start[t] + active
        arrived = records.take(at)
        k = choose(policies, facts, arrived, active, standing, policy_stream)
        remaining = facts.budget[active] - standing.pay[active]
        category, single = facts.category[active], k.astype(np.float32)
        outcome = settle(world, arrived, category, single, remaining, outcome_stream)
        enter(standing, active, outcome)
        spent = standing.pay[active] >= world.spent_share * facts.budget[active]
        ended = np.where(t + 1 == waves.volume[active], DAY_ENDED, GOES_ON)
        done = np.where(spent, BUDGET_SPENT, ended).astype(np.uint8)
        standing.alive[active] = done == GOES_ON
        note(log, at, k, outcome, done)
    return in_file_order(week, plan, waves, records, log, standing)


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


def empty_log(rows: int) -> Log:
    types = (np.float16, np.uint16, np.uint16, *[np.float32] * 3, np.uint8, np.uint8)
    return Log(*(np.zeros(rows, kind) for kind in types))


def new_standing(count: int, world: World) -> Standing:
    pending = np.zeros((count, 24)) if world.delay_hours else None
    return Standing(
        np.zeros(count), np.zeros(count), pending, np.ones(count, bool), np.zeros(count, np.int64)
    )


def enter(standing: Standing, active: np.ndarray, outcome: Outcome) -> None:
    standing.pay[active] += outcome.pay
    standing.gmv[active] += outcome.gmv
    standing.length[active] += 1
    if standing.pending is not None:
        today = outcome.seen < 24
        standing.pending[active[today], outcome.seen[today]] += outcome.gmv[today]


def note(log: Log, at: np.ndarray, k: np.ndarray, outcome: Outcome, done: np.ndarray) -> None:
    log.k[at], log.done[at] = k, done
    log.win[at] = outcome.win
    log.conv[at] = np.minimum(outcome.conv, np.iinfo(np.uint16).max)
    log.pay[at], log.gmv[at] = outcome.pay, outcome.gmv
    log.expected_gmv[at], log.seen[at] = outcome.expected_gmv, outcome.seen


class Facts(NamedTuple):
    """Of the block's advertisers, by place."""

    day: int
    arms: np.ndarray
    category: np.ndarray
    budget: np.ndarray
    track_record: np.ndarray  # f32
    week_pay: np.ndarray
    week_gmv: np.ndarray
    carried_gmv: np.ndarray
    carried_fair: np.ndarray
    advertiser: Advertiser


def day_facts(week: Week, plan: Plan, waves: Waves) -> Facts:
    slots, order, known = plan.slots[waves.order], waves.order, plan.known
    category, budget = week.advertisers.category[slots], week.budget[slots]
    log_roi = week.advertisers.log_roi[slots].astype(np.float32)
    category_place = week.structure.category[category].astype(np.float32)
    ad = week.advertisers.ad[slots].astype(np.float32)
    roi, budgets = np.exp(week.advertisers.log_roi[plan.slots]), week.budget[plan.slots]
    track = track_record(known.carried_gmv, known.carried_fair, roi, budgets).astype(np.float32)
    return Facts(
        plan.day,
        plan.arms[order],
        category,
        budget,
        track[order],
        known.week_pay[order],
        known.week_gmv[order],
        known.carried_gmv[order],
        known.carried_fair[order],
        Advertiser(log_roi, budget, category_place, ad),
    )


def choose(
    policies: Sequence[Policy],
    facts: Facts,
    records: Records,
    active: np.ndarray,
    standing: Standing,
    generator: np.random.Generator,
) -> np.ndarray:
    """The actions of a wave, each advertiser's by the policy of its arm; f16, within bounds."""
    if len(policies) == 1:
        view = make_view(policies[0].needs, facts, records, active, standing)
        return executed(policies[0].act(view, generator))
    k = np.empty(len(active), np.float16)
    arms = facts.arms[active]
    for arm, policy in enumerate(policies):
        chosen = np.flatnonzero(arms == arm)
        if len(chosen):
            view = make_view(policy.needs, facts, records.take(chosen), active[chosen], standing)
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
    standing: Standing,
) -> View:
    observations = track = deficit = bias = None
    if "observations" in needs or "week_deficit" in needs:
        account = account_of(facts, records, active, standing)
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


def account_of(facts: Facts, records: Records, active: np.ndarray, standing: Standing) -> Account:
    gmv = standing.gmv[active]
    if standing.pending is not None:
        shows = np.arange(24)[None] <= records.hour[:, None]
        gmv = (standing.pending[active] * shows).sum(axis=1)
    earlier = (facts.week_pay, facts.week_gmv, facts.carried_gmv, facts.carried_fair)
    return Account(standing.pay[active], gmv, *(each[active] for each in earlier))


def week_deficit(advertiser: Advertiser, account: Account) -> np.ndarray:
    due = np.exp(advertiser.log_roi) * advertiser.budget
    pay, gmv = account.week_pay + account.day_pay, account.week_gmv + account.day_gmv
    return (pay / advertiser.budget - gmv / due).astype(np.float32)


def in_file_order(
    week: Week, plan: Plan, waves: Waves, records: Records, log: Log, standing: Standing
) -> Done:
    length = standing.length[waves.rank]  # by slot
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
        "log_pctr": records.log_pctr[at],
        "log_pcvr": records.log_pcvr[at],
        "log_pgmv": records.log_pgmv[at],
        "k": log.k[at],
        "arm": plan.arms[owner],
        **{name: getattr(log, name)[at] for name in ("win", "conv", "pay", "gmv", "seen", "done")},
    }
    oracle_rows: Table = {
        "exp_gmv": np.minimum(log.expected_gmv[at], LARGEST_HALF).astype(np.float16),
        "log_p0": records.log_p0[at].astype(np.float16),
    }
    bias = week.advertisers.bias[plan.slots].astype(np.float32)
    oracle_ledger: Table = {"exp_gmv": totals(owner, log.expected_gmv[at], length), "bias": bias}
    # Where a win costs what was bid, dividing by k says it without the rounding of predictions.
    fair = rows["pay"] / rows["k"].astype(np.float64)
    if week.world.price == "second":
        fair = rows["win"] * np.exp(records.log_fair[at].astype(np.float64))
    ledger = make_ledger(adv, plan.arms, owner, length, rows, fair)
    return Done(rows, ledger, oracle_rows, oracle_ledger)


def totals(owner: np.ndarray, values: np.ndarray, length: np.ndarray) -> np.ndarray:
    return np.bincount(owner, values, minlength=len(length))


def make_ledger(
    adv: np.ndarray,
    arms: np.ndarray,
    owner: np.ndarray,
    length: np.ndarray,
    rows: Table,
    fair: np.ndarray,
) -> Table:
    def total(values: np.ndarray) -> np.ndarray:
        return totals(owner, values, length)

    k = rows["k"].astype(np.float64)
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
        "k_sum": total(k),
        "exhausted": (rows["done"][last] == BUDGET_SPENT).astype(np.uint8),
    }


def next_known(known: Known, ledger: Table) -> Known:
    """What is known on the next day of the week."""
    return Known(
        known.week_pay + ledger["pay"],
        known.week_gmv + ledger["gmv"],
        DECAY * known.carried_pay + ledger["pay"],
        DECAY * known.carried_gmv + ledger["gmv"],
        DECAY * known.carried_fair + ledger["fair_pay"],
    )


def nothing_known(count: int) -> Known:
    return Known(*np.zeros((5, count)))
