"""First experience that is safer than an untrained policy: a policy of the user's, or a log.

A log is a mapping (or an .npz file) of arrays with one row per transition: `observation`, `action`
(in the environment's units), `reward`, `cost`, `next_observation`, and `terminated` (or the two
masks `reward_continues`, `cost_continues`).
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prudent.configs import OffPolicySchedule, Run
from prudent.files import checksum
from prudent.tasks.adapter import AdaptedEnv
from prudent.training.replay_collector import Warmup


class WarmRun(NamedTuple):
    run: Run  # its settings say where the first experience comes from
    warmup: Warmup


def with_warmup(run: Run, source: Any, environment: AdaptedEnv) -> WarmRun:
    schedule = run.schedule
    if source is None:
        return WarmRun(run, Warmup())
    if not isinstance(schedule, OffPolicySchedule):
        raise ValueError(f"warmup: {run.algorithm} learns only from what its own policy does")
    if isinstance(source, str | Path):
        with np.load(source, allow_pickle=False) as file:
            source = dict(file)
    if isinstance(source, Mapping):
        rows = rows_from_log(source, environment)
        if not schedule.batch_size <= len(rows) <= schedule.replay_capacity:
            raise ValueError(
                f"warmup: {len(rows)} logged transitions; between {schedule.batch_size} (one "
                f"batch) and {schedule.replay_capacity} (the replay) are needed"
            )
        mark = f"log-{checksum(rows.tobytes())[:8]}"
        run = replace(run, warmup=mark, schedule=replace(schedule, warmup_steps=0))
        return WarmRun(run, Warmup(rows=rows))
    if callable(source):
        return WarmRun(replace(run, warmup="policy"), Warmup(policy=source))
    raise ValueError(
        f"warmup: a policy (observation -> action), a mapping of arrays or an .npz file is needed, "
        f"not {type(source).__name__}"
    )


def rows_from_log(log: Mapping[str, Any], environment: AdaptedEnv) -> np.ndarray:
    """Packed replay rows; refuses a log that does not fit the environment."""
    needed = ("observation", "action", "reward", "cost", "next_observation")
    missing = [name for name in needed if name not in log]
    if "terminated" not in log and not {"reward_continues", "cost_continues"} <= set(log):
        missing.append("terminated")
    if missing:
        raise ValueError(f"warmup: the log has no {', '.join(missing)}; it has {sorted(log)}")
    count = len(log["reward"])
    continues = 1.0 - np.asarray(log.get("terminated", np.zeros(count)), float)

    def columns(name: str, width: int, values: Any) -> np.ndarray:
        array = np.asarray(values, float).reshape(len(values), -1)
        if array.shape != (count, width):
            raise ValueError(
                f"warmup: {name} has shape {np.shape(values)}, "
                f"{count} rows of {width} numbers are needed"
            )
        if not np.isfinite(array).all():
            raise ValueError(f"warmup: {name} holds a NaN or an infinity")
        return array

    action = columns("action", environment.action_size, log["action"])
    unit_action = (action - environment.action_centre) / environment.action_scale
    if np.abs(unit_action).max(initial=0.0) > 1.0 + 1e-6:
        raise ValueError("warmup: some actions lie outside the environment's bounds")
    return np.concatenate(
        [
            columns("observation", environment.observation_size, log["observation"]),
            np.clip(unit_action, -1.0, 1.0),
            columns("reward", 1, log["reward"]),
            columns("cost", 1, log["cost"]),
            columns("reward_continues", 1, log.get("reward_continues", continues)),
            columns("cost_continues", 1, log.get("cost_continues", continues)),
            columns("next_observation", environment.observation_size, log["next_observation"]),
        ],
        axis=1,
    ).astype(np.float32)
