"""One gradient step of CAL against the numpy transcription: every number of the state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from steps import SPEC, assert_same_state, batch_of, moments, network_state, several_steps
from support import settings
from transcription import Settings, cal_step

from prudent.algorithms.cal import CALConfig, cal, ucb
from prudent.algorithms.sac_lag import SACLagConfig, sac_lag
from prudent.pieces.critics import upper_confidence
from prudent.pieces.networks import STYLES, ensemble, mlp
from prudent.pieces.policies import tanh_gaussian
from prudent.pieces.types import Minibatches


def plain(state, size):
    """The library's state in the transcription's form."""
    return {
        **network_state(state, {"rewards": 2, "costs": size}),
        **moments("log_alpha", state.temperature, float),
        **moments("log_lambda", state.multiplier, float),
    }


def transcribed(config, drawn, track: bool) -> Settings:
    """CAL's relatives lack settings, which a value that does nothing stands for."""
    return Settings(
        k=getattr(config, "conservatism", 0.0),
        c=getattr(config, "convexity", 0.0),
        ddof=getattr(config, "spread_ddof", 1),
        budget=SPEC.cost_budget,
        rate=config.learning_rate,
        cost_rate=config.cost_learning_rate,
        dual_rate=config.multiplier_learning_rate,
        discount=config.discount,
        tau=config.target_rate,
        cost_activation=config.cost_network.split("-")[0],
        cost_loss=getattr(config, "cost_loss", "mean"),
        dual_action=config.dual_action,
        scale=np.array(SPEC.action_scale),
        centre=np.array(SPEC.action_centre),
        target_entropy=-2.0,
        track=track,
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
}


@pytest.mark.parametrize("name", CASES)
def test_two_steps_equal_the_transcription(name, float64):
    factory, config = CASES[name]
    members, random_targets = (getattr(config, n, 0) for n in ("cost_critics", "random_targets"))
    members = members or 1
    steps = several_steps(factory, config)
    expected = plain(steps.before, members)
    metrics = []
    for index, (key_next, key_now, key_members) in enumerate(steps.keys(3)):
        noise = {"next": steps.noise(key_next), "now": steps.noise(key_now)}
        drawn = None
        if random_targets:
            drawn = np.asarray(jax.random.randint(key_members, (random_targets,), 0, members))
        setting = transcribed(config, drawn, track=index == 0)
        expected = cal_step(expected, steps.batches[index], noise, setting)
        metrics.append(expected)
    assert_same_state(plain(steps.after, members), expected)
    found = steps.metrics
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
    data = Minibatches(jax.tree.map(lambda a: a[None], batch))
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
