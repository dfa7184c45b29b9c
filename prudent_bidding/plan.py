"""What a semi-batch run of bidding algorithms is to do, and where its files are. Imports no JAX.

plan.json                          the settings; a folder holds one plan
data/                              the data set: week 0 is the incumbent's, later ones the arms'
cache/                             weeks packed for sampling; may be deleted
arms/NAME/checkpoints/             the learner's state
arms/NAME/policy-week-W.safetensors   what was deployed
arms/NAME/week-W.json              what its update saw
references/NAME/                   data sets of reference policies, in worlds of their own
results/week-W.json                metrics of every arm and reference, written last
tables.md  table-paper.csv  table-full.csv  frontier.png  index.html
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Fixed, Suppress

from prudent.algorithms import ALGORITHMS
from prudent.files import (
    canonical_json,
    checksum,
)
from prudent.settings.checks import (
    Count,
    NotNegative,
    Positive,
    PositiveShare,
    Seed,
    Share,
    checked,
)
from prudent.settings.schedules import OnPolicySchedule
from prudent_bidding.dataset import GMVLabel, Learning, half_life_of
from prudent_bidding.forms import FORMS, FormName
from prudent_bidding.policies import GREEDY, RULES, checked_number
from prudent_bidding.records import read_settings
from prudent_bidding.world import preset as world_preset
from prudent_bidding.world import world_hash

INCUMBENT, CLONING = "incumbent", "behaviour-cloning"
CAL_NAMES = ("cal", "ucb", "bidding-cal")
PLAN = "plan.json"
PAPER_COLUMNS = ("wcsac", "cvpo", "cup", "sac-pid", "cal", "sac-lag")
# Where none are named; among constants the best in hindsight is chosen, and pay is held against
# theirs at the same violations, so they have to reach as far as a learner may go.
CONSTANTS = tuple(f"constant:{k:g}" for k in (0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4))
REFERENCES = (*CONSTANTS, "feedback:0.9", "dual:1", "informed:0.85", CLONING)

# One step a week: at the others' rate the multiplier would not leave 0 within a year.
CUP_SETTINGS: dict[str, Any] = {"multiplier_learning_rate": 1.0, "hidden": (64, 64)}


@dataclass(frozen=True)
class LearnerSettings:
    """How algorithms learn from logged rows; the commands' options are derived from it."""

    preset: str = "small"
    """World and sizes: smoke (about two minutes), small, stationary, hard, paper-data, paper."""
    seed: Seed = 0
    """Seed of the learners."""
    updates: Count = 20_000
    """Updates of an off-policy algorithm (in a run: each week)."""
    batch_size: Count = 64
    """Rows of one update."""
    hidden: tuple[Count, ...] = (256, 256)
    discount: Share = 0.999
    multiplier_learning_rate: Positive = 3e-3
    # A day has hundreds of steps and an update moves targets by this share, halved where they move
    # every second time: a value must come through from the day's end several times in a week.
    target_rate: PositiveShare = 0.05
    # One action moves a day's pay by less than a hundredth of what the day is worth.
    initial_temperature: Positive = 0.01
    strategy: str = "uniform"
    """How rows are drawn: uniform, recent(HALF_LIFE), advertiser_balanced, stratified."""
    form: FormName = "deficit"
    """Form of the constraint; `ratio` is for cal and ucb."""
    gmv: GMVLabel = "calibrated"
    """GMV in the costs learned from: what orders brought, or what was predicted for the wins, times
    what the advertiser's orders from then to the week's end made of it. The second holds for
    simulated first-price markets only. Metrics are always of the first."""
    constraint_at: Literal["batch", "accumulated"] = "batch"
    """What the multiplier holds against the bound: the cost still to come from a record on, or with
    that of the day so far, which goes well with several multipliers (cal and ucb)."""
    multiplier_scope: Literal["global", "group", "advertiser"] = "global"
    """One multiplier, one for each category, or one for each advertiser, which then answers to its
    measured deficit once a week (cal and ucb)."""
    advertiser_rate: Positive = 0.3
    """Rate of an advertiser's multiplier, per tenth of a day's budget that was missing."""
    # Rewards and costs are counted in units of which a day's budget has so many.
    budget_units: Annotated[Positive, Fixed, Suppress] = 10.0
    conservatism: NotNegative | None = None
    convexity: NotNegative | None = None
    # Settings of CUP_SETTINGS that were given for all, and so hold for CUP too.
    given_to_cup: Annotated[tuple[str, ...], Fixed, Suppress] = ()

    def bound(self) -> float:
        """What the expected cost may reach, in the unit of the rows' costs."""
        bound = FORMS[self.form].bound
        return bound if self.form == "ratio" else bound * self.budget_units

    def learning(self) -> Learning:
        """How rows become rewards and costs."""
        return Learning(self.budget_units, FORMS[self.form].step_cost, self.gmv)

    def as_measured(self) -> Learning:
        """The same with orders as they came."""
        return replace(self.learning(), gmv="realised")

    def special(self) -> dict[str, bool]:
        """The options that only `bidding-cal` has, and whether they are used."""
        return {
            "--form ratio": self.form == "ratio",
            f"--multiplier-scope {self.multiplier_scope}": self.multiplier_scope != "global",
            f"--constraint-at {self.constraint_at}": self.constraint_at != "batch",
        }

    def algorithm_of(self, name: str) -> str:
        """What learns for an arm; `cal` and `ucb` with such an option are `bidding-cal`."""
        if name == CLONING:
            return "cup"
        return "bidding-cal" if name in CAL_NAMES and any(self.special().values()) else name

    def values(self, name: str) -> dict[str, Any]:
        """Settings that follow from the plan for an arm; its algorithm takes those that it has."""
        found: dict[str, Any] = {
            "hidden": self.hidden,
            "discount": self.discount,
            "cost_discount": self.discount,
            "multiplier_learning_rate": self.multiplier_learning_rate,
            "target_rate": self.target_rate,
            "initial_temperature": self.initial_temperature,
            "dual_action": "policy",
            # A log has no present policy whose steps and episodes these could look at.
            "dual_states": "replay",
            "calibration": "none",
            # Moves by rate * violation. By its logarithm it would grow e-fold every 300 updates at
            # this rate, sooner than critics can show what the last growth did.
            "multiplier": "projected_sgd",
        }
        if self.algorithm_of(name) == "cup":
            own = CUP_SETTINGS.items()
            found |= {name: value for name, value in own if name not in self.given_to_cup}
        if self.form == "ratio":
            found["constraint"] = "ratio"
        if self.multiplier_scope != "global":
            found |= {"multiplier_scope": self.multiplier_scope, "multiplier_count": self.owners()}
        if self.constraint_at != "batch":
            found["constraint_at"] = self.constraint_at
        for setting in ("conservatism", "convexity"):
            if getattr(self, setting) is not None:
                found[setting] = getattr(self, setting)
        if name == "ucb":
            found["convexity"] = 0.0
        return found

    def owners(self) -> int:
        """How many multipliers there are, where there are several."""
        world = world_preset(self.preset)
        return world.categories if self.multiplier_scope == "group" else world.advertisers

    def identity(self) -> str:
        """Of what differs from the defaults, so that a setting which a later version adds leaves
        the runs from before it as they are.
        """
        usual = asdict(type(self)(self.preset))
        own = {name: value for name, value in asdict(self).items() if value != usual[name]}
        return checksum(canonical_json({**own, "preset": self.preset}))[:8]


@dataclass(frozen=True)
class Plan(LearnerSettings):
    """All that decides what a semi-batch run computes."""

    algorithms: tuple[str, ...] = PAPER_COLUMNS
    """Each has an arm beside the incumbent's."""
    references: tuple[str, ...] = REFERENCES
    """Policies in worlds of their own: constant:K, feedback:AIM, dual:RATE, informed:AIM,
    behaviour-cloning."""
    weeks: Count = 4
    """Deployments after the incumbent's week."""
    world_seed: Seed = 0
    """Seed of the world."""
    history: Literal["shared", "own"] = "shared"
    """Learn from all arms' weeks, or from one's own (and the incumbent's first)."""
    assignment: Literal["switchback", "weekly"] = "switchback"
    """How arms share advertisers."""
    deployed: Literal["sampled", "greedy"] = "sampled"
    """Stochastic policies, which the next update can learn from, or their modes."""
    world_sha256: Annotated[str, Fixed, Suppress] = ""

    @property
    def arms(self) -> tuple[str, ...]:
        """All that share the world; the incumbent last."""
        return (*self.algorithms, INCUMBENT)

    @staticmethod
    def read(folder: Path) -> "Plan":
        path = folder / PLAN
        if not path.exists():
            raise ValueError(f"{folder} holds no semi-batch run (there is no {PLAN})")
        plan = read_settings(path, Plan)
        check_plan(plan)
        return plan


# What the presets of a world mean for learners, where nothing else is said.
SIZES: dict[str, dict[str, Any]] = {
    "smoke": {  # updates of one compiled size
        "updates": 192, "hidden": (32, 32), "weeks": 2,
        "references": ("constant:0.7", "constant:0.9", "feedback:0.9", CLONING),
    },
    "small": {"updates": 20_000},
    "stationary": {"updates": 20_000},
    "hard": {"updates": 20_000},
    "paper-data": {"updates": 10_000, "batch_size": 512},
    "paper": {"updates": 100_000, "batch_size": 512},
}  # fmt: skip


def usual_plan(preset: str) -> Plan:
    if preset not in SIZES:
        raise ValueError(f"no preset {preset!r}; there is: {', '.join(SIZES)}")
    sha = world_hash(world_preset(preset))
    return Plan(**{"preset": preset, "world_sha256": sha, **SIZES[preset]})


def make_plan(preset: str, given: dict[str, Any]) -> Plan:
    """The plan of a preset with what was given instead."""
    to_cup = tuple(name for name in CUP_SETTINGS if name in given)
    plan = checked(usual_plan(preset), **given, given_to_cup=to_cup)
    plan = replace(plan, references=tuple(map(reference_name, plan.references)))
    check_plan(plan)
    return plan


def check_learners(settings: LearnerSettings, algorithms: Sequence[str]) -> None:
    """That there are such algorithms, and that they have these settings."""
    half_life_of(settings.strategy)
    unknown = [name for name in algorithms if name not in ALGORITHMS]
    if unknown:
        raise ValueError(f"no algorithm {unknown[0]!r}; there is: {', '.join(ALGORITHMS)}")
    unable = [name for name in algorithms if name not in CAL_NAMES]
    for option in (option for option, given in settings.special().items() if given and unable):
        raise ValueError(f"{option} is for cal and ucb; {unable[0]} has no such setting")
    if settings.form == "ratio" and settings.constraint_at == "accumulated":
        raise ValueError("--constraint-at accumulated adds to a sum; --form ratio has none")


def is_on_policy(name: str) -> bool:
    return name == CLONING or ALGORITHMS[name].schedule is OnPolicySchedule


def check_plan(plan: Plan) -> None:
    for reference in plan.references:
        reference_name(reference)
    check_learners(plan, plan.algorithms)
    for what, names in (("algorithm", plan.algorithms), ("reference", plan.references)):
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"{what} {twice} is named twice; each has one arm")
    if not plan.algorithms:
        raise ValueError("at least one algorithm is needed (--algorithms cal)")
    on_policy = [name for name in plan.algorithms if is_on_policy(name)]
    if set(on_policy) - {"cup"}:
        raise ValueError(
            f"{on_policy[0]} learns on-policy; of those only cup is set up for logged days"
        )
    if plan.world_sha256 != world_hash(world_preset(plan.preset)):
        raise ValueError(
            f"the world {plan.preset!r} is not the one this run began with (other numbers or "
            "version); go on with the version that began it, or begin anew"
        )


def reference_name(name: str) -> str:
    """The one name that a reference has: `constant:1.0` is `constant:1`."""
    if name == CLONING:
        return name
    rule, _, number = name.partition(":")
    if rule not in RULES:
        raise ValueError(
            f"no reference {name!r}; there is: {', '.join(f'{r}:NUMBER' for r in RULES)}, {CLONING}"
        )
    return f"{rule}:{checked_number(name, rule, number):.15g}"


def arm_folder(folder: Path, name: str) -> Path:
    return folder / "arms" / name


def policy_file(folder: Path, name: str, week: int) -> Path:
    return arm_folder(folder, name) / f"policy-week-{week}.safetensors"


def deployed_policy(folder: Path, plan: Plan, name: str, week: int) -> str:
    """The policy's description for the simulator."""
    return str(policy_file(folder, name, week)) + (GREEDY if plan.deployed == "greedy" else "")


def record_file(folder: Path, name: str, week: int) -> Path:
    return arm_folder(folder, name) / f"week-{week}.json"


def calibration_file(folder: Path, name: str, week: int) -> Path:
    return arm_folder(folder, name) / f"calibration-week-{week}.json"


def results_file(folder: Path, week: int) -> Path:
    return folder / "results" / f"week-{week}.json"


def reference_folder(folder: Path, name: str) -> Path:
    return folder / "references" / name.replace(":", "-")


def kept_files(folder: Path, plan: Plan) -> list[Path]:
    """Of a finished run, all that tables and figures are made of; relative to its folder."""
    weeks = range(1, plan.weeks + 1)
    kept = [folder / PLAN, *(results_file(folder, week) for week in range(plan.weeks + 1))]
    kept += [calibration_file(folder, name, week) for name in plan.algorithms for week in weeks]
    return [path.relative_to(folder) for path in kept]
