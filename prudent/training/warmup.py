"""What a run begins with instead of an untrained policy: a policy of the user's or a log for its
first steps, another run's policy for its own.

A log is a mapping (or an .npz file) of arrays with one row per transition: `observation`, `action`
(in the environment's units), `reward`, `cost`, `next_observation`, and `terminated` (or the two
masks `reward_continues`, `cost_continues`).
"""

import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from prudent.runs.checkpoint import load_newest, named_leaves
from prudent.runs.folder import log_name, read_run
from prudent.settings.run import Run
from prudent.settings.schedules import OffPolicySchedule, OnPolicySchedule, SemiBatchSchedule
from prudent.tasks.adapter import AdaptedEnv, in_words
from prudent.tasks.task import check_step_cost

PARAMS, OLD_PARAMS = "policy/params/", "old_policy/"  # the second where CVPO remembers the first
POLICY = (PARAMS, f"learner/{PARAMS}")  # the second where observations are brought to scale
ACTING = (*POLICY, "scaling/")
NORMALISER = "scale/observation"  # an on-policy run's running statistics


class WarmRun(NamedTuple):
    run: Run  # its settings say where the first experience comes from
    first_steps: Callable[[np.ndarray], Any] | None  # a policy for the warm-up
    initial: dict[str, np.ndarray]  # logged transitions, packed for the replay, as `rows`


def with_warmup(run: Run, source: Any, environment: AdaptedEnv) -> WarmRun:
    schedule = run.schedule
    if isinstance(schedule, OnPolicySchedule):
        raise ValueError(f"warmup: {run.algorithm} learns only from what its own policy does")
    if isinstance(source, str | Path):
        source = read_log(Path(source))
    if isinstance(source, Mapping):
        rows = rows_from_log(source, environment)
        check_costs(run, np.ravel(np.asarray(source["cost"], float)))
        if not schedule.batch_size <= len(rows) <= schedule.replay_capacity:
            raise ValueError(
                f"warmup: {len(rows)} logged transitions; between {schedule.batch_size} (one "
                f"batch) and {schedule.replay_capacity} (the replay) are needed"
            )
        if isinstance(schedule, OffPolicySchedule):
            schedule = replace(schedule, warmup_steps=0)
        run = replace(run, warmup=log_name(rows), schedule=schedule)
        return WarmRun(run, None, {"rows": rows})
    if callable(source) and isinstance(schedule, SemiBatchSchedule):
        raise ValueError("warmup: deployments begin with a log; let the policy write one first")
    if callable(source):
        return WarmRun(replace(run, warmup="policy"), checked(source, environment), {})
    raise ValueError(
        f"warmup: a policy (observation -> action), a mapping of arrays or an .npz file is needed, "
        f"not {type(source).__name__}"
    )


def check_costs(run: Run, costs: np.ndarray) -> None:
    """Against what was said of steps, as those of the environment are."""
    try:
        for cost in (costs.min(), costs.max()):
            check_step_cost(run.task, float(cost), run.step_bounds())
    except ValueError as error:
        row = int(np.flatnonzero(costs == cost)[0])
        raise ValueError(f"warmup: row {row} of the log: {error}") from None


def checked(
    policy: Callable[[np.ndarray], Any], environment: AdaptedEnv
) -> Callable[[np.ndarray], np.ndarray]:
    """The policy, refused as soon as it returns what is no action."""
    size = environment.action_size

    def act(observation: np.ndarray) -> np.ndarray:
        action = policy(observation)
        try:
            numbers = np.asarray(action, float).ravel()
        except (TypeError, ValueError):
            numbers = np.empty(0)
        if numbers.size != size:
            raise ValueError(
                f"warmup: the policy returned {in_words(action)}, an action of {size} numbers is "
                "needed"
            )
        if not np.isfinite(numbers).all():
            raise ValueError(
                f"warmup: the policy returned {numbers.tolist()}; finite numbers are needed"
            )
        return numbers

    return act


def read_log(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file; each is read by itself, so that a bad one can be named."""
    if not path.is_file():
        raise ValueError(f"warmup: there is no file {path}")
    log: dict[str, np.ndarray] = {}
    name = ""
    try:
        with zipfile.ZipFile(path) as file:
            names = [entry.removesuffix(".npy") for entry in file.namelist()]
        with np.load(path, allow_pickle=False) as arrays:
            for name in names:
                log[name] = arrays[name]
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, KeyError) as error:
        what = f"{name} cannot be read" if name else "it was cut short or is no .npz file"
        raise ValueError(
            f"warmup: {path}: {what} ({' '.join(str(error).split())}); "
            "write it with numpy.savez, arrays of numbers only"
        ) from None
    return log


def rows_from_log(log: Mapping[str, Any], environment: AdaptedEnv) -> np.ndarray:
    """Packed replay rows; refuses a log that does not fit the environment."""
    needed = ("observation", "action", "reward", "cost", "next_observation")
    missing = [name for name in needed if name not in log]
    if "terminated" not in log and not {"reward_continues", "cost_continues"} <= set(log):
        missing.append("terminated")
    if missing:
        raise ValueError(f"warmup: the log has no {', '.join(missing)}; it has {sorted(log)}")
    count = len(np.atleast_1d(log["reward"]))

    def columns(name: str, width: int, values: Any) -> np.ndarray:
        return as_columns(name, values, count, width)

    def flags(name: str) -> np.ndarray:
        array = columns(name, 1, log[name])
        refuse_rows(f"{name} must be 0 or 1", (array != 0.0) & (array != 1.0), array)
        return array

    continues = 1.0 - flags("terminated") if "terminated" in log else None
    masks = [
        flags(name) if name in log else continues for name in ("reward_continues", "cost_continues")
    ]
    action = columns("action", environment.action_size, log["action"])
    unit_action = (action - environment.action_centre) / environment.action_scale
    outside = np.abs(unit_action) > 1.0 + 1e-6
    refuse_rows("action: some actions lie outside the environment's bounds", outside, action)
    parts = [
        columns("observation", environment.observation_size, log["observation"]),
        np.clip(unit_action, -1.0, 1.0),
        columns("reward", 1, log["reward"]),
        columns("cost", 1, log["cost"]),
        *masks,
        columns("next_observation", environment.observation_size, log["next_observation"]),
    ]
    return np.concatenate(parts, axis=1).astype(np.float32)


def as_columns(name: str, values: Any, count: int, width: int) -> np.ndarray:
    """[count, width], finite and in the range of what the replay keeps."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        array = np.empty(len(values), object)
        array[:] = values
    if array.dtype.kind not in "fiub":
        row, value = next(
            ((row, v) for row, v in enumerate(array.tolist()) if not isinstance(v, float | int)),
            (0, array.flat[0] if array.size else None),
        )
        raise ValueError(
            f"warmup: {name} is no array of numbers but of {array.dtype} "
            f"(row {row}: {in_words(value)})"
        )
    if array.size != count * width or len(np.atleast_1d(array)) != count:
        raise ValueError(
            f"warmup: {name} has shape {array.shape}, {count} rows of {width} numbers are needed"
        )
    array = array.reshape(count, width).astype(float)
    refuse_rows(f"{name} holds a NaN or an infinity", ~np.isfinite(array), array)
    too_large = np.abs(array) > np.finfo(np.float32).max
    refuse_rows(f"{name} is beyond the range of float32", too_large, array)
    return array


def refuse_rows(complaint: str, wrong: np.ndarray, array: np.ndarray) -> None:
    """Name the first offending row, of [rows, width]."""
    if wrong.any():
        row, column = np.argwhere(wrong)[0].tolist()
        raise ValueError(f"warmup: {complaint} (first in row {row}: {array[row, column]:g})")


def policy_of_run(folder: Path) -> dict[str, np.ndarray]:
    """The arrays with which another run's newest policy acts."""
    found = load_newest(folder, read_run(folder).identity, print, with_replay=False)
    if found is None:
        raise ValueError(f"init_from: {folder} has no checkpoint yet")
    state = {name.removeprefix("state/"): array for name, array in found.arrays.items()}
    if not any(name.startswith(POLICY) for name in state):
        raise ValueError(
            f"init_from: {folder} keeps its policy under no name known here (policy.params)"
        )
    return {n: a for n, a in state.items() if n.startswith(ACTING) or n == NORMALISER}


def with_initial_policy(state: Any, initial: Mapping[str, np.ndarray]) -> Any:
    """The learner's first state with the policy it was given, if any."""
    given = {name: a for name, a in initial.items() if name.startswith(ACTING)}
    if not given:
        return state
    leaves = named_leaves(state)
    wanted = {name: leaf for name, leaf in leaves.items() if name.startswith(ACTING)}
    shapes = {n: (x.shape, str(x.dtype)) for n, x in wanted.items()}
    found = {n: (a.shape, str(a.dtype)) for n, a in given.items()}
    if shapes != found:
        different = sorted(n for n in {*shapes, *found} if shapes.get(n) != found.get(n))
        raise ValueError(
            "init_from: that run's policy has another form than this one's (they differ in "
            f"{', '.join(different[:3])}{' and more' if len(different) > 3 else ''}); it needs the "
            "same kind of policy, hidden layers, observations and actions"
        )
    given |= {n.replace(PARAMS, OLD_PARAMS): array for n, array in given.items()}
    merged = [jnp.asarray(given[name]) if name in given else leaf for name, leaf in leaves.items()]
    return jax.tree.unflatten(jax.tree.structure(state), merged)
