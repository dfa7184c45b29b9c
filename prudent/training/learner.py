"""An algorithm compiled for one task: each call one dispatch, whatever happens inside."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from prudent.pieces.types import (
    Algorithm,
    Batch,
    PolicyNetwork,
    Spec,
    batch_from_rows,
    row_width,
)
from prudent.tasks.adapter import AdaptedEnv


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
    requires: Mapping[str, int] = MappingProxyType({})  # as the algorithm says it


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


COUNT = jax.ShapeDtypeStruct((), jnp.int32)


def compile_for_rows(algorithm: Algorithm, spec: Spec, batch_size: int, seed: int) -> Learner:
    """For a dictionary of `rows` as the replay packs them, [updates, batch, width], `first`, how
    many updates of the block came before, and the extras that the algorithm requires.
    """
    sizes = spec.observation_size, spec.action_size
    rows = jax.ShapeDtypeStruct((1, batch_size, row_width(*sizes)), jnp.float32)
    known = {
        "recent": rows,
        "episodes": jax.ShapeDtypeStruct((1,), jnp.int32),
        "episode_cost": jax.ShapeDtypeStruct(
            (1, algorithm.requires.get("episode_cost", 1)), jnp.float32
        ),
    }
    if unknown := sorted(algorithm.requires.keys() - known):
        raise ValueError(
            f"the algorithm requires {', '.join(unknown)} of every batch, which only a loop of its "
            f"own can give; here there is: {', '.join(known)}"
        )

    def batches(data: dict[str, Any]) -> Batch:
        extras = {name: data[name] for name in algorithm.requires}
        if "recent" in extras:
            extras["recent"] = batch_from_rows(extras["recent"], *sizes)
        index = data["first"] + jnp.arange(len(data["rows"]))
        return batch_from_rows(data["rows"], *sizes)._replace(index=index, extras=extras)

    example = {"rows": rows, "first": COUNT} | {name: known[name] for name in algorithm.requires}
    return compiled(algorithm, seed, batches, example)


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

    @partial(jax.jit, donate_argnums=1)
    def update(key: jax.Array, state: Any, data: Any, moment: jax.Array) -> tuple[Any, jax.Array]:
        state, metrics = learn(state, data, key, moment)
        return state, jnp.stack([metrics[name] for name in sorted(metrics)])

    @jax.jit
    def act(key: jax.Array, state: Any, observation: jax.Array, step: jax.Array) -> jax.Array:
        return algorithm.act(state, observation, jax.random.fold_in(key, step))

    state = jax.eval_shape(algorithm.init, key_init)
    metrics = jax.eval_shape(learn, state, example, key_update, COUNT)[1]
    check_metrics(metrics)
    return Learner(
        algorithm=algorithm,
        init=partial(jax.jit(algorithm.init), key_init),
        act=partial(act, key_act),
        act_greedily=jax.jit(algorithm.act_greedily),
        sample=partial(act, key_evaluate),
        update=partial(update, key_update),
        network=algorithm.network,
        metric_names=tuple(sorted(metrics)),
        requires=algorithm.requires,
    )
