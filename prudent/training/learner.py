"""An algorithm compiled for one task: each call one dispatch, whatever happens inside."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from prudent.configs import OffPolicySchedule
from prudent.tasks.door import Door
from prudent.types import Algorithm, Spec, transition_from_row


class Learner(NamedTuple):
    """An algorithm compiled for one task. `step` counts environment steps, warm-up included; a
    `moment` is a number no other call of `update` in the run has.
    """

    init: Callable[[], Any]
    act: Callable[..., jax.Array]  # state, observation, step -> unit action
    act_greedily: Callable[..., jax.Array]  # state, observations [N, obs] -> [N, act]
    sample: Callable[..., jax.Array]  # state, observations [N, obs], seed -> [N, act]
    update: Callable[..., tuple[Any, jax.Array]]  # state, rows, moment, first -> state, metrics
    metric_names: tuple[str, ...]


def make_spec(door: Door, cost_budget: float) -> Spec:
    return Spec(
        observation_size=door.observation_size,
        action_size=door.action_size,
        cost_budget=cost_budget,
        action_scale=tuple(door.action_scale.tolist()),
        action_centre=tuple(door.action_centre.tolist()),
    )


def compile_learner(
    algorithm: Algorithm, spec: Spec, schedule: OffPolicySchedule, seed: int
) -> Learner:
    key_init, key_act, key_update, key_evaluate = jax.random.split(jax.random.key(seed), 4)

    def update(
        state: Any, rows: jax.Array, moment: jax.Array, first: jax.Array
    ) -> tuple[Any, dict[str, jax.Array]]:
        data = transition_from_row(rows, spec.observation_size, spec.action_size)
        return algorithm.update(state, data, jax.random.fold_in(key_update, moment), first)

    @partial(jax.jit, donate_argnums=0)
    def update_and_stack(
        state: Any, rows: jax.Array, moment: jax.Array, first: jax.Array
    ) -> tuple[Any, jax.Array]:
        state, metrics = update(state, rows, moment, first)
        return state, jnp.stack([metrics[name] for name in sorted(metrics)])

    width = 2 * spec.observation_size + spec.action_size + 4
    rows = jax.ShapeDtypeStruct((1, schedule.batch_size, width), jnp.float32)
    state = jax.eval_shape(algorithm.init, key_init)
    count = jax.ShapeDtypeStruct((), jnp.int32)
    metrics = jax.eval_shape(update, state, rows, count, count)[1]
    return Learner(
        init=lambda: jax.jit(algorithm.init)(key_init),
        act=jax.jit(lambda s, o, t: algorithm.act(s, o, jax.random.fold_in(key_act, t))),
        act_greedily=jax.jit(algorithm.act_greedily),
        sample=jax.jit(lambda s, o, t: algorithm.act(s, o, jax.random.fold_in(key_evaluate, t))),
        update=update_and_stack,
        metric_names=tuple(sorted(metrics)),
    )
