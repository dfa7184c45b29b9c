"""What one fit to logged weeks is to do, and where its files are. Imports no JAX.

fit-plan.json        the settings, and checksums of the weeks; a folder holds one plan
checkpoints/         the learner's state, from which the next fit goes on
policy.safetensors   what can be deployed
fit.json             the record, written last
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from prudent.algorithms import ALGORITHMS
from prudent.files import checksum
from prudent.settings.checks import Count, CountOrZero, checked
from prudent_bidding.dataset import check_first_price
from prudent_bidding.manifest import read_manifest
from prudent_bidding.plan import LearnerSettings, check_learners, learns_on_policy, write_first
from prudent_bidding.schema import MANIFEST, week_folder
from prudent_bidding.tables import read_json

LOG = "log"  # where a run has the name of its world
FIT_PLAN, RECORD, POLICY = "fit-plan.json", "fit.json", "policy.safetensors"


@dataclass(frozen=True)
class FitPlan(LearnerSettings):
    """All that decides what a fit computes."""

    algorithm: str = "cal"
    weeks: tuple[CountOrZero, ...] = ()
    manifests: tuple[str, ...] = ()  # checksums of these weeks'
    number: Count = 1  # in a row of fits, each of which goes on from the one before
    goes_on_from: str | None = None  # checksum of that one's policy

    @staticmethod
    def read(folder: Path) -> "FitPlan":
        path = folder / FIT_PLAN
        try:
            return checked(FitPlan(**json.loads(path.read_bytes())))
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(f"{path} is no plan of a fit that this version reads ({error})") from (
                None
            )


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
    return LastFit(folder, FitPlan.read(folder))


def make_fit_plan(
    algorithm: str, data: Path, weeks: Sequence[int], given: dict[str, Any], last: LastFit | None
) -> FitPlan:
    """Refuses what cannot be fitted; nothing is written before."""
    plan = checked(FitPlan(LOG, algorithm=algorithm, **given))
    check_learners(plan, [algorithm])
    if learns_on_policy(algorithm):
        others = ", ".join(name for name in ALGORITHMS if not learns_on_policy(name))
        raise ValueError(
            f"{algorithm} learns on-policy, from what it did itself; for a log there is: {others}"
        )
    chosen = sorted(weeks) or weeks_in(data)
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"--weeks {' '.join(map(str, chosen))}: each is given once")
    manifests = [manifest_checksum(data, week) for week in chosen]
    if plan.gmv == "calibrated":
        check_first_price(data)
    plan = checked(plan, weeks=chosen, manifests=manifests)
    if last is None:
        return plan
    check_same(plan, last)
    path = last.folder / POLICY
    following = {"number": last.plan.number + 1, "goes_on_from": checksum(path.read_bytes())}
    return checked(plan, **following)


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
    """A state goes on under the settings that made it, or it would be nobody's."""
    for name in ("algorithm", *(field.name for field in fields(LearnerSettings))):
        now, then = getattr(plan, name), getattr(last.plan, name)
        if now != then:
            raise ValueError(
                f"{last.folder} was fitted with {name.replace('_', ' ')} {then}, not {now}; give "
                "the same settings, or begin anew without --init-from"
            )


def write_fit_plan(folder: Path, plan: FitPlan) -> None:
    """Into a new folder, or one that has this very plan."""
    if not (folder / FIT_PLAN).exists():
        write_first(folder / FIT_PLAN, plan)
    elif FitPlan.read(folder) != plan:
        raise ValueError(
            f"{folder} holds a fit of another plan (settings, weeks or their data); choose another "
            f"folder with --out, and --init-from {folder} to go on from it"
        )
