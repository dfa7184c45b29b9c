"""What happens to one bid, for many advertisers at once.

A record arrives (`draw_records`): hour, user, predictions, and, unseen by the bidder, how far the
predictions are from the truth and what others will pay. The policy chooses k. Then (`settle`)

    bid  = k * pCTR * pCVR * pGMV / target ROI
    win  ~ Binomial(M, P(win))                        at most as many as the budget pays
    pay  = win * price
    conv ~ Poisson(win * true CTR * true CVR)         Binomial, where a record is one request
    GMV  ~ Gamma(kappa * conv), of mean conv * pGMV

Both functions take any number of records, of one advertiser or of many; the bulk engine and the
environments differ only in which records they bring.
"""

from typing import NamedTuple

import numpy as np

from prudent_bidding import traffic
from prudent_bidding.market import clear
from prudent_bidding.observation import HOURS, Moment
from prudent_bidding.population import MEANS, Week
from prudent_bidding.world import World


class Records(NamedTuple):
    """Records that have arrived, [N] each."""

    hour: np.ndarray  # f16
    user: np.ndarray  # f16[N, USER_SIZE]
    log_pctr: np.ndarray  # f16
    log_pcvr: np.ndarray
    log_pgmv: np.ndarray
    # Hidden from the bidder.
    log_fair: np.ndarray  # f32, log of the bid at k = 1
    log_p0: np.ndarray  # f32
    rate: np.ndarray  # f32, true conversions per win
    bias: np.ndarray  # f32, what lasts of log(true / predicted)

    def take(self, places: np.ndarray | slice) -> "Records":
        return Records(*(column[places] for column in self))

    def moment(self, day: int | np.ndarray) -> Moment:
        return Moment(day, self.hour, self.log_pctr, self.log_pcvr, self.log_pgmv, self.user)


class Outcome(NamedTuple):
    """What the bids brought, [N] each."""

    win: np.ndarray  # int64
    conv: np.ndarray  # int64
    pay: np.ndarray  # f32
    gmv: np.ndarray  # f32
    expected_gmv: np.ndarray  # f32, of the same wins by the true rates
    seen: np.ndarray  # u8, see schema.ROWS


def draw_records(
    week: Week,
    slots: np.ndarray,
    share: np.ndarray,
    price_shift: np.ndarray,
    generator: np.random.Generator,
) -> Records:
    """One record for each entry of `slots`, after `share` of the advertiser's day.

    `price_shift` [C] moves log prices by category, for `meanfield`.
    """
    world, structure, advertisers = week.world, week.structure, week.advertisers
    category = advertisers.category[slots]
    hour = traffic.arrival_hours(week.traffic, category, share)
    clock = np.minimum(hour.astype(np.int64), 23)
    by_hour = category * 24 + clock
    uniform = generator.random(len(slots), dtype=np.float32)
    segment = traffic.draw_segments(week.traffic, category, hour, uniform)
    by_segment = category * world.segments + segment

    log_p = draw_predictions(week, slots, by_segment, by_hour, generator)
    noise = generator.standard_normal(len(slots), dtype=np.float32)
    bias = structure.segment_bias.ravel()[by_segment] + advertisers.bias[slots] + structure.lift
    error = bias + structure.hour_bias.ravel()[by_hour] + world.record_bias_sd * noise

    single = log_p.astype(np.float32)
    log_fair = single.sum(axis=0) - advertisers.log_roi[slots]
    rho = world.follows_value
    log_p0 = (1.0 - rho) * advertisers.log_price[slots]
    log_p0 += rho * (log_fair + error + world.price_level)
    log_p0 += structure.price_hour.ravel()[by_hour] + (structure.price + price_shift)[category]
    rate = np.minimum(np.exp((single[0] + single[1] + error).astype(np.float32)), 1.0)
    user = traffic.draw_users(week.traffic, segment, generator)
    hidden = [column.astype(np.float32) for column in (log_fair, log_p0, rate, bias)]
    return Records(hour, user, *log_p, *hidden)


def draw_predictions(
    week: Week,
    slots: np.ndarray,
    by_segment: np.ndarray,
    by_hour: np.ndarray,
    generator: np.random.Generator,
) -> np.ndarray:
    """Log pCTR, pCVR and pGMV in half precision: f16[MEANS, N]."""
    world, structure = week.world, week.structure
    log_p = generator.standard_normal((MEANS, len(slots)), dtype=np.float32)
    log_p *= np.array(world.request_sds, np.float32)[:, None]
    log_p += week.advertisers.means[slots].T
    for row in range(2):  # users and hours do not change what an order is worth
        log_p[row] += structure.segment_effect[row].ravel()[by_segment]
        log_p[row] += structure.hour_effect[row].ravel()[by_hour]
    log_p[0] = np.minimum(log_p[0], np.log(world.most_pctr))
    log_p[1] = np.minimum(log_p[1], np.log(world.most_pcvr))
    return log_p.astype(np.float16)


def settle(
    world: World,
    records: Records,
    category: np.ndarray,
    k: np.ndarray,
    remaining: np.ndarray,
    generator: np.random.Generator,
) -> Outcome:
    """Bid k (f32[N]) with what is `remaining` of the day's budget (f64[N])."""
    log_bid = records.log_fair + np.log(k)
    cleared = clear(world, log_bid, records.log_p0, category, generator)
    win = generator.binomial(world.requests_per_record, cleared.win_probability)
    win, pay = within_budget(win, cleared.price.astype(np.float64), remaining)
    gmv_mean = np.exp(records.log_pgmv.astype(np.float32))
    conv, gmv = draw_orders(world, win, records.rate, gmv_mean, generator)
    expected = win * records.rate * gmv_mean
    seen = draw_lags(world, records.hour, conv, generator)
    return Outcome(win, conv, pay, gmv, expected.astype(np.float32), seen)


def within_budget(
    win: np.ndarray, price: np.ndarray, remaining: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Wins that can be paid for, the last of them perhaps in part, and the pay in float32."""
    affordable = np.ceil(remaining / price)
    win = np.minimum(win, affordable).astype(np.int64)
    pay = np.minimum(win * price, remaining).astype(np.float32)
    # Rounding must not spend what is not there.
    return win, np.where(pay > remaining, np.nextafter(pay, np.float32(0.0)), pay)


def draw_orders(
    world: World,
    win: np.ndarray,
    rate: np.ndarray,
    gmv_mean: np.ndarray,
    generator: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Conversions, and their GMV in float32."""
    if world.requests_per_record == 1:
        conv = generator.binomial(win, rate)
    else:
        conv = generator.poisson(win * rate)
    gmv = np.zeros(len(win), np.float32)
    some = np.flatnonzero(conv)
    orders = generator.standard_gamma(world.gmv_shape * conv[some]) / world.gmv_shape
    gmv[some] = orders * gmv_mean[some]
    return conv, gmv


def draw_lags(
    world: World, hour: np.ndarray, conv: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """The full hour from which a record's GMV shows; see `schema.ROWS`."""
    seen = np.zeros(len(hour), np.uint8)
    if world.delay_hours == 0.0:
        return seen
    some = np.flatnonzero(conv)
    late = generator.random(len(some)) < world.late_share
    mean = np.where(late, world.late_hours, world.delay_hours / np.log(2.0))
    arrives = hour[some] + mean * generator.standard_exponential(len(some))
    seen[some] = np.clip(np.ceil(arrives), 1, HOURS)
    return seen
