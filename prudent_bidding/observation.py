"""What a learned policy sees of a record: the one place where observations are made.

The simulator, the environments and data sets read back from files all call `observe`; predictions,
hours and users are stored in half precision and are rounded to it before anybody looks at them, so
an observation made of stored rows is the one that was acted on.
"""

from typing import NamedTuple

import numpy as np

from prudent_bidding.schema import DAYS, OBSERVATION_SIZE

HOURS = 24.0
LARGEST_ROI_RATIO = 4.0
# Near their means, so that networks begin with numbers of about 1.
CENTRES = {"log_pctr": -4.0, "log_pcvr": -3.0, "log_pgmv": 4.5, "log_fair_bid": -4.0}
LOG_BUDGET, LOG_ROI = 5.0, 1.3
DECAY = 0.9  # of what is known of earlier days, per day
PRIOR_DAYS = 0.5  # daily budgets at which predictions and outcomes would agree


class Advertiser(NamedTuple):
    """What is known of advertisers; columns of `advertisers.parquet`."""

    log_roi: np.ndarray  # [N]
    budget: np.ndarray  # [N], of a day
    category: np.ndarray  # [N, CATEGORY_SIZE], the category's place in a plane
    ad: np.ndarray  # [N, AD_SIZE]


class Moment(NamedTuple):
    """A record as it arrives; columns of the rows."""

    day: int | np.ndarray
    hour: np.ndarray  # [N]
    log_pctr: np.ndarray
    log_pcvr: np.ndarray
    log_pgmv: np.ndarray
    user: np.ndarray  # [N, USER_SIZE]


class Account(NamedTuple):
    """What was paid and earned before the record, in float64."""

    day_pay: np.ndarray  # [N]
    day_gmv: np.ndarray  # what shows of it by now
    week_pay: np.ndarray  # of this week's earlier days, today not included
    week_gmv: np.ndarray
    carried_gmv: np.ndarray  # of all earlier days, discounted by DECAY a day
    carried_fair: np.ndarray  # pay for the same wins at k = 1


def observe(advertiser: Advertiser, moment: Moment, account: Account) -> np.ndarray:
    """f32[N, OBSERVATION_SIZE], in the order of `schema.OBSERVATION`."""
    count = len(moment.hour)
    seen = np.empty((OBSERVATION_SIZE, count), np.float32)
    hour = moment.hour.astype(np.float32)
    angle = hour * np.float32(2.0 * np.pi / HOURS)
    seen[0], seen[1] = np.sin(angle), np.cos(angle)
    seen[2] = 1.0 - hour / np.float32(HOURS)
    weekday = np.asarray(moment.day, np.float32) * np.float32(2.0 * np.pi / DAYS)
    seen[3], seen[4] = np.sin(weekday), np.cos(weekday)
    seen[5], seen[6], seen[7] = moment.log_pctr, moment.log_pcvr, moment.log_pgmv
    seen[8] = seen[5] + seen[6] + seen[7] - advertiser.log_roi
    seen[5:9] -= np.array(list(CENTRES.values()), np.float32)[:, None]
    seen[9:15] = standing(advertiser, account)
    seen[15] = np.log(advertiser.budget) - LOG_BUDGET
    seen[16] = advertiser.log_roi - LOG_ROI
    seen[17:19], seen[19:23] = advertiser.category.T, advertiser.ad.T
    seen[23:27] = moment.user.T
    return np.ascontiguousarray(seen.T)


def standing(advertiser: Advertiser, account: Account) -> np.ndarray:
    """[6, N]: spend, ROI over target and deficit of the day, deficit and spend of the week, and the
    track record, which explains why a controller bid as it did.
    """
    roi, budget = np.exp(advertiser.log_roi.astype(np.float64)), advertiser.budget
    due = roi * account.day_pay  # the GMV that would just meet the target
    ratio = np.divide(account.day_gmv, due, out=np.ones_like(due), where=due > 0.0)
    week_pay = account.week_pay + account.day_pay
    week_gmv = account.week_gmv + account.day_gmv
    return np.stack(
        [
            account.day_pay / budget,
            np.minimum(ratio, LARGEST_ROI_RATIO),
            (due - account.day_gmv) / (roi * budget),
            (roi * week_pay - week_gmv) / (roi * budget * DAYS),
            week_pay / (budget * DAYS),
            np.log(track_record(account.carried_gmv, account.carried_fair, roi, budget)),
        ]
    )


def track_record(
    gmv: np.ndarray, fair_pay: np.ndarray, roi: np.ndarray, budget: np.ndarray
) -> np.ndarray:
    """GMV over predicted GMV (target times fair pay) of earlier wins, drawn towards 1."""
    prior = PRIOR_DAYS * roi * budget
    return np.asarray((gmv + prior) / (roi * fair_pay + prior))
