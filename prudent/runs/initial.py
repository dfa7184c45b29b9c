"""What a run begins with besides its settings: logged transitions, another run's policy.

They are kept in `initial.safetensors`, written before `run.json`, so that a run that is killed
before its first checkpoint can begin again without them being handed in once more. The run's
settings hold their checksums.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from prudent.files import INITIAL, checksum, read_regular, write_atomically
from prudent.pieces.types import Spec
from prudent.runs.checkpoint import DamagedCheckpoint, load_newest, named_leaves
from prudent.runs.record import earlier_checksums, run_checksums
from prudent.runs.stored import read_stored
from prudent.settings.run import Run
from prudent.training.learner import build_for

LARGEST = 2**36  # bytes
PARAMS, OLD_PARAMS = "policy/params/", "old_policy/"  # the second where CVPO remembers the first
POLICY = (PARAMS, f"learner/{PARAMS}")  # the second where observations are brought to scale
ACTING = (*POLICY, "scaling/")
NORMALISER = "scale/observation"  # an on-policy run's running statistics


def mark_of_rows(rows: np.ndarray) -> str:
    return f"log-{checksum(rows.tobytes())[:8]}"


def mark_of_policy(arrays: Mapping[str, np.ndarray]) -> str:
    policy = {name: array for name, array in arrays.items() if name != "rows"}
    return f"policy-{checksum(save(policy))[:8]}" if policy else "none"


def write_initial(folder: Path, arrays: Mapping[str, np.ndarray]) -> None:
    if arrays:
        content = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        write_atomically(folder / INITIAL, save(content))


def read_initial(folder: Path, run: Run) -> dict[str, np.ndarray]:
    """What the run began with, if it is what its settings say."""
    path = folder / INITIAL
    if not path.exists():
        return {}
    try:
        arrays: dict[str, np.ndarray] = load(read_regular(path, LARGEST))
    except (SafetensorError, OSError) as error:
        raise DamagedCheckpoint(f"{path} was cut short or altered ({error})") from None
    logged = run.warmup.startswith("log-")
    sound = mark_of_policy(arrays) == run.init_from
    if not sound or (logged and mark_of_rows(arrays.get("rows", np.empty(0))) != run.warmup):
        raise DamagedCheckpoint(f"{path} was altered: it is not what the run began with")
    return arrays


def policy_of_run(folder: Path) -> dict[str, np.ndarray]:
    """The arrays with which another run's newest policy acts."""
    stored = read_stored(folder)
    parts = run_checksums(folder)
    earlier = earlier_checksums(folder)
    found = load_newest(
        folder, stored.mark, print, with_replay=False, parts_of_run=parts, earlier=earlier
    )
    if found is None:
        raise ValueError(f"init_from: {folder} has no checkpoint yet")
    state = {name.removeprefix("state/"): array for name, array in found.arrays.items()}
    if not any(name.startswith(POLICY) for name in state):
        raise ValueError(
            f"init_from: {folder} keeps its policy under no name known here (policy.params)"
        )
    return {n: a for n, a in state.items() if n.startswith(ACTING) or n == NORMALISER}


def check_initial(run: Run, spec: Spec, initial: Mapping[str, np.ndarray]) -> None:
    """That the run can begin, and with the policy handed in, before anything is written."""
    algorithm = build_for(run, spec)
    state = jax.eval_shape(algorithm.init, jax.random.key(0))
    check_leaves(state)
    with_initial_policy(state, initial)


def check_leaves(state: Any) -> None:
    """That what is saved of a state can be read again."""
    for name, leaf in named_leaves(state).items():
        try:
            found = load(save({name: np.zeros(1, leaf.dtype)}))[name].dtype
        except (SafetensorError, KeyError, TypeError):
            found = None
        if found != leaf.dtype:
            raise ValueError(
                f"checkpoints cannot keep the state's {name} ({leaf.dtype}) by this name and type; "
                "float32 will do, and for a random key its numbers (jax.random.key_data)"
            )


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
