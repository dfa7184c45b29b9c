"""One gradient step of CAL against the numpy transcription: every number of the state."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from steps import (
    SPEC,
    WARM,
    assert_same_metrics,
    assert_same_state,
    batch_of,
    moments,
    network_state,
    one_limit,
    several_steps,
)
from support import settings
from transcription import Settings, cal_step

from prudent.algorithms.cal import CALConfig, UCBConfig, cal, ucb
from prudent.algorithms.sac_lag import SACConfig, SACLagConfig, sac, sac_lag
from prudent.pieces.critics import upper_confidence
from prudent.pieces.networks import STYLES, mlp
from prudent.pieces.policies import tanh_gaussian
from prudent.settings.checks import fitting


def plain(state, size):
    """The library's state in the transcription's form."""
    return {
        **network_state(state, {"rewards": 2, "costs": size}),
        **moments("log_alpha", state.temperature, float),
        **plain_multiplier(one_limit(state.dual.multiplier)),
    }


def plain_multiplier(state):
    if not state:  # it never moves
        return {}
    if hasattr(state.optimiser[0], "mu"):
        return moments("multiplier", state, float)
    return {"multiplier": float(state.parameter)}


def transcribed(config, drawn, track: bool) -> Settings:
    """CAL's relatives lack settings, which a value that does nothing stands for."""
    return Settings(
        k=getattr(config, "conservatism", 0.0),
        c=getattr(config, "convexity", 0.0),
        ddof=getattr(config, "spread_ddof", 1),
        budget=SPEC.cost_budget,
        rate=config.learning_rate,
        cost_rate=config.cost_learning_rate,
        dual_rate=getattr(config, "multiplier_learning_rate", 0.0),
        discount=config.discount,
        cost_discount=config.cost_discount,
        tau=config.target_rate,
        cost_activation=config.cost_network.split("-")[0],
        cost_loss=getattr(config, "cost_loss", "mean"),
        dual_action=getattr(config, "dual_action", "buffer"),
        scale=np.array(SPEC.action_scale),
        centre=np.array(SPEC.action_centre),
        in_units=config.critic_action_units == "env",
        target_entropy=-2.0 if config.target_entropy is None else config.target_entropy,
        track=track,
        multiplier=getattr(config, "multiplier", "fixed"),
        rescale=getattr(config, "rescale_policy_loss", False),
        fixed=getattr(config, "initial_multiplier", 0.0),
        drawn_members=drawn,
    )


CASES = {
    "paper": (cal, settings("cal", "paper", "hopper-velocity")[0]),
    "head": (cal, settings("cal", "head", "hopper-velocity")[0]),
    "head, Humanoid": (cal, settings("cal", "head", "humanoid-velocity")[0]),
    "SAC-Lag": (sac_lag, settings("sac-lag", "head", "hopper-velocity")[0]),
    "UCB-k": (ucb, settings("ucb", "paper", "ant-velocity")[0]),
    "biased spread": (cal, CALConfig(spread_ddof=0)),
    "policy actions in the dual": (cal, CALConfig(dual_action="policy")),
    "SAC-Lag with policy actions": (sac_lag, SACLagConfig(dual_action="policy")),
    "weight rectified to 0": (cal, CALConfig(convexity=1e4)),
    "another entropy": (cal, CALConfig(target_entropy=1.5, critic_action_units="unit")),
    "targets counted over the run": (cal, CALConfig(target_counter="global", target_period=3)),
    "SAC": (sac, SACConfig()),
    "a fixed multiplier": (sac_lag, SACLagConfig(multiplier="fixed", rescale_policy_loss=True)),
    "projected": (cal, CALConfig(multiplier="projected_sgd", rescale_policy_loss=True)),
    "by softplus": (ucb, UCBConfig(multiplier="softplus_adam", cost_critics=3)),
}
# No two alike, so that one in the place of another is noticed.
UNEQUAL = {
    "discount": 0.97, "cost_discount": 0.9, "target_rate": 0.02, "learning_rate": 3e-4,
    "cost_learning_rate": 7e-4, "multiplier_learning_rate": 2e-3, "initial_temperature": 0.7,
}  # fmt: skip
KEYS = {sac_lag: 2, sac: 2}  # into which a step splits its own; 3 elsewhere
FIRST = {"head": 1}  # of the block's updates, where it is not the first


def moves_targets(config, first, index):
    count = WARM + index if config.target_counter == "global" else first + index
    return count % config.target_period == 0


@pytest.mark.parametrize("name", CASES)
def test_two_steps_equal_the_transcription(name, float64):
    factory, config = CASES[name]
    config, first = replace(config, **fitting(UNEQUAL, config)), FIRST.get(name, 0)
    members, random_targets = (getattr(config, n, 0) for n in ("cost_critics", "random_targets"))
    members = members or 1
    steps = several_steps(factory, config, first=first)
    expected = plain(steps.before, members)
    metrics = []
    for index, (key_next, key_now, *key_members) in enumerate(steps.keys(KEYS.get(factory, 3))):
        noise = {"next": steps.noise(key_next), "now": steps.noise(key_now)}
        drawn = None
        if random_targets:
            drawn = np.asarray(jax.random.randint(key_members[0], (random_targets,), 0, members))
        setting = transcribed(config, drawn, track=moves_targets(config, first, index))
        expected = cal_step(expected, steps.batches[index], noise, setting)
        metrics.append(expected["metrics"])
    assert_same_state(plain(steps.after, members), expected)
    assert_same_metrics(steps.metrics, metrics)


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

    def values(name, action):
        network = mlp((7, 8, 6, 1), STYLES[style[name]])
        x = jnp.concatenate([batch.observation, scale * action + centre], axis=-1)
        params = getattr(after, name).online.params
        return jax.vmap(network.apply, in_axes=(0, None))(params, x)[..., 0]

    def loss(params):
        sample = policy.sample(params, batch.observation, key_now)
        reward = jnp.min(values("rewards", sample.action), axis=0)
        cost = upper_confidence(values("costs", sample.action), config.conservatism, 1)
        violation = jnp.mean(cost) - spec.cost_budget
        penalty = (jnp.maximum(0.0, multiplier + c * violation) ** 2 - multiplier**2) / (2 * c)
        return jnp.mean(config.initial_temperature * sample.log_density - reward) + penalty

    exact = jax.tree.leaves(jax.grad(loss)(before.policy.params))
    used = [moment / 0.1 for moment in jax.tree.leaves(after.policy.optimiser[0].mu)]
    apart = max(float(jnp.max(jnp.abs(a - b))) for a, b in zip(exact, used, strict=True))
    assert apart < 1e-9 if dual_action == "policy" else apart > 1e-3
