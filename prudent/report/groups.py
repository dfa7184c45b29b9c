"""Which runs are seeds of the same settings, and what each group of them is called.

Runs belong together if all their settings are equal, the seed and the preset's name apart, as
`run.json` stores them. The identity stored beside them is not compared: it changed when settings
were added that change nothing unless they are used.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from prudent.report.departures import departures, usual_values
from prudent.report.records import Record
from prudent.report.stored import Entry, Say, note

# Format 1 gained these on the way; a record without one of them was made as if with this value.
ADDED_TO_FORMAT_1: Mapping[str, str] = {
    "warmup": "untrained",
    "schedule.update_every": "1",
    "schedule.update_unit": "steps",
    "schedule.target_steps": "1",
    "schedule.asynchronous": "false",
}
# Format 2 stores these always, and a run of format 1 was made as if with these values.
ADDED_TO_FORMAT_2: Mapping[str, str] = {"cost_source": 'info["cost"]', "init_from": "none"}
# Format 2 stores these only where they are used; see `prudent.settings.checks.LATER`.
UNSTORED: Mapping[str, str] = {
    "config.dual_states": "replay",
    "config.recent_steps": "2000",
    "config.calibration": "none",
    "config.calibration_episodes": "10",
    "config.calibration_limit": "10",
    "config.cost_bounds": "none",
}
# Intervals that change nothing of what is learned; such runs are compared at the steps of all.
UNFELT = {f"schedule.{name}_every" for name in ("evaluate", "checkpoint", "snapshot")}
# Where these differ, runs do not solve the same problem, so that every label must say it.
PROBLEM = ("budget", "discounted", "horizon")
# What follows from `cost_bounds`, which says it already.
IMPLIED = ("least_cost", "largest_cost")


KNOWN = (
    "cal", "sac-lag", "ucb", "sac", "sac-pid", "wcsac", "cvpo",
    "pdo", "rcpo", "ipo", "crpo", "cup", "ppo-lag", "cppo-pid", "ppo",
)  # fmt: skip


class Group(NamedTuple):
    """Runs of the same settings, one per seed."""

    format: int
    settings: dict[str, str]
    records: list[Record]

    @property
    def name(self) -> str:
        """As short as it gets: algorithm and preset (or presets, if they come to the same)."""
        presets = dict.fromkeys(record.run["preset"] for record in self.records)
        return f"{self.settings['algorithm']} ({'/'.join(presets)})"


def shown(value: Any) -> str:
    """A setting as labels show it; equal values look equal, also 10 and 10.0."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value)


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """{"config": {"damping": 0.1}} as {"config.damping": "0.1"}."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = shown(value)
    return found


def settings_of(record: Record) -> dict[str, str]:
    found = flat(record.run)
    del found["seed"], found["preset"]
    if record.format == 1:
        found |= {name: value for name, value in ADDED_TO_FORMAT_1.items() if name not in found}
    return found


Identity = tuple[int, frozenset[tuple[str, str]]]


def identity(record: Record) -> Identity:
    """Equal for runs of equal settings, but never across formats, which store different ones."""
    return record.format, frozenset(settings_of(record).items())


def same_settings(one: Record, other: Record, but: Sequence[str] = ()) -> bool:
    """All of them but these, such as `schedule.steps`. Also across formats: what only the older one
    stores was never read.
    """
    return not differences(one, other) - set(but)


def differences(one: Record, other: Record) -> set[str]:
    """Names of the settings that tell two runs apart."""
    older, newer = sorted((one, other), key=lambda record: record.format)
    before, after = settings_of(older), settings_of(newer)
    names = set(after)
    if older.format == newer.format:
        names |= set(before)
    else:
        before = {**ADDED_TO_FORMAT_2, **before}
    return {name for name in names if before.get(name) != after.get(name)}


def by_label(records: Sequence[Record], say: Say = note) -> dict[str, list[Record]]:
    """Seeds of the same settings together, in the order given. One task only.

    What is left out or kept apart is said; runs without an evaluation are left out.
    """
    tasks = sorted({record.run["task"] for record in records})
    if len(tasks) != 1:
        raise ValueError(f"one task at a time; these runs are of {', '.join(tasks) or 'none'}")
    found = grouped(evaluated(distinct(records, say), say))
    tell_formats(found, say)
    return labelled(found)


def by_task(records: Sequence[Record], say: Say = note) -> dict[str, dict[str, list[Record]]]:
    """Task -> label -> seeds, algorithms and their settings in a fixed order.

    Where one run clashes with another, the first is kept and that is said. (That formats are mixed
    is among the page's cautions.)
    """
    tasks: dict[str, list[Record]] = {}
    for record in evaluated(distinct(records, say, clash=say), say):
        tasks.setdefault(record.run["task"], []).append(record)
    return {task: in_order(labelled(grouped(found))) for task, found in sorted(tasks.items())}


def algorithms_of(tasks: Mapping[str, Mapping[str, Sequence[Record]]]) -> set[str]:
    return {records[0].run["algorithm"] for groups in tasks.values() for records in groups.values()}


def grouped(records: Sequence[Record]) -> list[Group]:
    together: dict[Identity, list[Record]] = {}
    for record in records:
        together.setdefault(identity(record), []).append(record)
    return [Group(found[0].format, settings_of(found[0]), found) for found in together.values()]


def labelled(groups: Sequence[Group]) -> dict[str, list[Record]]:
    found = {label(group, groups): group.records for group in groups}
    assert len(found) == len(groups), "two groups of runs have one label"
    return found


def natural(text: str) -> list[tuple[float, str]]:
    """A key to sort by, in which 2 comes before 10."""
    words = re.split(r"([0-9]+(?:\.[0-9]+)?)", text)
    return [(float(w), "") if i % 2 else (math.inf, w) for i, w in enumerate(words)]


def in_order(groups: Mapping[str, list[Record]]) -> dict[str, list[Record]]:
    """As algorithms are listed everywhere, then by preset and by the settings that differ, 2 before
    10; seeds ascending.
    """
    settings = {label: settings_of(records[0]) for label, records in groups.items()}
    names = differing(list(settings.values()))

    def place(label: str) -> tuple[int, list[list[tuple[float, str]]]]:
        run = groups[label][0].run
        rank = KNOWN.index(run["algorithm"]) if run["algorithm"] in KNOWN else len(KNOWN)
        values = [setting(settings[label], name) or "" for name in names]
        return rank, [natural(word) for word in (run["algorithm"], run["preset"], *values)]

    def seed(record: Record) -> int:
        return int(record.run["seed"])

    return {label: sorted(groups[label], key=seed) for label in sorted(groups, key=place)}


def refuse(fault: str) -> None:
    raise ValueError(f"{fault}; give one of them")


def distinct(records: Sequence[Record], say: Say, clash: Say = refuse) -> list[Record]:
    """Each run once. The same seed twice with different results cannot be two seeds: a clash."""
    kept: dict[tuple[Identity, int], Record] = {}
    for record in records:
        seed = record.run["seed"]
        first = kept.setdefault((identity(record), seed), record)
        if first is record:
            continue
        same_folder = first.folder.resolve() == record.folder.resolve()
        if not same_folder and results(first) != results(record):
            clash(
                f"{first.folder} and {record.folder} have the same settings and the same seed "
                f"({seed}) but different results"
            )
            say(f"{record.folder}: left out")
        else:
            say(f"{record.folder}: the same run as {first.folder}; counted once")
    return list(kept.values())


def results(record: Record) -> tuple[list[Entry], list[Entry]]:
    """What a run computed, without what depends on the clock."""

    def timeless(lines: list[Entry]) -> list[Entry]:
        clock = ("_seconds", "_per_second")
        return [{k: v for k, v in line.items() if not k.endswith(clock)} for line in lines]

    return timeless(record.progress), timeless(record.episodes)


def evaluated(records: Sequence[Record], say: Say) -> list[Record]:
    found = [record for record in records if record.progress]
    if not found:
        raise ValueError(f"no evaluation yet in {', '.join(str(r.folder) for r in records)}")
    for record in records:
        if not record.progress:
            say(f"{record.folder}: no evaluation yet; left out")
    return found


def tell_formats(groups: Sequence[Group], say: Say) -> None:
    for name in dict.fromkeys(group.name for group in groups):
        formats = sorted({group.format for group in groups if group.name == name})
        if len(formats) > 1:
            say(
                f"{name}: records of formats {', '.join(map(str, formats))} are kept apart, since "
                "they store different settings and cannot be compared one by one"
            )


def differing(settings: Sequence[Mapping[str, str]]) -> list[str]:
    """Names of those that are not the same in all of these."""
    names = dict.fromkeys(name for each in settings for name in each)
    found = [name for name in names if len({each.get(name) for each in settings}) > 1]
    implied = IMPLIED if "config.cost_bounds" in found else ()
    return [name for name in found if name not in implied]


def label(group: Group, groups: Sequence[Group]) -> str:
    """Algorithm and preset, then what tells this group from others that share these two, and what
    experiments vary; of both only what is not the preset's own.
    """
    namesakes = [other for other in groups if other.name == group.name]
    comparable = [other for other in namesakes if other.format == group.format]
    everywhere = differing([other.settings for other in groups])
    problem = [name for name in everywhere if name in PROBLEM]
    run = group.records[0].run
    preset = usual_values(run["algorithm"], run["task"], run["preset"])
    usual = {name: shown(value) for name, value in preset.items()}
    own = [
        name
        for name in differing([other.settings for other in comparable])
        if setting(group.settings, name) != usual.get(last_part(name))
    ]
    varied = [name for name in group.settings if last_part(name) in departures(run)]
    names = list(dict.fromkeys([*own, *varied, *problem]))
    details = [described(group.settings, name) for name in names]
    if len(comparable) < len(namesakes):
        details.append(f"format {group.format}")
    return ", ".join([group.name.removesuffix(")"), *details]) + ")"


def described(settings: Mapping[str, str], name: str) -> str:
    last = last_part(name)
    namesakes = [other for other in settings if last_part(other) == last]
    short = last if len(namesakes) < 2 else name
    value = setting(settings, name)
    return f"{short} not recorded" if value is None else f"{short}={value}"


def last_part(name: str) -> str:
    return name.rpartition(".")[2]


def setting(settings: Mapping[str, str], name: str) -> str | None:
    return settings.get(name, UNSTORED.get(name))
