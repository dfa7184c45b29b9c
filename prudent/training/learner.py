"""An algorithm compiled for one task: each call one dispatch, whatever happens inside."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from prudent.algorithms import find_algorithm
from prudent.pieces.types import (
    Algorithm,
    Beside,
    Finished,
    Minibatches,
    Needs,
    PolicyNetwork,
    Spec,
    row_width,
    transition_from_row,
)
from prudent.settings.run import Run
from prudent.settings.schedules import OnPolicySchedule
from prudent.tasks.adapter import AdaptedEnv
from prudent.training.normaliser import normalising


class Rows(NamedTuple):
    """Minibatches as the replay hands them over."""

    packed: Any  # [updates, batch, width]
    first: Any = np.int32(0)  # how many updates of the block came before
    recent: Any = None  # [updates, batch, width], where the algorithm needs them
    finished: Finished | None = None  # the same
    beside: Beside = Beside()  # the same


class Learner(NamedTuple):
    """An algorithm compiled for one task. `step` counts environment steps, warm-up included; a
    `moment` is a number no other call of `update` in the run has.
    """

    algorithm: Algorithm
    init: Callable[[], Any]
    act: Callable[..., jax.Array]  # state, observation, step -> unit action
    act_greedily: Callable[..., jax.Array]  # state, observations [N, obs] -> [N, act]
    sample: Callable[..., jax.Array]  # state, observations [N, obs], seed -> [N, act]
    update: Callable[[Any, Any, int], tuple[Any, jax.Array]]  # state, data, moment -> metrics [M]
    network: Callable[[Any], PolicyNetwork]
    metric_names: tuple[str, ...]
    needs: Needs = Needs()  # what `update` must be given besides batches


def make_spec(
    environment: AdaptedEnv,
    cost_budget: float,
    cost_ahead: tuple[float | None, float | None] = (None, None),
) -> Spec:
    return Spec(
        observation_size=environment.observation_size,
        action_size=environment.action_size,
        cost_budget=cost_budget,
        action_scale=tuple(environment.action_scale.tolist()),
        action_centre=tuple(environment.action_centre.tolist()),
        least_cost_ahead=cost_ahead[0],
        largest_cost_ahead=cost_ahead[1],
    )


def build_for(run: Run, spec: Spec) -> Algorithm:
    """The run's algorithm, for observations as the environment gives them."""
    algorithm = find_algorithm(run.algorithm).build(run.config, spec)
    if not isinstance(algorithm, Algorithm):
        raise ValueError(
            f"{run.algorithm}: build returned a {type(algorithm).__name__}; a "
            "prudent.pieces.types.Algorithm is needed"
        )
    if isinstance(run.schedule, OnPolicySchedule):
        return normalising(algorithm, spec.observation_size)
    return algorithm


def compile_for_rows(algorithm: Algorithm, spec: Spec, batch_size: int, seed: int) -> Learner:
    """For packed replay rows."""
    sizes = spec.observation_size, spec.action_size
    rows = jax.ShapeDtypeStruct((1, batch_size, row_width(*sizes)), jnp.float32)

    def unpacked(rows: Rows) -> Minibatches:
        batches = transition_from_row(rows.packed, *sizes)
        recent = None if rows.recent is None else transition_from_row(rows.recent, *sizes)
        return Minibatches(batches, rows.first, recent, rows.finished, rows.beside)

    return compiled(algorithm, seed, unpacked, needed(algorithm.needs, rows))


COUNT = jax.ShapeDtypeStruct((), jnp.int32)


def needed(needs: Needs, rows: jax.ShapeDtypeStruct) -> Rows:
    """All that one call is given, by shape."""
    number = jax.ShapeDtypeStruct((), jnp.float32)
    kinds = {"owner": jnp.int32}
    beside = {
        name: jax.ShapeDtypeStruct(rows.shape[:2], kinds.get(name, jnp.float32))
        for name in needs.beside
    }
    return Rows(
        packed=rows,
        first=COUNT,
        recent=rows if needs.recent_steps else None,
        finished=Finished(COUNT, number) if needs.finished else None,
        beside=Beside(**beside),
    )


def check_metrics(metrics: Any) -> None:
    shapes = {n: x.shape for n, x in metrics.items()} if isinstance(metrics, dict) else {}
    if not shapes or any(shape for shape in shapes.values()):
        raise ValueError(
            f"the algorithm's update returns metrics {shapes or type(metrics).__name__}; a dict "
            "of scalars, of one at least, is needed"
        )


def compiled(algorithm: Algorithm, seed: int, read: Callable[[Any], Any], example: Any) -> Learner:
    """`read` turns what the loop hands over, such as `example`, into what the algorithm takes."""
    # Keys are arguments, not constants of the compiled programs: all seeds share one compilation.
    key_init, key_act, key_update, key_evaluate = jax.random.split(jax.random.key(seed), 4)

    def learn(
        state: Any, data: Any, key: jax.Array, moment: jax.Array
    ) -> tuple[Any, dict[str, jax.Array]]:
        return algorithm.update(state, read(data), jax.random.fold_in(key, moment))

    @partial(jax.jit, donate_argnums=0)
    def update(state: Any, data: Any, key: jax.Array, moment: jax.Array) -> tuple[Any, jax.Array]:
        state, metrics = learn(state, data, key, moment)
        return state, jnp.stack([metrics[name] for name in sorted(metrics)])

    @jax.jit
    def act(state: Any, observation: jax.Array, key: jax.Array, step: jax.Array) -> jax.Array:
        return algorithm.act(state, observation, jax.random.fold_in(key, step))

    state = jax.eval_shape(algorithm.init, key_init)
    metrics = jax.eval_shape(learn, state, example, key_update, COUNT)[1]
    check_metrics(metrics)
    return Learner(
        algorithm=algorithm,
        init=lambda: jax.jit(algorithm.init)(key_init),
        act=lambda state, observation, step: act(state, observation, key_act, step),
        act_greedily=jax.jit(algorithm.act_greedily),
        sample=lambda state, observations, step: act(state, observations, key_evaluate, step),
        update=lambda state, data, moment: update(state, data, key_update, moment),
        network=algorithm.network,
        metric_names=tuple(sorted(metrics)),
        needs=algorithm.needs,
    )
