"""What the functions of an algorithm return, held against what is asked of them, before a run of it
begins: by shape, so that nothing is computed.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from prudent.pieces.types import Algorithm, Spec
from prudent.policies.exported import ACTIVATIONS
from prudent.runs.checkpoint import named_leaves
from prudent.settings.run import Run
from prudent.settings.schedules import OnPolicySchedule


def check_algorithm(run: Run, algorithm: Algorithm, spec: Spec) -> None:
    check_leaves(jax.eval_shape(algorithm.init, jax.random.key(0)))
    check_actions(run.algorithm, algorithm, spec)
    if isinstance(run.schedule, OnPolicySchedule):
        check_noise(run.algorithm, algorithm)


def check_actions(name: str, algorithm: Algorithm, spec: Spec) -> None:
    key = jax.random.key(0)
    state = jax.eval_shape(algorithm.init, key)
    functions: dict[str, Any] = {
        "act": (algorithm.act, key),
        "act_greedily": (algorithm.act_greedily,),
    }
    for leading in ((), (3,)):  # one observation, and several
        seen = jax.ShapeDtypeStruct((*leading, spec.observation_size), jnp.float32)
        needed = *leading, spec.action_size
        for what, (function, *more) in functions.items():
            found = getattr(jax.eval_shape(function, state, seen, *more), "shape", "no array")
            if found != needed:
                raise ValueError(
                    f"{name}: for observations of shape {seen.shape}, {what} returns {found}; "
                    f"actions of shape {needed} are needed"
                )


def check_noise(name: str, algorithm: Algorithm) -> None:
    """That an on-policy policy can be played by its plain layers, as `epoch_collector` does."""
    network = algorithm.network(algorithm.init(jax.random.key(0)))
    if network.activation not in ACTIVATIONS or network.log_std is None:
        raise ValueError(
            f"{name}: an on-policy algorithm needs a network with a log_std and an activation of "
            f"{', '.join(ACTIVATIONS)}; this one has {network.activation!r} and log_std "
            f"{'None' if network.log_std is None else 'given'}"
        )


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
