"""Every setting of every algorithm is read, and changes what is computed.

Nothing is compiled: programs are traced and their texts compared.
"""

from dataclasses import fields, replace
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prudent.algorithms import ALGORITHMS
from prudent.pieces.types import Batch, Rollout, Spec
from prudent.settings.schedules import OffPolicySchedule

SPEC = Spec(3, 2, 1.0, (0.5, 2.0), (0.1, 0.0), least_cost_ahead=0.0, largest_cost_ahead=9.0)


def rows(*leading: int) -> dict[str, Any]:
    seen, signal = jnp.zeros((*leading, 3)), jnp.zeros(leading)
    return {
        "observation": seen, "action": jnp.zeros((*leading, 2)), "reward": signal, "cost": signal,
        "reward_continues": signal, "cost_continues": signal, "next_observation": seen,
    }  # fmt: skip


def data_for(algorithm: str) -> Any:
    if ALGORITHMS[algorithm].schedule is OffPolicySchedule:
        batches = Batch(**rows(2, 4))
        extras = {
            "recent": batches,
            "episodes": jnp.zeros(2, int),
            "episode_cost": jnp.zeros((2, 1)),
            "owner": jnp.zeros((2, 4), int),
            "reward_budget": jnp.zeros((2, 4)),
            "accrued": jnp.zeros((2, 4)),
        }
        return batches._replace(index=jnp.arange(2), extras=extras)
    columns = rows(4, 2)
    return Rollout(
        **columns, ends=columns["reward"], violation=jnp.zeros(()), remaining=jnp.ones(())
    )


def programs(algorithm: str, config: Any) -> str:
    """The texts of init, act and update, with the arrays they hold, and what is asked for."""
    built = ALGORITHMS[algorithm].build(config, SPEC)
    key, seen = jax.random.key(0), jnp.zeros((1, 3))
    init = jax.make_jaxpr(built.init)(key)
    state = jax.eval_shape(built.init, key)
    traced = (
        init,
        jax.make_jaxpr(built.act)(state, seen, key),
        jax.make_jaxpr(built.update)(state, data_for(algorithm), key),
    )
    return f"{built.requires}\n" + "\n".join(
        f"{t}\n{[np.asarray(c).tolist() for c in t.consts if hasattr(c, 'tolist')]}" for t in traced
    )


# Where a setting is read only beside others, these.
CHOICES: dict[tuple[str, str], dict[str, Any]] = {
    ("cvpo", "dual_learning_rate"): {"dual_solver": "adam"},
    ("crpo", "clip"): {"base": "ppo"},
    ("crpo", "divergence"): {"base": "ppo"},
    ("crpo", "policy_learning_rate"): {"base": "ppo"},
    ("crpo", "max_gradient_norm"): {"base": "ppo"},
    ("crpo", "rate_decay"): {"base": "ppo"},
    ("cal", "random_targets"): {"cost_critics": 3},
    ("cal", "recent_steps"): {"dual_states": "recent"},
    ("cal", "calibration_episodes"): {"calibration": "episodes"},
    ("cal", "calibration_limit"): {"calibration": "episodes"},
    ("bidding-cal", "ratio_floor"): {"constraint": "ratio"},
    ("bidding-cal", "multiplier_count"): {"multiplier_scope": "group"},
}
SMALL: dict[str, Any] = {"hidden": (4,), "passes": 2, "batch_size": 4, "samples": 3}


def base(algorithm: str) -> Any:
    kind = ALGORITHMS[algorithm].config
    names = {field.name for field in fields(kind)}
    return kind(**{name: value for name, value in SMALL.items() if name in names})


def others(value: Any, hint: Any) -> list[Any]:
    """Values that differ from this one: of each choice, or one more number."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return others(value, parts[0])
    if origin is UnionType or NoneType in parts:
        kinds = [part for part in parts if part is not NoneType]
        return others(0.5 if value is None else value, kinds[0]) + ([] if value is None else [None])
    if origin is Literal:
        return [choice for choice in parts if choice != value]
    if origin is tuple:
        return [(5,)]
    if hint is bool:
        return [not value]
    return [value + 1] if hint is int else [0.75 * value + 0.1]


def asked() -> list[tuple[str, str]]:
    """Each setting in the first algorithm that has it from the same class."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for algorithm, entry in ALGORITHMS.items():
        for field in fields(entry.config):
            owner = next(
                k.__name__ for k in entry.config.__mro__[::-1] if field.name in vars(k).get(
                    "__annotations__", {}
                )
            )  # fmt: skip
            found.setdefault((owner, field.name), (algorithm, field.name))
    return sorted(set(found.values()))


@lru_cache(maxsize=4)
def usual(algorithm: str, beside: tuple[tuple[str, Any], ...]) -> str:
    return programs(algorithm, replace(base(algorithm), **dict(beside)))


@pytest.mark.parametrize(("algorithm", "name"), asked())
def test_a_setting_changes_what_is_computed(algorithm, name):
    beside = CHOICES.get((algorithm, name), {})
    config = replace(base(algorithm), **beside)
    hint = get_type_hints(type(config), include_extras=True)[name]
    before = usual(algorithm, tuple(beside.items()))
    values = others(getattr(config, name), hint)
    assert values
    for value in values:
        assert programs(algorithm, replace(config, **{name: value})) != before, value


def reading(config: Any, read: set[str]) -> Any:
    """The same settings, which note what is asked of them."""
    kind = type(config)

    def note(self: Any, name: str) -> Any:
        read.add(name)
        return object.__getattribute__(self, name)

    noting = type(kind.__name__, (kind,), {"__getattribute__": note})
    return noting(**{field.name: getattr(config, field.name) for field in fields(kind)})


DUAL: dict[str, Any] = {"dual_states": "recent", "calibration": "episodes"}
MODES = {
    "cvpo": [{}, {"dual_solver": "adam"}],
    "crpo": [{}, {"base": "ppo"}],
    "sac-lag": [DUAL],
    "ucb": [DUAL],
    "cal": [DUAL],
    "bidding-cal": [{"constraint": "ratio", "multiplier_scope": "group"}],
}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_setting_is_read(algorithm):
    read: set[str] = set()
    for mode in MODES.get(algorithm, [{}]):
        config = reading(replace(base(algorithm), **mode), read)
        built = ALGORITHMS[algorithm].build(config, SPEC)
        state = jax.eval_shape(built.init, jax.random.key(0))
        jax.eval_shape(built.act, state, jnp.zeros((1, 3)), jax.random.key(0))
        jax.eval_shape(built.update, state, data_for(algorithm), jax.random.key(0))
    assert {field.name for field in fields(ALGORITHMS[algorithm].config)} <= read
