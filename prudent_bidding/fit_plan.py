"""What one fit to logged weeks is to do, and where its files are. Imports no JAX.

fit-plan.json        the settings, and checksums of the weeks; a folder holds one plan
checkpoints/         the learner's state, from which the next fit goes on
policy.safetensors   what can be deployed
fit.json             the record, written last
"""

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from tyro.conf import Fixed, Positional, Suppress

from prudent.algorithms import ALGORITHMS
from prudent.files import checksum
from prudent.settings.checks import Count, CountOrZero, Positive, checked
from prudent_bidding.dataset import check_first_price
from prudent_bidding.manifest import read_manifest
from prudent_bidding.plan import LearnerSettings, check_learners, is_on_policy
from prudent_bidding.records import read_json, read_settings
from prudent_bidding.schema import MANIFEST, week_folder

LOG = "log"  # where a run has the name of its world
FIT_PLAN, RECORD, POLICY = "fit-plan.json", "fit.json", "policy.safetensors"


@dataclass(frozen=True)
class FitPlan(LearnerSettings):
    """All that decides what a fit computes."""

    preset: Annotated[str, Fixed, Suppress] = LOG
    # A log does not know its groups and slots.
    multiplier_scope: Annotated[Literal["global"], Fixed, Suppress] = "global"
    advertiser_rate: Annotated[Positive, Fixed, Suppress] = LearnerSettings.advertiser_rate
    algorithm: Positional[str] = "cal"
    """An off-policy one: cal, sac-lag, ..."""
    weeks: tuple[CountOrZero, ...] = ()
    """To learn from (default: all that the data set has)."""
    # Checksums of these weeks'.
    manifests: Annotated[tuple[str, ...], Fixed, Suppress] = ()
    # In a row of fits, each of which goes on from the one before: from the policy of this checksum.
    number: Annotated[Count, Fixed, Suppress] = 1
    goes_on_from: Annotated[str | None, Fixed, Suppress] = None


class LastFit(NamedTuple):
    """What a fit goes on from."""

    folder: Path
    plan: FitPlan


def read_last(folder: Path) -> LastFit:
    if not (folder / RECORD).exists():
        raise ValueError(f"{folder} holds no finished fit to go on from (there is no {RECORD})")
    expected, path = read_json(folder / RECORD).get("policy_sha256"), folder / POLICY
    if not path.is_file() or checksum(path.read_bytes()) != expected:
        raise ValueError(f"{path} is not the policy that {folder / RECORD} tells of; restore it")
    return LastFit(folder, read_settings(folder / FIT_PLAN, FitPlan))


def make_fit_plan(plan: FitPlan, data: Path, last: LastFit | None) -> FitPlan:
    """The plan with what it is to learn from. Refuses what cannot be fitted; nothing is written
    before.
    """
    check_learners(plan, [plan.algorithm])
    if is_on_policy(plan.algorithm):
        others = ", ".join(name for name in ALGORITHMS if not is_on_policy(name))
        raise ValueError(
            f"{plan.algorithm} learns on-policy, from what it did itself; for a log there is: "
            f"{others}"
        )
    weeks = sorted(plan.weeks) or weeks_in(data)
    if len(set(weeks)) < len(weeks):
        raise ValueError(f"--weeks {' '.join(map(str, weeks))}: each is given once")
    manifests = [manifest_checksum(data, week) for week in weeks]
    if plan.gmv == "calibrated":
        check_first_price(data)
    plan = checked(plan, weeks=weeks, manifests=manifests)
    if last is None:
        return plan
    check_same(plan, last)
    policy = checksum((last.folder / POLICY).read_bytes())
    return checked(plan, number=last.plan.number + 1, goes_on_from=policy)


def weeks_in(data: Path) -> list[int]:
    """Those of a data set that are finished."""
    names = [path.parent.name for path in data.glob(f"week-*/{MANIFEST}")]
    found = sorted(int(name[5:]) for name in names if re.fullmatch("week-[0-9]+", name))
    if not found:
        raise ValueError(
            f"{data} holds no finished week; `prudent bidding import` makes a data set of a log"
        )
    return found


def manifest_checksum(data: Path, week: int) -> str:
    read_manifest(data, week)
    return checksum((data / week_folder(week) / MANIFEST).read_bytes())


def check_same(plan: FitPlan, last: LastFit) -> None:
    """A learner's state is continued only under the settings that made it."""
    for name in ("algorithm", *(field.name for field in fields(LearnerSettings))):
        now, then = getattr(plan, name), getattr(last.plan, name)
        if now != then:
            raise ValueError(
                f"{last.folder} was fitted with {name.replace('_', ' ')} {then}, not {now}; give "
                "the same settings, or begin anew without --init-from"
            )
