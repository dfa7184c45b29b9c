"""One gradient step of CAL against the numpy transcription: every number of the state."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from transcription import Settings, cal_step

from prudent.algorithms.cal import cal
from prudent.configs import CALConfig
from prudent.critics import upper_confidence
from prudent.experiments.presets import settings
from prudent.networks import STYLES, ensemble, mlp
from prudent.policies import tanh_gaussian
from prudent.types import Spec, Transition

SPEC = Spec(
    observation_size=5,
    action_size=2,
    cost_budget=1.5,
    action_scale=(0.4, 2.0),
    action_centre=(0.0, 0.5),
)
ROWS = 7


def batch_of(generator: np.random.Generator) -> Transition:
    normal = lambda *shape: generator.normal(size=shape)  # noqa: E731
    return Transition(
        observation=normal(ROWS, 5),
        action=np.tanh(normal(ROWS, 2)),
        reward=normal(ROWS),
        cost=np.abs(normal(ROWS)),
        reward_continues=generator.integers(0, 2, ROWS).astype(float),
        cost_continues=generator.integers(0, 2, ROWS).astype(float),
        next_observation=normal(ROWS, 5),
    )


def members(tree, size):
    arrays = jax.tree.map(np.asarray, tree)
    return [jax.tree.map(lambda a, i=i: a[i], arrays) for i in range(size)]


def plain(state, size):
    """The library's state in the transcription's form."""
    adam = lambda trained: trained.optimiser[0]  # noqa: E731
    rewards, costs = state.rewards, state.costs
    to_numpy = lambda tree: jax.tree.map(np.asarray, tree)  # noqa: E731
    return {
        "count": int(state.updates),
        "policy": to_numpy(state.policy.params),
        "policy_first": to_numpy(adam(state.policy).mu),
        "policy_second": to_numpy(adam(state.policy).nu),
        "rewards": members(rewards.online.params, 2),
        "rewards_first": members(adam(rewards.online).mu, 2),
        "rewards_second": members(adam(rewards.online).nu, 2),
        "reward_targets": members(rewards.target, 2),
        "costs": members(costs.online.params, size),
        "costs_first": members(adam(costs.online).mu, size),
        "costs_second": members(adam(costs.online).nu, size),
        "cost_targets": members(costs.target, size),
        "log_alpha": float(state.temperature.parameter),
        "log_alpha_first": float(adam(state.temperature).mu),
        "log_alpha_second": float(adam(state.temperature).nu),
        "log_lambda": float(state.multiplier.parameter),
        "log_lambda_first": float(adam(state.multiplier).mu),
        "log_lambda_second": float(adam(state.multiplier).nu),
    }


def transcribed(config: CALConfig, drawn, track: bool) -> Settings:
    return Settings(
        k=config.conservatism,
        c=config.convexity,
        ddof=config.spread_ddof,
        budget=SPEC.cost_budget,
        rate=config.learning_rate,
        cost_rate=config.cost_learning_rate,
        dual_rate=config.multiplier_learning_rate,
        discount=config.discount,
        tau=config.target_rate,
        cost_activation=config.cost_network.split("-")[0],
        cost_loss=config.cost_loss,
        dual_action=config.dual_action,
        scale=np.array(SPEC.action_scale),
        centre=np.array(SPEC.action_centre),
        target_entropy=-2.0,
        track=track,
        drawn_members=drawn,
    )


CASES = {
    "paper": settings("cal", "paper", "hopper-velocity")[0],
    "head": settings("cal", "head", "hopper-velocity")[0],
    "head, Humanoid": settings("cal", "head", "humanoid-velocity")[0],
    "SAC-Lag": settings("sac-lag", "head", "hopper-velocity")[0],
    "UCB-k": settings("ucb", "paper", "ant-velocity")[0],
    "biased spread": CALConfig(spread_ddof=0),
    "policy actions in the dual": CALConfig(dual_action="policy"),
    "weight rectified to 0": CALConfig(convexity=1e4),
}


@pytest.mark.parametrize("name", CASES)
def test_two_steps_equal_the_transcription(name, float64):
    config = replace(CASES[name], hidden=(8, 6))
    generator = np.random.default_rng(1)
    # A few steps first, so that moments, targets and multipliers are not at their origin.
    algorithm = cal(config, SPEC)
    state = jax.jit(algorithm.init)(jax.random.key(0))
    data = jax.tree.map(lambda *a: np.stack(a), *[batch_of(generator) for _ in range(3)])
    state, _ = jax.jit(algorithm.update)(state, data, jax.random.key(5))

    batches = [batch_of(generator) for _ in range(2)]
    data = jax.tree.map(lambda *a: np.stack(a), *batches)
    key = jax.random.key(7)
    expected = plain(state, config.cost_critics)
    metrics = []
    for index, step_key in enumerate(jax.random.split(key, 2)):
        key_next, key_now, key_members = jax.random.split(step_key, 3)
        noise = {
            "next": np.asarray(jax.random.normal(key_next, (ROWS, 2))),
            "now": np.asarray(jax.random.normal(key_now, (ROWS, 2))),
        }
        drawn = None
        if config.random_targets:
            drawn = np.asarray(
                jax.random.randint(key_members, (config.random_targets,), 0, config.cost_critics)
            )
        setting = transcribed(config, drawn, track=index == 0)
        expected = cal_step(expected, batches[index]._asdict(), noise, setting)
        metrics.append(expected)
    new_state, found = jax.jit(algorithm.update)(state, data, key)
    result = plain(new_state, config.cost_critics)
    for part, value in result.items():
        jax.tree.map(
            lambda a, b, part=part: np.testing.assert_allclose(
                a, b, rtol=0, atol=1e-9, err_msg=part
            ),
            value,
            expected[part],
        )
    for metric in ("violation", "cost_weight"):
        np.testing.assert_allclose(found[metric], np.mean([m[metric] for m in metrics]), atol=1e-9)


@pytest.mark.parametrize("dual_action", ["policy", "buffer"])
def test_the_policy_follows_the_gradient_of_the_augmented_lagrangian(dual_action, float64):
    """∇(f - (max{0, λ + cG}^2 - λ^2) / 2c): exactly with G on the policy's own actions, and not
    with G on the replay's.
    """
    config = CALConfig(hidden=(8, 6), dual_action=dual_action)
    batch = batch_of(np.random.default_rng(2))
    spec = SPEC._replace(cost_budget=-1.0)  # surely broken, so that the penalty has a slope
    algorithm = cal(config, spec)
    before = jax.jit(algorithm.init)(jax.random.key(0))
    data = jax.tree.map(lambda a: a[None], batch)
    key = jax.random.key(3)
    after, _ = jax.jit(algorithm.update)(before, data, key)
    _, key_now, _ = jax.random.split(jax.random.split(key, 1)[0], 3)

    policy = tanh_gaussian(SPEC, config.hidden)
    style = {"rewards": "relu-xavier", "costs": config.cost_network}
    scale, centre = np.array(SPEC.action_scale)[None], np.array(SPEC.action_centre)[None]
    multiplier, c = config.initial_multiplier, config.convexity

    def values(name, size, action):
        network = ensemble(mlp((7, 8, 6, 1), STYLES[style[name]]), size)
        x = jnp.concatenate([batch.observation, scale * action + centre], axis=-1)
        return network.apply(getattr(after, name).online.params, x)[..., 0]

    def loss(params):
        sample = policy.sample(params, batch.observation, key_now)
        reward = jnp.min(values("rewards", 2, sample.action), axis=0)
        cost = upper_confidence(values("costs", 4, sample.action), config.conservatism, 1)
        violation = jnp.mean(cost) - spec.cost_budget
        penalty = (jnp.maximum(0.0, multiplier + c * violation) ** 2 - multiplier**2) / (2 * c)
        return jnp.mean(config.initial_temperature * sample.log_density - reward) + penalty

    exact = jax.tree.leaves(jax.grad(loss)(before.policy.params))
    used = [moment / 0.1 for moment in jax.tree.leaves(after.policy.optimiser[0].mu)]
    apart = max(float(jnp.max(jnp.abs(a - b))) for a, b in zip(exact, used, strict=True))
    assert apart < 1e-9 if dual_action == "policy" else apart > 1e-3
